"""One executor per worker, where there is most room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from placement.spread import Room, choose


def room(name: str, free: int, cores: float = 2.0, *, taken: bool = False) -> Room:
    return Room(name, cores, 8192, free, taken)


def test_the_workers_with_the_most_free_memory_come_first() -> None:
    rooms = [room("a", 1000), room("b", 3000), room("c", 2000)]
    assert choose(rooms, 2, 500) == ["b", "c"]


def test_equal_memory_is_settled_by_cores_and_then_by_name() -> None:
    assert choose([room("b", 9), room("a", 9), room("c", 9, 4.0)], 3, 1) == ["c", "a", "b"]


def test_a_worker_that_has_one_or_has_no_room_is_left_out() -> None:
    rooms = [room("a", 4000, taken=True), room("b", 499), room("c", 500)]
    assert choose(rooms, 5, 500) == ["c"]


rooms = st.lists(
    st.builds(room, name=st.integers(0, 99).map(str), free=st.integers(0, 4000), taken=st.booleans()),
    unique_by=lambda r: r.worker_id,
)


@given(rooms, st.integers(0, 9), st.integers(1, 4000))
def test_every_choice_fits_once_and_no_fitting_worker_is_passed_over(asked: list[Room], count: int, need: int) -> None:
    chosen = choose(asked, count, need)
    fitting = {r.worker_id for r in asked if not r.taken and r.free_memory_mb >= need}
    assert len(chosen) == len(set(chosen)) == min(count, len(fitting))
    assert set(chosen) <= fitting

"""Executors that make room for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from placement.plan import fewest
from placement.worker import Occupant, WorkerState
from tests.fakes.fleet import worker


def holding(name: str, *occupants: tuple[int, int]) -> WorkerState:
    """Make a worker with executors of (priority, MiB)."""
    one = worker(name)
    for number, (priority, least_mb) in enumerate(occupants, 1):
        one.add(Occupant(f"{name}{number}/1", f"{name}{number}", priority, 1.0, least_mb))
    return one


def needs(memory_mb: int) -> Callable[[WorkerState, Sequence[Occupant]], bool]:
    return lambda where, gone: where.free_mb + sum(one.least_mb for one in gone) >= memory_mb


def test_the_worker_with_the_fewest_victims_is_taken() -> None:
    a = holding("a", (0, 300), (0, 300), (0, 300))
    b = holding("b", (50, 900))
    victims = fewest([a, b], 100, needs(500))
    assert victims is not None
    assert victims.worker is b
    assert [one.key for one in victims.occupants] == ["b1/1"]


def test_an_executor_that_stays_gives_no_way() -> None:
    one = worker("a")
    one.add(Occupant("x/1", "x", 0, 1.0, 900))
    assert fewest([one], 100, needs(500)) is not None
    one.add(Occupant("x/1", "x", 0, 1.0, 900, stays=True))
    assert fewest([one], 100, needs(500)) is None


def test_the_lowest_priority_goes_first_and_no_executor_in_vain() -> None:
    a = holding("a", (50, 500), (0, 400), (10, 100))
    victims = fewest([a], 100, needs(400))
    assert victims is not None
    assert [one.key for one in victims.occupants] == ["a2/1"]
    # 100 of priority 10 would come before 500 of priority 50, but does not help then
    victims = fewest([a], 100, needs(900))
    assert victims is not None
    assert [one.key for one in victims.occupants] == ["a2/1", "a1/1"]


def test_of_as_many_victims_the_lower_priority_counts() -> None:
    victims = fewest([holding("a", (50, 900)), holding("b", (0, 900))], 100, needs(500))
    assert victims is not None
    assert victims.worker.worker_id == "b"


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 300)), max_size=8), st.integers(0, 100), st.integers(1, 1200))
def test_victims_are_of_lower_priority_and_each_is_needed(
    there: list[tuple[int, int]], priority: int, memory_mb: int
) -> None:
    where, enough = holding("a", *there), needs(memory_mb)
    victims = fewest([where], priority, enough)
    if victims is None:
        assert not enough(where, [one for one in where.occupants.values() if one.priority < priority])
        return
    assert all(one.priority < priority for one in victims.occupants)
    assert enough(where, victims.occupants)
    for one in victims.occupants:
        assert not enough(where, [other for other in victims.occupants if other is not one])

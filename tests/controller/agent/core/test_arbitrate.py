"""Arbitration on a worker: the rules of docs/control.md as examples, then as properties."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from controller.agent.core.arbitrate import CoreRequest, arbitrate
from controller.runtime.base import ExecutorKey
from stage_model.units import PRIORITIES

CQ = 0.05


def ask(
    key: str,
    demand: float,
    *,
    floor: float = 0.1,
    priority: int = 50,
    left_s: float | None = 100.0,
    beyond_saving: bool = False,
    debt_core_s: float = 0.0,
) -> CoreRequest:
    return CoreRequest(ExecutorKey(key, "1"), demand, floor, priority, left_s, beyond_saving, debt_core_s)


def granted(requests: Sequence[CoreRequest], capacity: float) -> dict[ExecutorKey, float]:
    return arbitrate(requests, capacity, CQ, 1.0)


def shared(requests: Sequence[CoreRequest], capacity: float) -> dict[str, float]:
    """Return the cores that each application gets."""
    return {key.application_id: cores for key, cores in granted(requests, capacity).items()}


def test_within_a_priority_the_earliest_deadline_is_first() -> None:
    got = shared([ask("later", 3, left_s=60), ask("sooner", 3, left_s=50)], 4)
    # sooner: 3; later: the other 1.
    assert got == {"later": 1.0, "sooner": 3.0}


def test_deadlines_closer_than_a_period_share_in_proportion() -> None:
    got = shared([ask("a", 4, floor=0.05, left_s=50), ask("b", 2, floor=0.05, left_s=50.9)], 3)
    # Above floors: 3.95 and 1.95 asked, 2.9 = 58 quanta there: 79/118 * 58 = 38.8, 39/118 * 58 = 19.2 -> 39 and 19.
    assert got == {"a": 2.0, "b": 1.0}


def test_a_deadline_a_period_away_is_not_equal() -> None:
    assert shared([ask("a", 4, left_s=50), ask("b", 4, left_s=51)], 4) == {"a": 3.9, "b": 0.1}


def test_applications_that_can_keep_their_deadline_come_before_the_others() -> None:
    requests = [
        ask("none", 4, left_s=None),
        ask("past", 4, left_s=-3),
        ask("lost", 4, left_s=5, beyond_saving=True),
        ask("fine", 2, left_s=500),
    ]
    # Floors 0.4 and 1.9 for `fine`; `past` and `lost` owe alike and share 1.7 = 34 quanta; `none` keeps its floor.
    assert shared(requests, 4) == {"none": 0.1, "past": 0.95, "lost": 0.95, "fine": 2.0}


def test_of_the_late_ones_the_largest_debt_is_first() -> None:
    got = shared([ask("a", 3, left_s=-1, debt_core_s=5), ask("b", 3, left_s=-1, debt_core_s=9)], 4)
    assert got == {"a": 1.0, "b": 3.0}


def test_without_a_deadline_one_gets_what_the_others_leave() -> None:
    assert shared([ask("a", 8, left_s=None), ask("b", 1)], 2) == {"a": 1.0, "b": 1.0}


def test_floors_that_exceed_the_capacity_shrink_alike() -> None:
    # 30 floors of 0.1 on 2 cores: 0.0667 each -> one quantum.
    got = shared([ask(str(i), 4, priority=i) for i in range(30)], 2)
    assert set(got.values()) == {0.05}
    # 60 of them: 0.0333 is below a quantum -> whole hundredths.
    assert set(shared([ask(str(i), 4) for i in range(60)], 2).values()) == {0.03}
    # Not below 0.01, although that is more than there is.
    assert set(shared([ask(str(i), 4) for i in range(300)], 2).values()) == {0.01}


def test_the_capacity_is_rounded_down() -> None:
    assert shared([ask("a", 9)], 1.99) == {"a": 1.95}
    assert shared([ask("a", math.inf)], 2) == {"a": 2.0}
    assert shared([], 2) == {}


requests = st.lists(
    st.builds(
        ask,
        key=st.integers(0, 10_000).map(str),
        demand=st.floats(0, 12),
        floor=st.sampled_from([0.05, 0.1, 0.1, 0.2, 0.5]),
        priority=st.sampled_from([0, 50, 100]),
        left_s=st.none() | st.floats(-50, 500),
        beyond_saving=st.booleans(),
        debt_core_s=st.sampled_from([0.0, 1.0, 30.0]),
    ),
    max_size=12,
    unique_by=lambda request: request.key,
)
backfills = st.lists(
    st.builds(
        ask,
        key=st.integers(0, 99).map("backfill-{}".format),
        demand=st.floats(0, 12),
        floor=st.sampled_from([0.05, 0.1, 0.2]),
        priority=st.just(PRIORITIES["backfill"]),
        left_s=st.none() | st.floats(-50, 500),
        beyond_saving=st.booleans(),
        debt_core_s=st.sampled_from([0.0, 30.0]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda request: request.key,
)
capacities = st.floats(0.2, 16)


def ceil_q(cores: float) -> float:
    return math.ceil(cores / CQ - 1e-9) * CQ


@given(requests, capacities)
def test_grants_keep_the_rules_whatever_is_asked_for(asked: list[CoreRequest], capacity: float) -> None:
    got = granted(asked, capacity)
    assert math.fsum(got.values()) <= max(capacity, 0.01 * len(asked)) + 1e-9
    assert all(0.01 <= got[r.key] <= ceil_q(max(r.demand, r.floor)) + 1e-9 for r in asked)
    if math.fsum(ceil_q(r.floor) for r in asked) > math.floor(capacity / CQ + 1e-9) * CQ + 1e-9:
        assert all(got[r.key] <= r.floor + 1e-9 for r in asked)
        assert len({(r.floor, got[r.key]) for r in asked}) == len({r.floor for r in asked}), "equal floors get equal cores"
        return
    assert all(got[r.key] >= r.floor - 1e-9 for r in asked)
    assert all(cores / CQ == pytest.approx(round(cores / CQ)) for cores in got.values())
    short = [r for r in asked if got[r.key] < ceil_q(min(max(r.demand, r.floor), capacity)) - CQ / 2]
    assert not short or capacity - math.fsum(got.values()) < CQ + 1e-9, "nothing is left while someone is short"
    for high in short:
        assert all(got[low.key] <= ceil_q(low.floor) + 1e-9 for low in asked if low.priority < high.priority)


@given(requests, capacities)
def test_asking_for_what_one_got_changes_nothing(asked: list[CoreRequest], capacity: float) -> None:
    got = granted(asked, capacity)
    if math.fsum(ceil_q(r.floor) for r in asked) > capacity:
        return
    again = granted([structs.replace(r, demand=got[r.key]) for r in asked], capacity)
    assert again == pytest.approx(got)


@given(requests, capacities, st.randoms(use_true_random=False))
def test_the_order_of_requests_does_not_matter(asked: list[CoreRequest], capacity: float, shuffler: random.Random) -> None:
    mixed = list(asked)
    shuffler.shuffle(mixed)
    assert granted(mixed, capacity) == granted(asked, capacity)


@given(requests, backfills, st.integers(4, 320))
def test_backfills_take_only_their_floors(others: list[CoreRequest], late_comers: list[CoreRequest], quanta: int) -> None:
    capacity, kept = quanta * CQ, sum(round(ceil_q(r.floor) / CQ) for r in late_comers)
    assume(kept + sum(round(ceil_q(r.floor) / CQ) for r in others) <= quanta)
    got, without = granted([*others, *late_comers], capacity), granted(others, capacity)
    of_others = {r.key: got[r.key] for r in others}
    # Whatever the backfills ask for: the others share what a worker without the floors of the backfills has.
    assert of_others == granted(others, (quanta - kept) * CQ)
    assert math.fsum(without.values()) - math.fsum(of_others.values()) <= kept * CQ + 1e-9
    # Shares are rounded to quanta, so that one of the others may lose a quantum more, which another one has.
    assert all(without[key] - of_others[key] <= (kept + 1) * CQ + 1e-9 for key in without)
    assert all(got[r.key] >= r.floor - 1e-9 for r in late_comers), "none starves"

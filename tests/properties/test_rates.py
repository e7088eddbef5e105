"""Rates never take from the highest priority that wants something, never exceed the limit, and all end when it is calm."""

from __future__ import annotations

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from controller.agent.core.arbitrate import CoreRequest
from controller.agent.core.rates import (
    CALM_S,
    FLOOR,
    GROWTH,
    IDLE,
    QUANTUM,
    REACHED,
    Busy,
    Meter,
    Sharer,
    ThingUse,
    joint_rates,
)
from controller.runtime.base import ExecutorKey

parts = st.floats(0, 2)
pairs = st.tuples(parts, parts)


@st.composite
def some_uses(draw: st.DrawFn) -> list[ThingUse]:
    uses = []
    for number in range(draw(st.integers(0, 8))):
        left_s = draw(st.none() | st.floats(-10, 1000))
        request = CoreRequest(ExecutorKey(f"a{number}", "1"), 0.0, 0.0, draw(st.sampled_from([-1, 0, 50, 100])), left_s)
        asked = None if left_s is None else draw(st.none() | pairs | st.just((math.inf, math.inf)))
        uses.append(ThingUse(Sharer(request, watched=draw(st.booleans())), draw(pairs), asked))
    return uses


looks = st.lists(st.tuples(st.floats(0.1, 10), some_uses()), min_size=1, max_size=12)


@given(looks)
def test_rates_are_only_for_lower_priorities_and_end_when_it_is_calm(course: list[tuple[float, list[ThingUse]]]) -> None:
    busy, now_s = Busy(), 0.0
    for elapsed_s, uses in course:
        now_s += elapsed_s
        rates, busy = joint_rates(uses, busy, now_s, 1.0)
        by_key = {one.sharer.request.key: one for one in uses}
        wanting = [one for one in uses if sum(one.used) >= IDLE or sum(one.asked or (0, 0)) > 0]
        for key, (read, written) in rates.items():
            assert not by_key[key].sharer.watched
            assert by_key[key].sharer.request.priority < max(one.sharer.request.priority for one in uses)
            assert min(read, written) > 0, "nothing stands still"
        if wanting and rates:
            highest = max(one.sharer.request.priority for one in wanting)
            lower = [one for one in uses if one.sharer.request.priority < highest and not one.sharer.watched]
            assert not lower or set(rates) == {one.sharer.request.key for one in lower}
        above = [sum(pair) for pair in rates.values() if sum(pair) > FLOOR + 1e-9]
        assert sum(above) <= 1 + 1e-6, "those that want none may have their floor besides"
    calm = [ThingUse(one.sharer, (0.0, 0.0)) for one in course[-1][1]]
    for _ in range(2):
        rates, busy = joint_rates(calm, busy, now_s := now_s + CALM_S, 1.0)
    assert (rates, busy.busy_s) == ({}, None)


@given(some_uses(), st.randoms())
def test_the_order_of_executors_makes_no_difference(uses: list[ThingUse], random: object) -> None:
    mixed = list(uses)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    busy = Busy(1.0, 9.0)
    first, second = (joint_rates(some, busy, 10.0, 1.0)[0] for some in (uses, mixed))
    assert first.keys() == second.keys()
    assert all(math.isclose(a, b) for key in first for a, b in zip(first[key], second[key], strict=True))


@given(
    low=st.floats(0, 1),
    high=st.floats(0.02, 1),
    phase_s=st.floats(0, 0.999),
    unseen=st.booleans(),
)
def test_the_lower_one_is_held_two_looks_after_the_higher_one_has_filled_the_device(
    low: float, high: float, phase_s: float, unseen: bool
) -> None:
    """The higher one arrives at any moment between two looks, in a process that was idle or that is `unseen` before."""
    assume(low + high > REACHED + 1e-6)
    arrived_s, keys = 20 + phase_s, (ExecutorKey("low", "1"), ExecutorKey("high", "1"))
    meters, busy = [Meter(1, (0.0, 0.0), 0.0), Meter(1, (0.0, 0.0), 0.0)], Busy()
    rates: dict[ExecutorKey, tuple[float, float]] = {}
    for look in range(1, 23):
        done = (low * look, high * max(0.0, look - arrived_s))
        if unseen and look == 21:
            meters[1] = Meter(2, (done[1], 0.0), float(look))
        pids = (1, 2 if unseen and look > 20 else 1)
        meters = [meter.after(pid, (one, 0.0), float(look)) for meter, pid, one in zip(meters, pids, done, strict=True)]
        sharers = [Sharer(CoreRequest(key, 0.0, 0.0, rank)) for key, rank in zip(keys, (0, 100), strict=True)]
        uses = [ThingUse(one, meter.rates, None, meter.mean) for one, meter in zip(sharers, meters, strict=True)]
        rates, busy = joint_rates(uses, busy, float(look), 1.0)
        assert look > arrived_s or not rates
    assert sum(rates[keys[0]]) <= max(FLOOR, 1 - GROWTH * high) + QUANTUM

"""Rates never take from the highest priority that wants something, never exceed the limit, and all end when it is calm."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from controller.agent.core.arbitrate import CoreRequest
from controller.agent.core.rates import CALM_S, FLOOR, IDLE, Busy, Sharer, ThingUse, joint_rates
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

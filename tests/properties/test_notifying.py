"""Deliveries, whatever receivers answer and whenever: the queue is bounded, tries are few and ever rarer, all is counted.
Waits between tries grow to their bound, however often something fails. Of events in whatever order, an end is notified of
once, and a deadline at risk only after it was late for long enough."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.machine.back_off import BackOff
from controller.master.notify import deliveries
from controller.master.notify.deliveries import Deliveries, ReceiverAnswer, answer_of
from controller.master.notify.events import AT_RISK_FOR_S, AT_RISK_S, EventWatch, JobLook
from controller.wire.states import Outcome

back_offs = st.builds(BackOff, first_s=st.floats(0.001, 10.0), most_s=st.floats(0.001, 100.0))
answers = st.sampled_from(("taken", "again", "refused"))
moves = st.lists(st.tuples(st.sampled_from(("put", "try", "wait")), answers, st.floats(0.0, 50.0)), max_size=120)


@given(back_offs, st.integers(1, 10**9))
def test_waits_double_up_to_their_bound(back_off: BackOff, failures: int) -> None:
    before_s, after_s = back_off.wait_s(failures), back_off.wait_s(failures + 1)
    assert 0 < before_s <= back_off.most_s
    assert after_s == pytest.approx(min(back_off.most_s, 2 * before_s))


@given(back_offs)
def test_the_first_wait_is_the_shortest(back_off: BackOff) -> None:
    assert back_off.wait_s(1) == min(back_off.first_s, back_off.most_s)


@given(back_offs, st.integers(1, 9), moves)
def test_each_is_sent_given_up_or_dropped_and_the_queue_is_bounded(
    back_off: BackOff, tries: int, moves: list[tuple[str, ReceiverAnswer, float]]
) -> None:
    queue, now_s, put = Deliveries(back_off, tries), 0.0, 0
    tried: dict[str, list[float]] = {}
    for move, answer, seconds in moves:
        if move == "put":
            put += 1
            queue.put(str(put), b"", now_s)
        elif move == "wait":
            now_s += seconds
        elif (due := queue.next_due(now_s)) is not None:
            tried.setdefault(due.notification_id, []).append(now_s)
            goes_on = queue.answered(due, answer, now_s)
            assert goes_on == (answer == "taken" or (answer == "again" and len(tried[due.notification_id]) < tries))
        assert sum(queue.counts.values()) + queue.waiting == put
        assert queue.waiting <= deliveries.MOST_WAITING
        left_s = queue.wait_s(now_s)
        assert (left_s is None) == (queue.waiting == 0)
        assert (left_s == 0.0) == (queue.next_due(now_s) is not None)
    for times in tried.values():
        assert len(times) <= tries
        waits = [later - before for before, later in pairwise(times)]
        for failed, wait_s in enumerate(waits, 1):
            assert wait_s >= back_off.wait_s(failed) - 1e-6


@given(st.integers(1, 400))
def test_a_full_queue_drops_the_newest(count: int) -> None:
    queue = Deliveries()
    kept = [queue.put(str(number), b"", 0.0) for number in range(count)]
    assert Counter(kept) == Counter([True] * min(count, deliveries.MOST_WAITING) + [False] * max(0, count - 200))
    order = list[str]()
    while (due := queue.next_due(0.0)) is not None:
        order.append(due.notification_id)
        queue.answered(due, "taken", 0.0)
    assert order == [str(number) for number in range(min(count, 200))], "in the order in which they came"


@given(st.integers(100, 599))
def test_only_success_is_taken_and_no_redirect_is_followed(status: int) -> None:
    answer = answer_of(status)
    assert (answer == "taken") == (200 <= status < 300)
    assert not (300 <= status < 400) or answer == "refused"


# ---------------------------------------------------------------- what is notified of

DEADLINE_S = 100.0
forecasts = st.one_of(st.none(), st.sampled_from((90.0, DEADLINE_S + AT_RISK_S, DEADLINE_S + AT_RISK_S + 0.1, 200.0)))
states = st.tuples(st.sampled_from(("missing", "running", "ended")), forecasts)
looks = st.lists(st.tuples(st.floats(0.1, 20.0), states, states), max_size=40)


def seen(name: str, state: str, forecast_end_s: float | None) -> list[JobLook]:
    outcome = Outcome.SUCCEEDED if state == "ended" else None
    return [] if state == "missing" else [JobLook(name, name, 1.0, DEADLINE_S, forecast_end_s, outcome)]


@given(looks)
def test_reported_events_did_happen(course: list[tuple[float, tuple[str, float | None], tuple[str, float | None]]]) -> None:
    watch, now_s = EventWatch(), 0.0
    over, late_since = set[str](), dict[str, float]()
    counted, at_risk_s = Counter[str](), dict[str, float]()
    for number, (seconds, *both) in enumerate(course):
        now_s += seconds
        # no application comes back from its end
        states = {name: ("ended" if name in over else state, end) for name, (state, end) in zip("ab", both, strict=True)}
        events = watch.events([look for name, (state, end) in states.items() for look in seen(name, state, end)], now_s)
        for name, (state, end) in states.items():
            late = state == "running" and end is not None and end - DEADLINE_S > AT_RISK_S
            late_since = {**late_since, name: late_since.get(name, now_s)} if late else _without(late_since, name)
            if state == "ended":
                counted[name] += number == 0  # before the first look: of an earlier life
                over.add(name)
        for event in events:
            name = event.name
            if event.event == "application_ended":
                assert name in over
                counted[name] += 1
            else:
                assert now_s - late_since[name] >= AT_RISK_FOR_S
                assert now_s - at_risk_s.get(name, -AT_RISK_FOR_S) >= AT_RISK_FOR_S
                at_risk_s[name] = now_s
    assert counted == Counter(dict.fromkeys(over, 1))


def _without(values: dict[str, float], name: str) -> dict[str, float]:
    return {key: value for key, value in values.items() if key != name}

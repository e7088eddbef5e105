"""Deliveries, whatever receivers answer and whenever: the queue is bounded, tries are few and ever rarer, all is counted.
Waits between tries grow to their bound, however often something fails."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.machine.back_off import BackOff
from controller.master.notify import deliveries
from controller.master.notify.deliveries import Deliveries, ReceiverAnswer, answer_of

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

"""Patches of a pod's CPU and their times: by examples, and what holds whatever happens."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.runtime.kubernetes.pod_cpu import BEST_EFFORT, BURSTABLE, DEFERRED, GUARANTEED, CpuM, PodCpu
from controller.runtime.kubernetes.pod_resize import (
    FLOOR_M,
    INTERVAL_S,
    RETRY_S,
    Due,
    Paced,
    Wish,
    another_writer,
    let_go,
    next_step,
    refused,
    risk,
    seen,
    why_not_paced,
)


def pod(limit_m: int | None = 600, request_m: int | None = 400, **changed: Any) -> PodCpu:
    """Make a pod whose wanted amounts are in force."""
    cpu = CpuM(limit_m, request_m)
    plain = PodCpu("uid", "jobs", "exec-1", "spark-kubernetes-executor", wanted=cpu, actual=cpu)
    return replace(plain, **changed)


def done(limit_m: int | None = 600, request_m: int | None = 400) -> Paced:
    return Paced(CpuM(limit_m, request_m))


def step(
    cores: float, need: float | None = None, of: PodCpu | None = None, has: Paced | None = None, now_s: float = 0.0
) -> Due:
    return next_step(of or pod(), Wish(cores, need), has or done(), now_s)


@pytest.mark.parametrize(
    ("cores", "need", "patch"),
    [
        (0.5, None, CpuM(500, 400)),  # the limit follows the grant
        (0.3, None, CpuM(300, 299)),  # a request is below its limit
        (2.0, None, CpuM(2000, 400)),
        (0.5, 0.1, CpuM(500, 120)),  # 0.1 and a fifth of it
        (0.5, 0.123, CpuM(500, 150)),  # 0.1476, in steps upwards
        (0.5, 5.0, CpuM(500, 400)),  # no more than it was
        (0.5, 0.0, CpuM(500, FLOOR_M)),
        (0.01, None, CpuM(FLOOR_M, FLOOR_M - 1)),
        (0.62, None, None),  # less than 0.05 from what it has
        (0.55, None, CpuM(550, 400)),  # just that
    ],
)
def test_what_is_patched(cores: float, need: float | None, patch: CpuM | None) -> None:
    assert step(cores, need).patch == patch


def test_a_small_quota_moves_by_small_steps() -> None:
    assert step(0.03, of=pod(20, 19), has=done(20, 19)).patch == CpuM(30, 19)


def test_a_pod_without_a_limit_gets_one() -> None:
    assert step(0.6, of=pod(None, 400), has=done(None, 400)).patch == CpuM(600, 400)


@pytest.mark.parametrize(("cores", "both_m"), [(0.25, 250), (5.0, None), (0.01, 10)])
def test_a_guaranteed_pod_moves_as_one_up_to_what_it_was(cores: float, both_m: int | None) -> None:
    found = step(cores, 0.05, of=pod(500, 500, qos=GUARANTEED), has=done(500, 500)).patch
    assert found == (None if both_m is None else CpuM(both_m, both_m))


def test_one_without_amounts_is_refused() -> None:
    assert "request.cores" in why_not_paced(pod(None, None, qos=BEST_EFFORT))
    assert "request.cores" in why_not_paced(pod(None, None))  # another container of it has some
    assert why_not_paced(pod()) == ""


def test_the_next_patch_waits_for_its_second() -> None:
    first = step(0.5, now_s=10.0)
    assert (first.patch, first.again_s) == (CpuM(500, 400), 10.0 + INTERVAL_S)
    early = next_step(pod(500, 400), Wish(0.9), first.done, 10.4)
    assert (early.patch, early.again_s) == (None, 11.0)
    assert next_step(pod(500, 400), Wish(0.9), first.done, 11.0).patch == CpuM(900, 400)


def test_the_limit_rises_before_the_request_as_it_needs_no_room() -> None:
    low = pod(100, 99)
    first = step(0.5, of=low)
    assert first.patch == CpuM(500, 99)
    not_yet = replace(low, wanted=CpuM(500, 99))
    assert next_step(not_yet, Wish(0.5), first.done, 5.0).patch is None
    assert next_step(pod(500, 99), Wish(0.5), first.done, 5.0).patch == CpuM(500, 400)


def test_a_request_that_the_kernel_has_rounded_is_what_was_asked_for() -> None:
    rounded = pod(500, 400, actual=CpuM(500, 391))
    assert next_step(rounded, Wish(0.5), done(), 0.0).patch is None
    assert next_step(rounded, Wish(0.9), done(), 0.0).patch == CpuM(900, 400)
    assert let_go(pod(200, 150, actual=CpuM(200, 146)), done(600, 150), 2) == (CpuM(600, 150),)


def waiting(reason: str = DEFERRED) -> PodCpu:
    """Make a pod whose request should be 400 again, while its node has 100 set aside."""
    return pod(500, 400, actual=CpuM(500, 100), pending=reason, message="no cpu left")


def test_a_raise_that_waits_is_told_taken_back_and_tried_again() -> None:
    asked = replace(done(), sent=CpuM(500, 400), sent_s=0.0)
    told = seen(waiting(), asked, 1.0)
    assert "deadline is at risk" in risk(waiting(), told)
    assert "Deferred: no cpu left" in risk(waiting(), told)
    # meanwhile limits go on moving above what the node has set aside
    moved = next_step(waiting(), Wish(0.9), told, 1.0)
    assert moved.patch == CpuM(900, 100)
    held = seen(pod(900, 100), moved.done, 2.0)
    still = next_step(pod(900, 100), Wish(0.9), held, 2.0)
    assert (still.patch, still.again_s) == (None, 1.0 + RETRY_S)
    again = next_step(pod(900, 100), Wish(0.9), held, 1.0 + RETRY_S)
    assert again.patch == CpuM(900, 400)
    assert risk(pod(900, 100), again.done)
    at_last = next_step(pod(900, 400), Wish(0.9), seen(pod(900, 400), again.done, 40.0), 40.0)
    assert (at_last.patch, risk(pod(900, 400), at_last.done)) == (None, "")


def test_who_needs_no_more_than_there_is_room_for_is_at_no_risk() -> None:
    told = seen(waiting(), done(), 1.0)
    after = next_step(pod(500, 100), Wish(0.5, need=0.05), told, 2.0 + RETRY_S)
    assert risk(pod(500, 100), after.done) == ""


def test_a_guaranteed_pod_without_room_keeps_what_it_has() -> None:
    stuck = pod(500, 500, qos=GUARANTEED, actual=CpuM(200, 200), pending=DEFERRED)
    told = seen(stuck, done(500, 500), 1.0)
    assert next_step(stuck, Wish(0.5), told, 1.0).patch == CpuM(200, 200)


def test_what_a_node_cannot_do_rests_for_a_while() -> None:
    stuck = pod(300, 100, actual=CpuM(500, 100), pending="Infeasible", message="static CPU policy")
    told = seen(stuck, done(), 1.0)
    assert "Infeasible: static CPU policy" in risk(stuck, told)
    rests = next_step(stuck, Wish(0.9), told, 2.0)
    assert (rests.patch, rests.again_s) == (None, 1.0 + RETRY_S)
    assert next_step(stuck, Wish(0.9), told, 1.0 + RETRY_S).patch == CpuM(900, 100)


def test_after_a_refusal_only_what_it_raised_is_left_out() -> None:
    low = pod(500, 100)
    # the request
    tried = next_step(low, Wish(0.5), done(), 0.0)
    assert tried.patch == CpuM(500, 400)
    after = refused(tried.done, low, 0.0, wholly=False)
    assert next_step(low, Wish(0.7), after, 1.0).patch == CpuM(700, 100)
    # then the limit
    tried = next_step(low, Wish(0.7), after, 1.0)
    after = refused(tried.done, low, 1.0, wholly=False)
    assert next_step(low, Wish(0.7), after, 2.0).patch is None
    assert next_step(low, Wish(0.2), after, 2.0).patch == CpuM(200, 100)
    # then nothing
    tried = next_step(low, Wish(0.2), after, 2.0)
    after = refused(tried.done, low, 2.0, wholly=False)
    assert next_step(low, Wish(0.2), after, 3.0).patch is None
    assert next_step(low, Wish(0.2), after, 2.0 + RETRY_S).patch is not None


def test_who_may_not_resize_at_all_rests() -> None:
    tried = step(0.2)
    after = refused(tried.done, pod(), 0.0, wholly=True)
    assert next_step(pod(), Wish(0.2), after, RETRY_S - 1).patch is None
    assert next_step(pod(), Wish(0.2), after, RETRY_S).patch == CpuM(200, 199)


def test_a_limit_that_changes_after_it_had_arrived_is_somebody_elses() -> None:
    sent = step(0.5, now_s=0.0).done
    before = seen(pod(600, 400), sent, 0.1)  # what was there before the patch
    assert another_writer(before, 0.1) == ""
    arrived = seen(pod(500, 400), before, 0.2)
    other = seen(pod(800, 400), arrived, 5.0)
    assert "leave each pod to one agent" in another_writer(other, 5.0)
    assert another_writer(other, 500.0) == ""


def test_letting_go_gives_back_the_limit_first() -> None:
    assert let_go(pod(), done(), 2) == ()
    assert let_go(pod(200, 199), done(), 2) == (CpuM(600, 199), CpuM(600, 400))
    assert let_go(pod(200, 400), done(), 2) == (CpuM(600, 400),)
    assert let_go(pod(200, 200, qos=GUARANTEED), done(500, 500), 2) == (CpuM(500, 500),)
    assert let_go(pod(200, 100), done(None, 100), 2) == (CpuM(2000, 100),)
    assert let_go(pod(None, 100), done(None, 100), 2) == ()
    assert let_go(pod(200, 100, leaving=True), done(), 2) == ()
    # a patch that has not arrived yet
    assert let_go(pod(), step(0.2).done, 2) == (CpuM(600, 400),)


# ---------------------------------------------------------------- whatever happens

cores = st.floats(0.01, 64, allow_nan=False)
amount = st.integers(1, 8000)


@st.composite
def anything(draw: st.DrawFn) -> tuple[PodCpu, Paced, Wish]:
    qos = draw(st.sampled_from([BURSTABLE, GUARANTEED]))

    def cpu(*, may_lack: bool = False) -> CpuM:
        if qos == GUARANTEED:
            both_m = draw(amount)
            return CpuM(both_m, both_m)
        request_m = draw(amount)
        return CpuM(None if may_lack and draw(st.booleans()) else request_m + draw(amount), request_m)

    made = pod(
        qos=qos,
        wanted=cpu(may_lack=True),
        actual=draw(st.none() | st.just(cpu(may_lack=True))),
        pending=draw(st.sampled_from(["", DEFERRED, "Infeasible", "Error"])),
    )
    held: dict[str, Any] = {
        name: draw(st.floats(0, 200)) for name in ("request_s", "limit_s", "rest_s") if draw(st.booleans())
    }
    before = cpu(may_lack=True)
    return (
        made,
        replace(Paced(before), sent_s=draw(st.just(-math.inf) | st.floats(0, 100)), **held),
        Wish(draw(cores), draw(st.none() | st.floats(0, 64))),
    )


@given(anything(), st.floats(0, 300))
def test_the_class_stays_the_request_stays_below_and_nothing_is_patched_twice_a_second(
    case: tuple[PodCpu, Paced, Wish], now_s: float
) -> None:
    made, has, wish = case
    has = seen(made, has, now_s)
    found = next_step(made, wish, has, now_s)
    assert found.again_s > now_s
    if found.patch is None:
        return
    limit_m, request_m = found.patch.limit_m, found.patch.request_m
    assert limit_m is not None
    assert request_m is not None
    assert now_s >= has.sent_s + INTERVAL_S
    assert 0 < request_m <= limit_m
    assert limit_m >= FLOOR_M or made.qos == GUARANTEED
    # with equal amounts of memory, these are what its class depends on
    assert (request_m == limit_m) == (made.qos == GUARANTEED)
    first_m = has.before.request_m if has.before.request_m is not None else has.before.limit_m
    set_aside_m = (made.actual or made.wanted).request_m or 0
    assert request_m <= max(first_m or 0, min(set_aside_m, limit_m))
    assert found.done.sent == found.patch


@given(anything(), st.lists(st.tuples(st.floats(0, 3), cores), max_size=20))
def test_a_pod_whose_node_does_at_once_what_it_is_told_ends_where_it_should(
    case: tuple[PodCpu, Paced, Wish], wishes: list[tuple[float, float]]
) -> None:
    made, has, _ = case
    has, now_s, sent = Paced(has.before), 0.0, []
    made = replace(made, actual=made.wanted, pending="")
    for wait_s, wanted in [*wishes, (INTERVAL_S, 0.5), (INTERVAL_S, 0.5), (INTERVAL_S, 0.5)]:
        now_s += wait_s
        found = next_step(made, Wish(wanted), seen(made, has, now_s), now_s)
        has = found.done
        if found.patch is not None:
            sent.append(now_s)
            made = replace(made, wanted=found.patch, actual=found.patch)
    assert all(after >= before + INTERVAL_S for before, after in pairwise(sent))
    limit_m = made.wanted.limit_m
    assert limit_m is not None
    most_m = 500 if made.qos == BURSTABLE else min(500, has.before.request_m or 500)
    assert abs(limit_m - most_m) < max(1, min(50, 0.2 * limit_m))

"""Limits of a pod's CPU: by examples, by orders of events that a server hardly ever brings about, and what holds whatever
happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.runtime.executor_record import PodRecord
from controller.runtime.kubernetes.pod_cpu import BEST_EFFORT, CONTAINER, GUARANTEED, PodCpu
from controller.runtime.kubernetes.pod_resize import (
    FLOOR_M,
    INTERVAL_S,
    RETRY_S,
    STEP_M,
    THRESHOLD_M,
    Bound,
    PacedPod,
    Pause,
    differs,
    goal,
    why_not_paced,
)

OWNER: dict[str, Any] = {"cluster_id": "cluster", "worker_id": "w1", "application_id": "app", "executor_id": "1"}


def pod(limit_m: int | None = 300, request_m: int | None = 10, **changed: Any) -> PodCpu:
    """Make a pod whose limit is in force."""
    plain = PodCpu("uid", "jobs", "exec-1", CONTAINER, limit_m=limit_m, request_m=request_m)
    return replace(plain, in_force_m=limit_m, **changed)


def paced(seen: PodCpu, cores: float, before_m: int | None = 500) -> PacedPod:
    """Make an executor of two slots that should have this quota."""
    executor = PacedPod(PodRecord(**OWNER, uid="uid", namespace="jobs", slots=2, limit_m=before_m))
    executor.saw(seen, 0.0)
    executor.want(cores, 0.0)
    return executor


def patch(executor: PacedPod, most_m: int, now_s: float, words: str = "quota") -> int | None:
    """Send the patch that is due, if any, to a cluster that allows that much; return its limit."""
    limit_m = executor.next_limit(now_s)
    if limit_m is not None and limit_m > most_m:
        executor.failed(limit_m, words, now_s, refused=True)
    elif limit_m is not None:
        assert executor.pod is not None
        executor.accepted(limit_m)
        executor.saw(replace(executor.pod, limit_m=limit_m, in_force_m=limit_m), now_s)
    return limit_m


@pytest.mark.parametrize(
    ("cores", "request_m", "limit_m"),
    [
        (0.5, 100, 500),
        (2.0, 100, 2000),
        (100.0, 100, 100_000),
        (0.123, 10, 120),
        (0.3, 400, 401),  # never below the request, and never equal to it
        (0.4, 400, 401),
        (0.01, None, FLOOR_M),
    ],
)
def test_the_limit_is_the_grant_or_what_the_pod_has_asked_for(cores: float, request_m: int | None, limit_m: int) -> None:
    assert goal(pod(request_m=request_m), cores) == limit_m


@pytest.mark.parametrize(
    ("has_m", "limit_m", "expected"),
    [(600, 640, False), (600, 650, True), (600, 550, True), (20, 30, True), (None, 600, True), (600, 600, False)],
)
def test_what_is_worth_a_patch(has_m: int | None, limit_m: int, expected: bool) -> None:
    assert differs(has_m, limit_m) == expected
    assert (patch(paced(pod(has_m), limit_m / 1000), 8000, 0.0) == limit_m) == expected


def test_pods_whose_limit_cannot_move_are_refused() -> None:
    assert "request.cores" in why_not_paced(pod(None, None, qos=BEST_EFFORT))
    assert "request.cores" in why_not_paced(pod(None, None))  # another container of it has some
    assert "its pod is Guaranteed" in why_not_paced(pod(500, 500, qos=GUARANTEED))
    assert why_not_paced(pod()) == ""
    assert why_not_paced(pod(None)) == ""


@pytest.mark.parametrize(
    ("has_m", "request_m", "before_m", "back_m"),
    [
        (200, 10, 600, 600),
        (600, 10, 605, 605),  # just as it was
        (200, 10, None, 2000),  # no limit can be taken away again
        (200, 3000, None, 3001),
    ],
)
def test_what_is_given_back(has_m: int, request_m: int, before_m: int | None, back_m: int) -> None:
    executor = paced(pod(has_m, request_m), 0.2, before_m)
    executor.let_go(1.0)
    assert patch(executor, 8000, 1.0) == back_m
    assert patch(executor, 8000, 1.0 + INTERVAL_S) is None
    assert executor.ended


@pytest.mark.parametrize(("request_m", "is_said"), [(2000, True), (1900, False), (None, False)])
def test_a_request_for_all_that_an_executor_can_use_is_said(request_m: int | None, is_said: bool) -> None:
    remark = paced(pod(None, request_m), 0.2).observed(Pause(), Pause(), 1.0).remark
    assert ("request.cores" in remark) == is_said


# ---------------------------------------------------------------- orders of events


def test_a_wish_that_is_refused_after_its_executor_was_let_go_delays_no_giving_back() -> None:
    executor = paced(pod(), 0.45)
    assert executor.next_limit(10.0) == 450
    executor.let_go(10.0)
    executor.failed(450, "odd", 10.0, refused=True)
    assert executor.next_limit(10.0 + INTERVAL_S) == 500


def test_an_answer_that_cannot_be_read_makes_an_older_event_no_other_writers() -> None:
    executor = paced(pod(), 0.45)
    executor.next_limit(10.0)
    executor.failed(450, "it cannot be read", 10.0, refused=False)
    executor.saw(pod(), 10.0)
    assert (executor.observed(Pause(), Pause(), 10.0).remark, executor.unsure) == ("", True)
    executor.saw(pod(450), 10.0)
    assert (executor.observed(Pause(), Pause(), 10.0).remark, executor.unsure) == ("", False)


# ---------------------------------------------------------------- what the cluster refuses


def test_lower_limits_than_a_refused_one_move_freely() -> None:
    executor = paced(pod(), 0.9)
    assert patch(executor, 800, 0.0) == 900
    executor.want(0.88, 1.0)
    assert executor.next_limit(1.0) == 880


def test_a_refused_limit_is_tried_again_before_any_higher_one() -> None:
    executor = paced(pod(890), 2.0)
    executor.bound = Bound(900, "quota", 0.0)
    assert executor.next_limit(RETRY_S - 1) is None
    assert patch(executor, 8000, RETRY_S) == 900, "near enough is not enough, or it would never be tried"
    assert patch(executor, 8000, RETRY_S + INTERVAL_S) == 2000


def test_a_limit_that_was_allowed_is_gone_back_to_at_once() -> None:
    executor = paced(pod(580), 0.7)
    assert [patch(executor, 640, float(second)) for second in range(2)] == [700, 640]
    executor.want(0.2, 2.0)
    assert patch(executor, 640, 2.0) == 200
    executor.want(2.0, 3.0)
    # until that is refused, too
    assert patch(executor, 600, 3.0, "a quota that names 640") == 640
    assert executor.refusal() == "quota"
    assert executor.next_limit(4.0) == 420


@pytest.mark.parametrize(("seen", "refused_m"), [(pod(None, 100), 101), (pod(600), 500)])
def test_nothing_is_left_to_try_where_the_lowest_limit_is_refused_or_another_writer_has_set_more(
    seen: PodCpu, refused_m: int
) -> None:
    executor = paced(seen, 2.0)
    executor.bound = Bound(refused_m, "quota", 0.0)
    assert executor.next_limit(1.0) is None


amount = st.integers(FLOOR_M + 1, 8000)
NEAR_M = 3 * THRESHOLD_M + 2 * STEP_M
"""Distance that is not worth a patch: half of the way to a refused limit would be one, and so is the last bit of a way."""


def settle(executor: PacedPod, most_m: int, now_s: float) -> int:
    """Send what is due to a cluster that allows that much, one patch after the other, until nothing is; return the limit."""
    tries = [patch(executor, most_m, now_s + second) for second in range(20)]
    assert tries[15:] == [None] * 5
    assert executor.pod is not None
    assert executor.pod.limit_m is not None
    return executor.pod.limit_m


@given(has_m=amount, wanted_m=amount, most_m=amount, later_m=amount)
def test_it_comes_near_to_what_is_allowed_in_a_few_patches(has_m: int, wanted_m: int, most_m: int, later_m: int) -> None:
    has_m = min(has_m, most_m)
    executor = paced(pod(has_m), wanted_m / 1000)
    now_m = settle(executor, most_m, 0.0)
    assert abs(now_m - min(wanted_m, most_m)) <= NEAR_M
    assert now_m <= most_m
    # what is allowed by now is found after a while
    executor.saw(pod(min(now_m, later_m)), 2 * RETRY_S)
    assert abs(settle(executor, later_m, 2 * RETRY_S) - min(wanted_m, later_m)) <= NEAR_M

"""Limits of a pod's CPU: by examples, and what holds whatever happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.runtime.kubernetes.pod_cpu import BEST_EFFORT, GUARANTEED, PodCpu
from controller.runtime.kubernetes.pod_resize import (
    FLOOR_M,
    RETRY_S,
    STEP_M,
    THRESHOLD_M,
    Bound,
    LimitGoal,
    accepted,
    differs,
    goal,
    goal_back,
    refused,
    why_not_paced,
    why_not_resized,
    why_not_slowed,
    within,
)
from tests.fakes.refusals import assert_names


def pod(limit_m: int | None = 600, request_m: int | None = 100, **changed: Any) -> PodCpu:
    """Make a pod whose limit is in force."""
    plain = PodCpu("uid", "jobs", "exec-1", "spark-kubernetes-executor", limit_m=limit_m, request_m=request_m)
    return replace(plain, in_force_m=limit_m, **changed)


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
    assert goal(pod(request_m=request_m), cores) == LimitGoal(limit_m)


@pytest.mark.parametrize(
    ("has_m", "limit_m", "expected"),
    [(600, 640, False), (600, 650, True), (600, 550, True), (20, 30, True), (None, 600, True), (600, 600, False)],
)
def test_what_is_worth_a_patch(has_m: int | None, limit_m: int, expected: bool) -> None:
    assert differs(has_m, limit_m) == expected
    assert LimitGoal(limit_m).is_reached(pod(has_m)) != expected


def test_pods_whose_limit_cannot_move_are_refused() -> None:
    assert "request.cores" in why_not_paced(pod(None, None, qos=BEST_EFFORT))
    assert "request.cores" in why_not_paced(pod(None, None))  # another container of it has some
    assert "its pod is Guaranteed" in why_not_paced(pod(500, 500, qos=GUARANTEED))
    assert why_not_paced(pod()) == ""
    assert why_not_paced(pod(None)) == ""


def test_a_request_for_all_that_an_executor_can_use_is_told() -> None:
    assert_names([why_not_slowed(pod(None, 2000), 2)], "request.cores", "always above")
    assert why_not_slowed(pod(None, 1900), 2) == ""
    assert why_not_slowed(pod(600, None), 2) == ""


def test_what_a_node_does_not_do_is_told_in_its_words() -> None:
    assert "Infeasible: static CPU policy" in why_not_resized(pod(pending="Infeasible", message="static CPU policy"))
    assert "Error" in why_not_resized(pod(pending="Error"))
    assert why_not_resized(pod()) == ""


def test_what_is_given_back() -> None:
    assert goal_back(pod(200), 600, 2) == LimitGoal(600, exact=True)
    assert goal_back(pod(200), 605, 2).limit_m == 605
    assert not goal_back(pod(600), 605, 2).is_reached(pod(600)), "it is given back just as it was"
    assert goal_back(pod(200), None, 2).limit_m == 2000, "no limit can be taken away again"
    assert goal_back(pod(200, 3000), None, 2).limit_m == 3001


# ---------------------------------------------------------------- what the cluster refuses


def test_lower_limits_than_a_refused_one_move_freely() -> None:
    bound = refused(None, 900, "quota", 0.0)
    assert within(bound, LimitGoal(880), pod(300), 1.0) == LimitGoal(880)
    assert within(bound, LimitGoal(900), pod(300), 1.0) == LimitGoal(600)


def test_a_refused_limit_is_tried_again_before_any_higher_one() -> None:
    bound = refused(None, 900, "quota", 0.0)
    assert within(bound, LimitGoal(2000), pod(890), RETRY_S - 1) != LimitGoal(2000)
    again = within(bound, LimitGoal(2000), pod(890), RETRY_S)
    assert again == LimitGoal(900, exact=True)
    assert again is not None
    assert not again.is_reached(pod(890)), "near enough is not enough, or it would never be tried"
    assert accepted(bound, 900) is None


def test_a_limit_that_was_allowed_is_gone_back_to_at_once() -> None:
    bound = accepted(refused(None, 700, "quota", 0.0), 640)
    assert within(bound, LimitGoal(2000), pod(200), 1.0) == LimitGoal(640)
    # until that is refused, too
    lower = refused(bound, 640, "a quota that names 640", 1.0)
    assert lower == Bound(640, "quota", 1.0)
    assert within(lower, LimitGoal(2000), pod(200), 2.0) == LimitGoal(420)


def test_nothing_is_left_to_try_where_even_the_lowest_limit_is_refused() -> None:
    assert within(refused(None, 101, "quota", 0.0), LimitGoal(2000), pod(None), 1.0) is None
    assert within(refused(None, 500, "quota", 0.0), LimitGoal(2000), pod(600), 1.0) is None, "somebody else has raised it"


amount = st.integers(FLOOR_M + 1, 8000)
NEAR_M = 3 * THRESHOLD_M + 2 * STEP_M
"""Distance that is not worth a patch: half of the way to a refused limit would be one, and so is the last bit of a way."""


def settle(
    made: PodCpu, wanted: LimitGoal, most_m: int, now_s: float, bound: Bound | None
) -> tuple[PodCpu, Bound | None, int]:
    """Send what is due, one patch after the other, to a cluster that allows that much, until nothing is; count them."""
    for count in range(100):
        now = within(bound, wanted, made, now_s + count / 10)
        if now is None or now.is_reached(made):
            return made, bound, count
        if now.limit_m > most_m:
            bound = refused(bound, now.limit_m, "no", now_s + count / 10)
        else:
            made, bound = replace(made, limit_m=now.limit_m), accepted(bound, now.limit_m)
    raise AssertionError("it goes on for ever")


@given(has_m=amount, wanted_m=amount, most_m=amount, later_m=amount)
def test_it_comes_near_to_what_is_allowed_in_a_few_patches(has_m: int, wanted_m: int, most_m: int, later_m: int) -> None:
    has_m = min(has_m, most_m)
    made, bound, count = settle(pod(has_m, 10), LimitGoal(wanted_m), most_m, 0.0, None)
    assert count <= 15
    assert made.limit_m is not None
    best_m = min(wanted_m, most_m)
    assert abs(made.limit_m - best_m) <= NEAR_M
    assert made.limit_m <= max(most_m, has_m)
    # what is allowed by now is found after a while
    made = replace(made, limit_m=min(made.limit_m, later_m))
    made, _, _ = settle(made, LimitGoal(wanted_m), later_m, 2 * RETRY_S, bound)
    assert made.limit_m is not None
    assert abs(made.limit_m - min(wanted_m, later_m)) <= NEAR_M

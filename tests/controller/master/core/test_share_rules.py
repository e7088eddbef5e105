"""The rules of a user's share: examples, and properties over any limits and any use."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.asks.user_limits import UserLimits
from controller.master.core.share_rules import (
    ROUNDING,
    InUse,
    cores_of,
    executor_refusal,
    executors_left,
    over_limits,
    share_refusal,
    share_wait,
)
from stage_model.forecast.promises import Claim
from stage_model.forecast.virtual_time import Forecast
from tests.fakes.refusals import assert_names

ALICE = UserLimits("alice", 7, priority=50, cores=2.0, memory_mb=4000, applications=2)
CORES = st.floats(0.01, 64)
LIMITS = st.builds(
    UserLimits,
    user=st.just("alice"),
    priority=st.none() | st.integers(-1, 100),
    cores=st.none() | CORES,
    memory_mb=st.none() | st.integers(1, 1 << 20),
    applications=st.none() | st.integers(1, 50),
)
USE = st.builds(
    InUse,
    cores=st.floats(0, 64),
    memory_mb=st.integers(0, 1 << 20),
    applications=st.integers(0, 50),
    priority=st.integers(-1, 100),
)
ASKED = st.fixed_dictionaries({"priority": st.none() | st.integers(-1, 100), "cores": st.none() | st.floats(0, 64)})
SIZE = st.integers(1, 1 << 20)
TWO_TASKS = Forecast(busy=(0.0, 10.0))
"""20 core-seconds of two tasks at once: 10 s on 2 cores."""


@pytest.mark.parametrize(
    ("has", "asked", "named"),
    [
        (InUse(), {"priority": 51}, ["priority 51", "alice", "50 or lower"]),
        (InUse(cores=1.5), {"cores": 0.6}, ["0.60", "1.50 of the 2.00", "alice", "0.50 are enough"]),
        (InUse(cores=2.0), {"cores": 0.6}, ["0.60", "2.00 of the 2.00", "no deadline"]),
        (InUse(cores=3.0), {"cores": 0.0}, ["3.00 of the 2.00", "no deadline"]),
    ],
)
def test_what_is_over_a_limit_is_refused(has: InUse, asked: dict[str, Any], named: list[str]) -> None:
    assert_names(share_refusal(ALICE, has, **asked), *named)


@pytest.mark.parametrize("asked", [{}, {"priority": 50}, {"cores": 0.5}, {"priority": 50, "cores": 0.0}])
def test_what_is_within_the_limits_is_not(asked: dict[str, Any]) -> None:
    assert share_refusal(ALICE, InUse(cores=1.5), **asked) == ""


def test_a_user_of_backfills_only_is_over_no_limit_without_one() -> None:
    backfills = UserLimits("bob", 8, priority=-1)
    assert over_limits(backfills, InUse()) == ""
    assert share_refusal(backfills, InUse(), priority=-1) == ""
    assert_names(share_refusal(backfills, InUse(), priority=0), "priority 0", "bob", "-1 or lower")


def test_an_executor_and_an_application_wait_for_room() -> None:
    assert share_wait(ALICE, InUse(memory_mb=2000, applications=1), 2000) == ""
    assert_names(share_wait(ALICE, InUse(memory_mb=2001, applications=1), 2000), "2000 MiB", "2001 of 4000", "alice")
    assert_names(share_wait(ALICE, InUse(applications=2), 1), "alice", "(2)")
    assert executor_refusal(ALICE, 4000) == ""
    assert_names(executor_refusal(ALICE, 4001), "4001 MiB", "4000 MiB", "alice", "--executor-memory")


def test_a_promise_takes_the_least_cores_that_keep_it_and_a_late_one_all_it_can_get() -> None:
    assert cores_of(Claim(TWO_TASKS, 20.0, 50), 4.0) == pytest.approx(1.0)
    assert cores_of(Claim(TWO_TASKS, 20.0, 50), 0.5) == 0.5
    assert cores_of(Claim(TWO_TASKS, 20.0, 50), 0.0) == pytest.approx(1.0), "no worker is known yet"
    assert cores_of(Claim(TWO_TASKS, 5.0, 50), 4.0) == 4.0


def test_all_that_is_over_is_said_at_once() -> None:
    assert over_limits(ALICE, InUse(2.0, 4000, 2, 50)) == ""
    assert_names(over_limits(ALICE, InUse(2.5, 5000, 3, 100)), "alice", "2.50 of 2.00", "5000 of 4000", "3 of 2", "100 of 50")


@given(USE, ASKED, SIZE)
def test_without_limits_nothing_is_refused_and_nothing_waits(has: InUse, asked: dict[str, Any], size_mb: int) -> None:
    none = UserLimits("alice")
    assert (share_refusal(none, has, **asked), share_wait(none, has, size_mb), over_limits(none, has)) == ("", "", "")
    assert executors_left(none, has, size_mb) is None


@given(LIMITS, USE, ASKED)
def test_what_is_accepted_is_within_the_limits(limits: UserLimits, has: InUse, asked: dict[str, Any]) -> None:
    if share_refusal(limits, has, **asked) == "":
        assert limits.priority is None or asked["priority"] is None or asked["priority"] <= limits.priority
        assert limits.cores is None or asked["cores"] is None or has.cores + asked["cores"] <= limits.cores + ROUNDING


@given(LIMITS, USE, SIZE)
def test_executors_that_start_fit_into_the_memory(limits: UserLimits, has: InUse, size_mb: int) -> None:
    left = executors_left(limits, has, size_mb)
    if limits.memory_mb is None:
        assert left is None
    elif left:
        assert has.memory_mb + left * size_mb <= limits.memory_mb < has.memory_mb + (left + 1) * size_mb
    else:
        assert has.memory_mb + size_mb > limits.memory_mb
        assert share_wait(limits, has, size_mb)


@given(LIMITS, USE, ASKED, SIZE, st.sampled_from(["cores", "memory_mb", "applications"]))
def test_less_use_never_refuses_more(limits: UserLimits, has: InUse, asked: dict[str, Any], size_mb: int, less: str) -> None:
    fewer = replace(has, **{less: type(getattr(has, less))(0)})
    assert share_refusal(limits, has, **asked) or not share_refusal(limits, fewer, **asked)
    assert share_wait(limits, has, size_mb) or not share_wait(limits, fewer, size_mb)
    assert over_limits(limits, has) or not over_limits(limits, fewer)


@given(LIMITS, USE)
def test_a_user_at_the_limits_is_not_over_them(limits: UserLimits, has: InUse) -> None:
    names = {"priority", "cores", "memory_mb", "applications"}
    assert names == {field.name for field in fields(InUse)}
    most = {name: limit for name in names if (limit := getattr(limits, name)) is not None}
    assert over_limits(limits, replace(has, **most)) == ""

"""The pacer's budget: the mean follows the quota, whatever a tick overshoots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.runtime.pacer import MAX_DEBT_S, TICK_S, WINDOW_S, Budget


def run(budget: Budget, seconds: float, greed_cores: float) -> float:
    """Return the CPU used in `seconds` by a tree that takes `greed_cores` whenever it may run."""
    used_s, may_run = 0.0, budget.running
    for _ in range(round(seconds / TICK_S)):
        taken = greed_cores * TICK_S if may_run else 0.0
        used_s += taken
        may_run = budget.step(TICK_S, taken)
    return used_s


@given(cores=st.floats(0.05, 4.0), greed=st.floats(0.1, 4.0))
def test_the_mean_is_the_lesser_of_quota_and_greed(cores: float, greed: float) -> None:
    seconds = 60.0
    used = run(Budget(cores), seconds, greed)
    # Off by what can be saved up, what is owed at the end, and the waiting for half a window.
    slack = cores * WINDOW_S + greed * TICK_S + cores * TICK_S
    assert used <= min(cores, greed) * seconds + slack
    if cores >= greed:
        assert used == pytest.approx(greed * seconds)
    elif greed * TICK_S < cores * MAX_DEBT_S:
        assert used >= cores * seconds - slack


def test_idle_time_is_not_saved_up_beyond_a_window() -> None:
    budget = Budget(0.5)
    for _ in range(1000):
        budget.step(TICK_S, 0.0)
    assert budget.credit_s == pytest.approx(0.5 * WINDOW_S)


def test_a_long_stall_is_not_repaid_for_ever() -> None:
    budget = Budget(0.5)
    budget.step(TICK_S, 100.0)
    waited = 0.0
    while not budget.step(TICK_S, 0.0):
        waited += TICK_S
    assert waited == pytest.approx(MAX_DEBT_S + WINDOW_S / 2, abs=2 * TICK_S)


def test_more_cores_let_a_stopped_tree_run_sooner() -> None:
    slow, fast = Budget(0.1), Budget(0.1)
    for budget in (slow, fast):
        assert not budget.step(TICK_S, 0.1)
    fast.cores = 1.0

    def steps(budget: Budget) -> int:
        return next(count for count in range(10_000) if budget.step(TICK_S, 0.0))

    assert steps(fast) < steps(slow)


def test_the_time_a_tree_is_stopped_is_counted() -> None:
    budget = Budget(0.5)
    assert not budget.step(TICK_S, 0.1)
    assert budget.stopped_s == 0.0
    stopped_s = 0.0
    while not budget.running:
        stopped_s += TICK_S
        budget.step(TICK_S, 0.0)
    assert budget.stopped_s == pytest.approx(stopped_s)
    for _ in range(10):
        budget.step(TICK_S, 0.0)
    assert budget.stopped_s == pytest.approx(stopped_s)

"""The six jobs: arrivals that a seed repeats, and conditions on made-up runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from experiments.harness.recorded import Data, kind_of
from experiments.scenarios.mixed import Mixed, MixedWorkload, lateness_noise_pct
from tests.fakes.recorded import job_record, samples_of, step_record

KINDS = {
    "slow": MixedWorkload(words=("slow.py",), priority="low", stretch=3.0),
    "plain": MixedWorkload(words=("plain.py",), priority="normal", stretch=2.0),
    "hot": MixedWorkload(words=("hot.py",), priority="high", stretch=1.2),
}
SCENARIO = Mixed(kinds=KINDS, arrivals_s=480, pairs=2)


def story(hot: dict[str, Any] | None = None, slow: dict[str, Any] | None = None, pairs: tuple[float, ...] = (47, 49)) -> Data:
    """Make data in which a hot job by itself takes 40 s, so its deadline is 48 s; pairs of it ended after `pairs` seconds."""
    alone = {"slow": 100, "plain": 60, "hot": 40}
    steps = [step_record(f"base-{kind}-0", job_record(kind, f"base-{kind}", end_s=end_s)) for kind, end_s in alone.items()]
    steps += [
        step_record(f"pair-hot-{n}", job_record("hot-0", f"pair-{n}", end_s=end_s, deadline_s=48, priority=100))
        for n, end_s in enumerate(pairs)
    ]
    jobs = [
        job_record("hot-0", "h0", **{"end_s": 46, "deadline_s": 48, "priority": 100, **(hot or {})}),
        job_record("hot-1", "h1", end_s=47, deadline_s=48, priority=100),
        job_record("plain-0", "p0", end_s=119, deadline_s=120, priority=50),
        job_record("plain-1", "p1", end_s=130, deadline_s=120, priority=50),
        job_record("slow-0", "s0", **{"end_s": 301, "deadline_s": 300, "priority": 0, **(slow or {})}),
        job_record("slow-1", "s1", end_s=290, deadline_s=300, priority=0),
    ]
    steps.append(step_record("mixed-0", *jobs))
    samples = {job.app_id: samples_of([(10, 40, 0.1)]) for job in jobs}
    return Data({step.step: step for step in steps}, samples)


def failing(data: Data) -> list[tuple[str, str]]:
    return [(condition.name, condition.of) for condition in SCENARIO.conditions(data) if not condition.holds]


def test_six_jobs_arrive_as_the_seed_says_and_otherwise_with_another() -> None:
    arrivals = SCENARIO.arrivals(0)
    assert arrivals == SCENARIO.arrivals(0)
    assert arrivals != SCENARIO.arrivals(1)
    assert arrivals != Mixed(kinds=KINDS, arrivals_s=480, seed=2).arrivals(0)
    assert Counter(kind for kind, _, _ in arrivals) == {"slow": 2, "plain": 2, "hot": 2}
    times = [time_s for _, _, time_s in arrivals]
    assert times == sorted(times)
    assert times[0] == 0
    assert times[-1] <= 480
    # two of a kind can be distinguished
    assert len({(kind, number) for kind, number, _ in arrivals}) == 6


def test_steps_and_orders() -> None:
    assert SCENARIO.steps() == [
        *("base-slow-0", "base-plain-0", "base-hot-0", "pair-hot-0", "pair-hot-1", "mixed-0"),
    ]
    [pair] = SCENARIO.orders("pair-hot-1", story())
    assert (pair.job, pair.priority, pair.delay_s) == ("hot-0", "high", 0)
    assert pair.deadline_s == pytest.approx(48)
    orders = SCENARIO.orders("mixed-0", story())
    assert len({order.job for order in orders}) == 6
    assert {(kind, order.deadline_s) for order in orders for kind in [order.job.rpartition("-")[0]]} == {
        *(("slow", 300.0), ("plain", 120.0), ("hot", 48.0))
    }
    [base] = SCENARIO.orders("base-plain-0", Data())
    assert (base.words, base.deadline_s) == (("plain.py",), None)


def test_lower_priorities_may_be_late() -> None:
    assert failing(story()) == []


def test_the_noise_is_how_late_and_how_different_the_paired_runs_are() -> None:
    assert lateness_noise_pct([]) is None
    assert lateness_noise_pct([-4.0, -1.0]) == 3.0
    assert lateness_noise_pct([2.5, 1.0]) == 2.5
    assert lateness_noise_pct([-3.0]) == 0.0


def test_a_late_job_of_the_highest_priority_fails_beyond_the_noise() -> None:
    # pairs end at 47 and 49 s of 48: they differ by 2 / 48 = 4.17%; 50 s are as late as that, 51 s later
    assert failing(story(hot={"end_s": 50})) == []
    assert failing(story(hot={"end_s": 51})) == [("no violation among the highest priority", "mixed-0 hot-0")]
    # pairs that all end alike and early explain nothing
    assert failing(story(hot={"end_s": 48.5}, pairs=(47, 47))) == [
        ("no violation among the highest priority", "mixed-0 hot-0")
    ]


def test_without_paired_runs_only_in_time_is_in_time() -> None:
    assert ("no violation among the highest priority", "mixed-0 hot-0") in failing(story(hot={"end_s": 48.1}, pairs=()))
    assert [name for name, _ in failing(story(pairs=()))] == ["every step was run"]


def test_a_lost_executor_of_any_job_fails() -> None:
    assert failing(story(slow={"executors_lost": 1})) == [("no executor is lost", "mixed-0")]


def test_quotas_above_capacity_and_wrong_answers_fail() -> None:
    data = story()
    too_much = Data(data.steps, {**data.samples, "s0": samples_of([(10, 40, 0.4)])})
    # six at 0.1 are 0.6; five and one at 0.4 are 0.9 of 0.85
    assert failing(too_much) == [("quotas never above capacity", "mixed-0")]
    assert failing(story(slow={"exit_code": 1})) == [("every answer is right", "mixed-0")]


def test_tables_say_their_n_and_stand_without_any_run() -> None:
    tables = SCENARIO.tables(story())
    assert "| mixed-0 | slow-0 | 1 | 0 | 0.0 | 300.0 | 301.0 | +0.33 | yes | - | 0 |" in tables
    assert "| 100 | 2 | 0 | -3.12 | -2.08 |" in tables
    assert "| hot | 2 | -2.08 +2.08 | 4.17 |" in tables
    assert "mixed-0" not in SCENARIO.tables(Data())


def test_a_job_s_kind_is_its_name_without_its_number() -> None:
    assert kind_of("sort-by-key-1") == "sort-by-key"

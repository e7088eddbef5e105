"""Arithmetic over records: means, shares of work, and every moment's sum of quotas."""

from __future__ import annotations

import math

import pytest
from msgspec import structs

from experiments.harness.recorded import (
    Data,
    Goal,
    above_capacity,
    answers_right,
    complete,
    judged,
    least_workers,
    loads,
    mean_grant,
    percentile,
    time_of_share,
    used_core_s,
    within_capacity,
)
from tests.fakes.recorded import job_record, sample, samples_of, step_record


def test_the_mean_of_grants_is_weighted_by_time_and_summed_over_executors() -> None:
    samples = samples_of([(0, 10, 0.5), (10, 20, 0.8)])
    assert mean_grant(samples, 0, 10) == pytest.approx(2 * 0.5)
    # 5 s at 1.0 and 10 s at 1.6 cores
    assert mean_grant(samples, 5, 20) == pytest.approx((5 * 1.0 + 10 * 1.6) / 15)
    assert mean_grant(samples, 9.5, 10.5) == pytest.approx((0.5 * 1.0 + 0.5 * 1.6) / 1)


@pytest.mark.parametrize("span", [(5, 5), (8, 4), (30, 40)])
def test_there_is_no_mean_of_nothing(span: tuple[float, float]) -> None:
    assert mean_grant(samples_of([(0, 10, 0.5)]), *span) is None
    assert mean_grant([], 0, 10) is None


def test_cpu_is_counted_up_to_a_time_with_each_executors_latest_sample() -> None:
    samples = samples_of([(0, 10, 0.5)])
    assert used_core_s(samples) == pytest.approx(2 * 5.0)
    assert used_core_s(samples, 4.0) == pytest.approx(2 * 2.0)
    # half of the 10 core-seconds were used when both executors had 2.5: at 5 s
    assert time_of_share(samples, 0.5) == 5
    assert time_of_share(samples, 0.0) == 0
    assert time_of_share(samples, 1.0) == 10
    with pytest.raises(ValueError, match="without samples"):
        time_of_share([], 0.5)


def test_quotas_of_one_moment_are_summed_per_worker_over_all_jobs() -> None:
    a = job_record("a", "app-a", end_s=5)
    b = job_record("b", "app-b", end_s=5, submitted_epoch_s=1000.9)
    samples = {
        "app-a": [sample("1", 2.0, 0.25, 0), sample("2", 2.4, 0.5, 0), sample("1", 3.0, 0.75, 0)],
        # the same moments on another clock, a few milliseconds apart
        "app-b": [sample("1", 1.104, 0.6, 0), sample("1", 2.098, 0.1, 0)],
    }
    found = [(one.worker, round(one.epoch_s), one.quota) for one in loads(step_record("s", a, b), samples)]
    assert sorted(found) == [("w1", 1002, 0.85), ("w1", 1003, 0.85), ("w2", 1002, 0.5)]


def test_an_executor_sampled_twice_within_a_moment_counts_once() -> None:
    a = job_record("a", "app-a", end_s=5)
    samples = {"app-a": [sample("1", 2.0, 0.85, 0), sample("1", 2.1, 0.85, 0)]}
    assert above_capacity(step_record("s", a), samples) == (2, [])


def test_one_moment_above_capacity_is_found() -> None:
    step = step_record("s", job_record("a", "a", end_s=9), job_record("b", "b", end_s=9))
    samples = {"a": samples_of([(1, 9, 0.5)]), "b": samples_of([(1, 5, 0.35), (5, 6, 0.4), (6, 9, 0.35)])}
    data = Data({"s": step}, samples)
    [condition] = within_capacity([step], data)
    assert not condition.holds
    # 8 moments on each of two workers, one of them above on each
    assert condition.detail == "2 of 16 moments above, 0.90 of 0.85 cores on w1"
    samples["b"] = samples_of([(1, 9, 0.35)])
    [condition] = within_capacity([step], data)
    assert (condition.holds, condition.detail) == (True, "0 of 16 moments above")


def test_a_grant_above_capacity_counts_although_the_quota_was_not_seen() -> None:
    over = structs.replace(sample("1", 1, 0.9, 0), quota=0.1)
    step = step_record("s", job_record("a", "a", end_s=9))
    assert not within_capacity([step], Data({"s": step}, {"a": [over]}))[0].holds


def test_an_executor_of_unknown_worker_or_no_sample_at_all_proves_nothing() -> None:
    step = step_record("s", job_record("a", "a", end_s=9, workers={"1": "w1"}))
    [condition] = within_capacity([step], Data({"s": step}, {"a": samples_of([(1, 3, 0.2)])}))
    assert not condition.holds
    assert condition.detail.endswith("worker unknown of a/2")
    [condition] = within_capacity([step], Data({"s": step}, {"a": []}))
    assert not condition.holds


def test_wrong_answers_and_missing_steps_are_named() -> None:
    right, wrong = job_record("a", "a", end_s=9), job_record("b", "b", end_s=9, exit_code=1)
    assert answers_right([step_record("s", right)])[0].holds
    [condition] = answers_right([step_record("s", right, wrong)])
    assert (condition.holds, condition.detail) == (False, "b ended with 1")
    data = Data({"s-0": step_record("s-0", right)})
    assert complete(data, ["s-0"]).holds
    found = complete(data, ["s-0", "s-1"])
    assert (found.holds, found.detail) == (False, "1 of 2 steps; missing s-1")
    assert complete(data, [f"s-{n}" for n in range(6)]).detail == "1 of 6 steps; missing s-1, s-2, s-3 and 2 more"


def test_steps_are_found_by_their_beginning_in_order_of_their_numbers() -> None:
    names = ["a-10", "a-2", "a-b-1", "b-1"]
    data = Data({name: step_record(name) for name in names})
    assert [step.step for step in data.starting("a-")] == ["a-2", "a-10"]


def test_a_goal_without_a_figure_is_neither_met_nor_missed() -> None:
    goal = Goal(goal="late", measured=None, limit=2.0, unit="%", n=5, not_measured="no one looked")
    assert goal.met is None
    condition = judged(goal, "all")
    assert (condition.holds, condition.detail) == (False, "no one looked, limit 2, n=5")


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(1, 21)]
    assert (percentile(values, 0.5), percentile(values, 0.95), percentile(values, 1)) == (10, 19, 20)
    assert percentile([7.0], 0.5) == 7
    assert percentile(list(range(200, 0, -1)), 0.99) == 198
    assert math.isnan(percentile([], 0.5))


@pytest.mark.parametrize(("cores", "each", "workers"), [(1.2, 0.4, 3), (1.3, 0.4, 4), (0.5, 1.0, 1), (2.0, 1.0, 2)])
def test_cores_are_those_of_as_few_workers_as_have_them(cores: float, each: float, workers: int) -> None:
    assert least_workers(cores, each) == workers

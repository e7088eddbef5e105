"""The law `forecast` drives virtual executors to the deadline: errors, violations, cores saved, calm quotas."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from controller.agent.core.step import LAST_PART, LAST_PERIODS
from experiments.simulator.jobs import SimJob
from experiments.simulator.trials import SimCluster, TrialResult, all_cores, run
from stage_model.laws.forecast import ForecastSettings
from tests.fakes.jobs import log_normal_job

TWO_SMALL = SimCluster(executors=2, slots=1, cores=1.0)
ONE_LARGE = SimCluster(executors=1, slots=4, cores=4.0)
SEEDS = range(6)
RECORDS = 1000.0
CV = 0.4
LAST_CORE_S = 1.0
"""Mean work of a task of the last stage."""


def job(seed: int, profile_factor: float = 1.0, records_per_task: float | None = None) -> SimJob:
    """Make five stages of 24 tasks, 144 core-seconds: 72 s on two cores."""
    return log_normal_job(
        random.Random(seed),
        [24] * 5,
        [1.0, 1.5, 0.5, 2.0, LAST_CORE_S],
        cv=CV,
        profile_factor=profile_factor,
        records_per_task=records_per_task,
        gap_s=0.2,
        startup_s=4.0,
    )


def errors(
    cluster: SimCluster, times: float, profile_factor: float, records: float | None
) -> tuple[list[float], list[float]]:
    """Return errors in percent of the deadline, one per seed: from the deadline, which is `times` what all cores need, and
    from the earliest aim before it, when all is kept that melts as the last tasks run."""
    settings = ForecastSettings()
    found, from_aim = [], []
    for seed in SEEDS:
        task = job(seed, profile_factor, records)
        deadline_s = times * all_cores(task, cluster).end_s
        error_pct = run(task, cluster, deadline_s).error_pct(deadline_s)
        found.append(error_pct)
        spare_s = (1 - settings.alpha) * deadline_s + settings.surety * CV * LAST_CORE_S
        from_aim.append(error_pct + 100 * spare_s / deadline_s)
    return found, from_aim


@pytest.mark.parametrize("records", [None, RECORDS], ids=["cpu", "records"])
@pytest.mark.parametrize("times", [1.2, 1.5, 2.0])
@pytest.mark.parametrize("cluster", [TWO_SMALL, ONE_LARGE], ids=["2x1", "1x4"])
class TestDeadlines:
    def test_an_exact_profile_is_never_late_and_ends_close_to_the_aim(
        self, cluster: SimCluster, times: float, records: float | None
    ) -> None:
        found, from_aim = errors(cluster, times, 1.0, records)
        assert max(found) <= 0
        # one run may end half a task before all that is kept (1 s of 80 s), their mean by less
        assert fmean(from_aim) > -0.75
        assert min(from_aim) > -2.5

    @pytest.mark.parametrize("factor", [0.7, 1.4])
    def test_a_profile_that_is_wrong_by_a_third_is_found_out_in_time(
        self, cluster: SimCluster, times: float, records: float | None, factor: float
    ) -> None:
        found, from_aim = errors(cluster, times, factor, records)
        assert max(found) <= 0.5
        assert fmean(from_aim) > -1.75
        assert min(from_aim) > -2.5


@pytest.mark.parametrize("cluster", [TWO_SMALL, ONE_LARGE], ids=["2x1", "1x4"])
class TestCores:
    def pair(self, cluster: SimCluster, times: float) -> tuple[TrialResult, TrialResult]:
        base = all_cores(job(1), cluster)
        return base, run(job(1), cluster, times * base.end_s)

    def test_more_time_means_fewer_cores_at_any_time(self, cluster: SimCluster) -> None:
        base, paced = self.pair(cluster, 1.5)
        start_s = 4.0
        everything = cluster.executors * cluster.cores
        assert base.allocated_core_s == pytest.approx(everything * (base.end_s - start_s))
        # the same work in about 1.5 times the time
        mean_cores = paced.allocated_core_s / (paced.end_s - start_s)
        assert mean_cores < everything / 1.4

    def test_what_is_allocated_is_less_than_with_all_cores_and_little_more_than_the_work(self, cluster: SimCluster) -> None:
        base, paced = self.pair(cluster, 1.5)
        assert paced.used_core_s == pytest.approx(base.used_core_s) == pytest.approx(job(1).work_core_s)
        assert paced.allocated_core_s < base.allocated_core_s
        assert paced.allocated_core_s < 1.05 * paced.used_core_s

    def test_quotas_are_calm(self, cluster: SimCluster) -> None:
        _, paced = self.pair(cluster, 1.5)
        # per executor: fewer than one write in two periods and one turn in four; the last ten seconds have forty
        periods = paced.end_s + LAST_PERIODS * (1 / LAST_PART - 1)
        assert paced.writes / cluster.executors < periods / 2 * (1.5 if cluster is ONE_LARGE else 1)
        assert paced.turns / cluster.executors < periods / 4 * (1.5 if cluster is ONE_LARGE else 1)


def test_a_deadline_that_cannot_be_kept_gets_all_cores() -> None:
    base = all_cores(job(2), TWO_SMALL)
    assert run(job(2), TWO_SMALL, 0.8 * base.end_s).end_s == pytest.approx(base.end_s, rel=0.01)

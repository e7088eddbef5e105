"""Several applications under the production's agents and planner: priorities, debt, compensation, capacity."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from experiments.simulator.compare import FOUR_BY_FOUR, Case, Setting, draw
from experiments.simulator.engine import Engine
from experiments.simulator.jobs import SimJob
from experiments.simulator.learn import learned, pre_run
from experiments.simulator.pacing import Pacing
from experiments.simulator.state import IDEAL, REAL, Effects, SimSubmission, workers
from experiments.simulator.trials import SimCluster, all_cores, constant, known, oracle, outcome, run, static
from stage_model.laws.forecast import ForecastSettings
from stage_model.units import parse_priority
from tests.fakes.jobs import log_normal_job

TWO = SimCluster(executors=2, slots=2, cores=2.0)


def job(seed: int, name: str, seconds: float = 40.0) -> SimJob:
    """Make four stages of 24 tasks: `seconds` on four cores."""
    each = seconds / 24
    return replace(log_normal_job(random.Random(seed), [24] * 4, [each] * 4, cv=0.3, records_per_task=100.0), name=name)


def together(*submissions: SimSubmission, effects: Effects = IDEAL) -> tuple[Engine, Pacing]:
    pacing = Pacing({s.job.name: known(s.job, TWO) for s in submissions}, traced=True)
    engine = Engine(TWO.workers, submissions, pacing, effects=effects)
    engine.run()
    return engine, pacing


def test_a_high_priority_takes_what_it_needs_and_the_low_one_makes_up_for_it() -> None:
    # the long one needs half the cluster for its deadline; the short one, in its middle, nearly all
    long = SimSubmission(job(1, "long"), deadline_s=80.0, priority=parse_priority("low"))
    short = SimSubmission(job(2, "short", 16.0), at_s=20.0, deadline_s=20.0, priority=parse_priority("high"))
    engine, pacing = together(long, short)
    long_ran, short_ran = (outcome(app, pacing) for app in engine.apps)
    assert short_ran.end_s <= 20.0
    assert long_ran.end_s <= 80.0
    assert long_ran.withheld_core_s > 10
    # only the floor of the long one is in its way
    assert short_ran.withheld_core_s < 0.2 * short_ran.end_s
    granted = long_ran.trace

    def mean(from_s: float, to_s: float) -> float:
        found = [cores for at_s, cores in granted if from_s <= at_s < to_s]
        return sum(found) / len(found)

    assert mean(22, 38) < mean(5, 20) < mean(42, 70)
    assert pacing.most_over_capacity <= 1e-9


@pytest.mark.parametrize("deadline_s", [None, 110.0])
def test_no_stage_waits_for_a_task_on_a_worker_that_others_have(deadline_s: float | None) -> None:
    """An important job keeps one of two workers busy. There the other one has its floor of 0.1 cores, on which a task of
    1.67 s takes 17 s, two of them 33 s, and each of its four stages would end that much later."""
    important = SimSubmission(job(9, "important", 160.0), priority=parse_priority("high"), executors=1)
    other = SimSubmission(replace(job(10, "other"), startup_s=4.0), at_s=10.0, deadline_s=deadline_s)
    engine, _ = together(important, other, effects=REAL)
    mine = engine.apps[1]
    assert mine.end_s is not None
    on_the_other_worker_s = all_cores(other.job, SimCluster(executors=1, slots=2, cores=2.0), effects=REAL).end_s
    assert mine.end_s - other.at_s <= (deadline_s or 1.05 * on_the_other_worker_s)


def test_equals_both_keep_deadlines_that_fit_together() -> None:
    first = SimSubmission(job(3, "first"), deadline_s=100.0)
    second = SimSubmission(job(4, "second"), deadline_s=110.0)
    engine, pacing = together(first, second)
    errors = [outcome(app, pacing).error_pct(app.asked.deadline_s or 0) for app in engine.apps]
    assert max(errors) <= 0
    assert min(errors) > -4


def test_an_infeasible_newcomer_is_refused_its_deadline_and_harms_no_job() -> None:
    asked = [SimSubmission(job(5, "first"), deadline_s=50.0), SimSubmission(job(6, "late"), at_s=1.0, deadline_s=45.0)]
    pacing = Pacing({s.job.name: known(s.job, TWO) for s in asked}, admit=True)
    first, late = Engine(TWO.workers, asked, pacing).run()
    assert pacing.refused == [late]
    assert first.end_s is not None
    assert first.end_s <= 50.0


def test_a_late_run_of_the_papers_law_takes_all_cores() -> None:
    """Three of four stages begin after alpha * deadline."""
    what = job(8, "late")
    fastest_s = all_cores(what, TWO).end_s
    assert run(what, TWO, fastest_s / 4, law="paper").end_s == pytest.approx(fastest_s, rel=0.01)


def test_executors_go_to_the_workers_with_the_fewest() -> None:
    each = SimSubmission(job(7, "one", 8.0), deadline_s=30.0, executors=2)
    pacing = Pacing({})
    engine = Engine(workers(4, 2.0), [each, each], pacing)
    engine.run()
    places = [sorted(e.worker.name for e in app.executors) for app in engine.apps]
    assert places == [["w0", "w1"], ["w2", "w3"]]


def test_a_profile_of_a_pre_run_holds_the_true_works_times_the_wanted_error() -> None:
    true = job(8, "true").wrong([1.0, 2.0, 0.5, 1.0])
    effects = replace(REAL, background_cores=0.0)  # a container's CPU is more than its tasks' works
    record = learned(pre_run(true, TWO.workers, effects=effects)[1], true).runs[0]
    exact = pre_run(true, TWO.workers, effects=effects)[1]
    assert exact.stages[1].work_core_s == pytest.approx(true.stages[1].work_core_s, rel=1e-6)
    factors = [wrong.work_core_s / right.work_core_s for wrong, right in zip(record.stages, exact.stages, strict=True)]
    assert factors == pytest.approx([1.0, 2.0, 0.5, 1.0])


def test_the_oracle_ends_at_the_deadline_with_the_least_constant_cores() -> None:
    task = job(9, "oracle")
    best = oracle(task, TWO, 80.0)
    assert best.end_s == pytest.approx(80.0, rel=0.002)
    assert constant(task, TWO, 3.9).end_s < best.end_s


def test_a_static_size_is_as_wrong_as_its_profile() -> None:
    task = job(10, "static")
    exact = static(task, TWO, 80.0, known(task, TWO))
    half = static(task, TWO, 80.0, known(task.wrong([0.5] * 4), TWO))
    assert exact.end_s == pytest.approx(80.0, rel=0.03)
    assert half.end_s > 1.5 * 80.0


def test_the_forecast_law_keeps_a_deadline_with_a_profile_that_is_wrong_by_a_third_in_every_stage() -> None:
    # seeds of which every stage's profile is off by 30%, up or down: few percent early, hardly ever late
    case, setting = Case(name="wrong", wrong=0.3), Setting()
    errors = []
    for seed in range(4):
        drawn = draw(case, seed, setting)
        out = run(drawn.job, FOUR_BY_FOUR, drawn.deadline_s, profile=drawn.profile, effects=REAL, seed=seed)
        errors.append(out.error_pct(drawn.deadline_s))
        assert out.allocated_to_used < 1.1
    spare_pct = 100 * (1 - ForecastSettings().alpha)
    assert sum(errors) / len(errors) == pytest.approx(-spare_pct, abs=1.0)

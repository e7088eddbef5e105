"""A morning on stock Spark and on Sparkpace: sizes, arrivals and goals are worked out by hand on made-up runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from experiments.harness.experiment import read_spec
from experiments.harness.recorded import Data, Order, SlotReading, StepRecord, Taught
from experiments.harness.reserved import CoreCourse, CoreSpan
from experiments.scenarios import make_scenario
from experiments.scenarios.half import Half, HalfJob
from experiments.scenarios.half_goals import (
    HALF,
    LESS,
    OURS,
    STOCK,
    HalfLimits,
    Morning,
    MorningJob,
    morning_goals,
    needs_all,
    reserved_ratios,
)
from stage_model.errors import BadInput
from tests.fakes.recorded import job_record, samples_of, step_record

SCENARIO = Half(
    jobs={
        "query": HalfJob(kind="SQL", words=("sql.py",), stretch=2.0),
        "model": HalfJob(kind="MLlib", words=("ml.py",), stretch=1.5),
    },
    options=("--conf", "a=b"),
    repetitions=2,
)
BASES = {"query": 40.0, "model": 40.0}
SIZES = {"query": (70.0, 110.0), "model": (70.0, 55.0)}
"""Times of the attempts. Query has 80 s: two executors are enough and one is not. Model has 60 s: two are too few and three
are enough."""


def step(name: str, job: str, end_s: float) -> StepRecord:
    return step_record(name, job_record(job, f"{name}-app", end_s=end_s))


def first_steps(**ends: float) -> dict[str, StepRecord]:
    """Return what ran before the mornings; `ends` replace times of steps, with `_` for `-`."""
    found = {f"base-{job}-0": step(f"base-{job}-0", job, end_s) for job, end_s in BASES.items()}
    for job, times in SIZES.items():
        found |= {f"size-{job}-{n}": step(f"size-{job}-{n}", job, end_s) for n, end_s in enumerate(times)}
    found |= {f"learn-{job}-0": step(f"learn-{job}-0", job, 90.0) for job in BASES}
    for words, end_s in ends.items():
        name = words.replace("_", "-")
        found[name] = step(name, name.split("-")[1], end_s)
    return found


def orders(name: str, **ends: float) -> list[Order]:
    return SCENARIO.orders(name, Data(first_steps(**ends)))


def executors(name: str, **ends: float) -> list[int | None]:
    return [order.stock_executors for order in orders(name, **ends)]


def test_the_sides_take_turns_in_both_orders() -> None:
    assert SCENARIO.steps()[:6] == ["base-query-0", "base-model-0", *(f"size-{j}-{n}" for j in BASES for n in (0, 1))]
    assert SCENARIO.steps()[6:] == [
        *("learn-query-0", "learn-model-0"),
        *("stock-0", "sparkpace-0", "half-0"),
        *("half-1", "sparkpace-1", "stock-1", "less-0"),
    ]


def test_a_deadline_comes_from_all_workers_and_the_size_is_the_least_that_keeps_it_in_its_own_run() -> None:
    assert executors("base-query-0") == [4]
    assert executors("size-query-0") == executors("size-model-0") == [2]
    assert (executors("size-query-1"), executors("size-model-1")) == ([1], [3])
    assert executors("stock-0") == [2, 3]
    # a deadline that is met exactly is kept
    assert executors("stock-0", size_query_1=80.0) == [1, 3]
    assert executors("stock-0", size_query_1=80.1, size_model_1=60.1) == [2, 4]


def test_stock_spark_gets_the_executors_that_were_chosen_and_a_cluster_by_itself() -> None:
    query, model = orders("stock-0")
    assert (query.stock, query.stock_workers, query.stock_cores) == (True, 4, 1.6)
    assert query.options == ("--conf", "a=b", "--conf", "spark.dynamicAllocation.maxExecutors=2")
    assert query.deadline_s is None
    # with a Worker less, no job can have four
    assert executors("less-0", size_model_1=60.1) == [2, 3]
    assert {order.stock_workers for order in orders("less-0")} == {3}
    assert model.words == ("ml.py",)


def test_sparkpace_gets_the_same_jobs_at_the_same_times_with_their_deadlines_and_what_one_run_taught() -> None:
    stock, ours, half = (orders(f"{side}-0") for side in ("stock", "sparkpace", "half"))
    assert [order.delay_s for order in stock] == [order.delay_s for order in ours] == [order.delay_s for order in half]
    assert [order.deadline_s for order in ours] == [order.deadline_s for order in half] == [80.0, 60.0]
    assert ours[0].options == (*stock[0].options, "--conf", "spark.cores.max=2")
    assert [order.profile for order in ours] == [Taught(("learn-query-0-app",)), Taught(("learn-model-0-app",))]
    assert ({order.cluster for order in ours}, {order.cluster for order in half}) == ({"full"}, {"half"})
    [learn] = orders("learn-model-0")
    assert (learn.cluster, learn.deadline_s, learn.profile, learn.options) == ("full", None, None, ours[1].options)


def test_the_morning_is_as_long_as_stock_spark_needs_to_reserve_its_share() -> None:
    # 2 executors for 70 s and 3 for 55 s, of 0.4 core: 122 core-seconds, and 0.6 * 1.6 cores; the second job is in the middle
    delays = [order.delay_s for order in orders("stock-0", learn_query_0=70.0, learn_model_0=55.0)]
    assert delays == [0.0, pytest.approx(122 / 0.96 / 2, abs=0.001)]


def test_only_numbers_of_executors_that_may_be_the_least_are_tried() -> None:
    jobs = {
        name: structs.replace(job, among=among)
        for (name, job), among in zip(SCENARIO.jobs.items(), [(1, 2), (3, 3)], strict=True)
    }
    scenario = structs.replace(SCENARIO, jobs=jobs)
    assert [name for name in scenario.steps() if name.startswith("size-")] == ["size-query-0"]
    found = Data(first_steps(size_query_0=80.1))
    assert scenario.orders("size-query-0", found)[0].stock_executors == 1
    assert [order.stock_executors for order in scenario.orders("stock-0", found)] == [2, 3]
    in_time = Data(first_steps(size_query_0=80.0))
    assert [order.stock_executors for order in scenario.orders("stock-0", in_time)] == [1, 3]


def test_a_step_whose_forerunner_is_missing_says_which() -> None:
    with pytest.raises(BadInput, match=r"^step base-query-0 has not run, .*--only"):
        SCENARIO.orders("size-query-1", Data({"size-query-0": step("size-query-0", "query", 1.0)}))


# ---------------------------------------------------------------- goals

LIMITS = HalfLimits()


def morning(side: str, number: int, reserved: float, *ends: float, failed: str = "") -> Morning:
    """Return a morning of jobs with deadlines of 100 s, in which that many core-seconds were reserved."""
    names = [f"job{place}" for place in range(len(ends))]
    jobs = tuple(MorningJob(name, 100.0, end_s, name == failed) for name, end_s in zip(names, ends, strict=True))
    return Morning(side, number, jobs, CoreCourse(1.6, (CoreSpan(0.0, 10.0, reserved / 10, 0.1),)))


def figures(*mornings: Morning) -> list[tuple[float | None, int, bool | None]]:
    return [(goal.measured, goal.n, goal.met) for goal in morning_goals(mornings, LIMITS)]


def test_jobs_are_late_beyond_half_a_percent_and_if_they_failed() -> None:
    one = morning(STOCK, 0, 100, 100.5, 100.6, 50.0, failed="job2")
    assert [job.job for job in one.late(LIMITS)] == ["job1", "job2"]
    assert one.late_s(LIMITS) == pytest.approx(0.6)


def test_each_morning_is_compared_with_stock_sparks_of_its_number() -> None:
    mornings = [
        *(morning(STOCK, 0, 100, 90, 105), morning(STOCK, 1, 200, 90, 90)),
        *(morning(OURS, 0, 60, 90, 90), morning(OURS, 1, 160, 102, 90), morning(OURS, 2, 900, 999, 999)),
        *(morning(HALF, 0, 50, 90, 110), morning(HALF, 1, 50, 90, 110)),
    ]
    assert figures(*mornings) == [
        (0.0, 2, True),  # a job less and a job more
        (-1.5, 2, True),  # 5 s less, 2 s more
        (0.7, 2, True),  # 0.6 and 0.8
        (1, 2, False),  # job1 was late on stock Spark, too, the first time
    ]
    assert reserved_ratios(mornings, HALF) == [0.5, 0.25]


def test_more_lateness_and_too_much_reserved_are_missed() -> None:
    found = figures(morning(STOCK, 0, 100, 90), morning(OURS, 0, 71, 101), morning(HALF, 0, 10, 90))
    assert [met for _, _, met in found] == [False, False, False, True]


def test_without_a_pair_no_goal_has_a_figure() -> None:
    assert figures(morning(STOCK, 0, 100, 90), morning(OURS, 1, 60, 90)) == [(None, 0, None)] * 4


@pytest.mark.parametrize(("fewer", "holds"), [((90.0, 110.0), True), ((90.0, 90.0), False)])
def test_stock_spark_needs_all_its_workers_only_if_more_is_late_with_one_less(fewer: tuple[float, ...], holds: bool) -> None:
    [found] = needs_all([morning(STOCK, 0, 100, 90, 90), morning(LESS, 0, 100, *fewer)], LIMITS)
    assert found.holds is holds
    assert needs_all([morning(STOCK, 0, 100, 90, 90)], LIMITS) == []


# ---------------------------------------------------------------- the report


def met(side: str, query_s: float, model_s: float, reserved: int) -> StepRecord:
    """Return a morning of 100 s in which `reserved` slots were held."""
    jobs = [job_record("query", f"{side}-q", end_s=query_s), job_record("model", f"{side}-m", end_s=model_s)]
    readings = [
        SlotReading(epoch_s=1000.0 + second, used_core_s=0.3 * second, slots={"q": reserved}) for second in (0, 50, 100)
    ]
    return structs.replace(step_record(f"{side}-0", *jobs), readings=tuple(readings))


def story() -> Data:
    steps = {f"{side}-0": met(side, 79.0, 66.0, 3) for side in (STOCK, OURS, HALF)} | {"less-0": met(LESS, 99.0, 99.0, 3)}
    # two executors with 0.1 core each, throughout
    samples = {f"{side}-q": samples_of([(0, 100, 0.1)]) for side in (OURS, HALF)}
    return Data({**first_steps(), **steps}, samples)


def test_the_report_shows_each_morning_each_job_and_the_sides_together() -> None:
    tables = SCENARIO.tables(story())
    # 3 slots of 0.4 for 100 s; of Sparkpace's, two have 0.1 and one was never sampled
    assert "| stock-0 | 2 | 1 | 6.0 | 120.0 | 30.0 | 0.250 | 1.20 | 100 |" in tables
    assert "| sparkpace-0 | 2 | 1 | 6.0 | 60.0 | 30.0 | 0.500 | 0.60 | 100 |" in tables
    assert "| sparkpace | 1 | 1.00 | 60.0 | 30.0 | 0.500 | 0.500 | 0.500 |" in tables
    assert "| query | SQL | 2 | 0 | 40.0 | 80.0 | -1.25 | -1.25 | -1.25 |" in tables
    conditions = {found.name: (found.holds, found.detail) for found in SCENARIO.conditions(story())}
    assert conditions["core-seconds reserved / those on stock Spark"] == (True, "0.500 ratio, limit 0.7, n=1")
    assert conditions["stock Spark has more jobs late with a Worker less"] == (
        True,
        "2.00 jobs late (n=1), on all Workers 1.00 (n=1)",
    )
    assert list(SCENARIO.courses(story())["cores"]) == [STOCK, OURS, HALF]


def test_a_report_can_be_made_after_every_step() -> None:
    steps: dict[str, StepRecord] = {}
    for name, record in story().steps.items():
        steps[name] = record
        data = Data(dict(steps), story().samples)
        assert SCENARIO.conditions(data)
        assert SCENARIO.tables(data)
        SCENARIO.courses(data)
    assert SCENARIO.goals(Data()) == []
    assert SCENARIO.courses(Data()) == {}


@pytest.mark.parametrize("cores", [("full", 1.0), ("half", 0.5)])
def test_sparkpaces_clusters_have_stock_sparks_workers_and_all_or_half_of_its_cores(cores: tuple[str, float]) -> None:
    name, share = cores
    _, spec = read_spec("half")
    scenario: Any = make_scenario("half", spec.settings, 1, Path("x"))
    asked = spec.clusters[name]
    assert float(asked.up[asked.up.index("--cores") + 1]) == pytest.approx(share * scenario.workers * scenario.slot_cores)
    assert (asked.cores_each, asked.slots, asked.alone) == (scenario.slot_cores, 1, True)
    assert len(scenario.jobs) == 12
    assert asked.workers >= scenario.workers

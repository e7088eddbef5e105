"""The reason why a run ended late, by example; the time from which a running application is late; and what of both reaches
the user."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from controller.master.core.findings import lateness_to_come
from controller.master.core.lateness import RunEnd, late_since, why_late
from controller.runs.run_folders import ended_runs
from controller.wire.basis import Lateness
from controller.wire.worker import ExecutorReport
from stage_model.history.events import StageInfo, StageSubmitted
from stage_model.history.profile import profile
from tests.fakes.cluster import FakeCluster, one_stage_run, report, sample, use
from tests.fakes.records import run, stage

KEPT = RunEnd(deadline_s=100.0, end_s=99.0, cores=2.0, used_core_s=80.0)
LATE = replace(
    KEPT, end_s=110.0, least_s=60.0, planned_core_s=80.0, planned_start_s=10.0, first_task_s=10.0, late_since_s=90.0
)
"""A run that ended 10 s late, which only the forecast explains."""


def why(**changed: object) -> Lateness:
    found = why_late(replace(LATE, **changed))  # type: ignore[arg-type]
    assert found is not None
    assert found.late_s == pytest.approx(10.0)
    return found


def test_a_run_in_time_has_no_reason() -> None:
    assert why_late(KEPT) is None
    assert why_late(replace(KEPT, end_s=100.0)) is None


def test_a_deadline_shorter_than_the_forecast_with_all_cores() -> None:
    found = why(least_s=108.0)
    assert (found.reason, found.planned_s, found.cores, found.explained_s) == ("deadline_too_short", 108.0, 2.0, 8.0)
    for value in ("1m40s", "1m48s", "2.00 cores"):
        assert value in found.sentence


def test_without_a_forecast_the_deadline_is_compared_with_what_all_cores_could_do() -> None:
    first = {"least_s": None, "planned_core_s": None, "planned_start_s": None}
    # 10 s until the first task, then 196 core-seconds on two cores
    found = why(**first, used_core_s=196.0)
    assert (found.reason, found.planned_s) == ("deadline_too_short", 108.0)
    assert why(**first).reason == "no_forecast"


def test_a_run_with_a_profile_had_a_forecast_even_if_no_worker_is_left() -> None:
    assert why(least_s=None, cores=0.0).reason == "forecast_wrong"


def test_squeezed_by_those_who_had_the_cores() -> None:
    found = why(owed_core_s=18.0, squeezed_by={"small": 1.0, "nightly": 13.0, "hourly": 4.0})
    assert (found.reason, found.core_s, found.explained_s) == ("squeezed", 18.0, 9.0)
    assert found.by == ("nightly", "hourly", "small")
    assert found.sentence.index("nightly") < found.sentence.index("hourly")
    assert "18.0" in found.sentence
    # names are of users' programs
    assert "\x1b" not in why(owed_core_s=18.0, squeezed_by={"\x1b[2J": 1.0}).sentence
    assert "others" in why(owed_core_s=18.0).sentence
    # of many, the first ones are named
    found = why(owed_core_s=18.0, squeezed_by={f"job{n}": float(n) for n in range(1, 7)})
    assert found.by == ("job6", "job5", "job4")
    assert "3 more" in found.sentence


def test_more_work_than_in_the_runs_that_it_was_planned_from() -> None:
    found = why(used_core_s=100.0)
    assert (found.reason, found.more, found.core_s, found.explained_s) == ("more_work", 0.25, 100.0, 10.0)
    assert "25% more" in found.sentence
    assert "arguments" not in found.sentence
    assert "other arguments" in why(used_core_s=100.0, other_arguments=True).sentence
    assert "is expected to be 25% more" in why(used_core_s=100.0, under_way=True).sentence


def test_the_largest_input_ever_is_said_with_more_work() -> None:
    found = why(used_core_s=100.0, input_records=500, most_input_records=400)
    assert "500 records, is larger than ever (400 at most before)" in found.sentence
    for records in (404, 400, 0):
        assert "input" not in why(used_core_s=100.0, input_records=records, most_input_records=400).sentence
    assert "input" not in why(used_core_s=100.0, input_records=500).sentence


def test_waited_before_its_first_task() -> None:
    found = why(first_task_s=19.0, waited_for="it comes after pace-1 (load), which has not ended")
    assert (found.reason, found.explained_s) == ("waited", 9.0)
    assert "9" in found.sentence
    assert "pace-1 (load)" in found.sentence


def test_what_explains_less_than_half_is_not_the_reason() -> None:
    little = {"least_s": 104.0, "owed_core_s": 8.0, "used_core_s": 88.0, "first_task_s": 14.0}
    found = why(**little)
    assert (found.reason, found.kept_until_s) == ("forecast_wrong", 90.0)
    assert "1m30s" in found.sentence
    # nothing announced it
    assert why(late_since_s=100.0).kept_until_s is None


def test_the_first_reason_of_several_is_given() -> None:
    every = {"least_s": 110.0, "owed_core_s": 20.0, "used_core_s": 100.0, "first_task_s": 20.0}
    without = {"least_s": 60.0, "owed_core_s": 0.0, "used_core_s": 80.0, "first_task_s": 10.0}
    found = []
    for name in (None, *every):
        if name:
            every[name] = without[name]
        found.append(why(**every).reason)
    assert found == ["deadline_too_short", "squeezed", "more_work", "waited", "forecast_wrong"]


seconds = st.floats(0, 1e6)


@given(seconds, seconds, st.floats(0, 100), st.none() | seconds, st.none() | seconds, seconds)
def test_every_late_run_has_one_reason(
    deadline_s: float, late_s: float, cores: float, least_s: float | None, start_s: float | None, work: float
) -> None:
    facts = RunEnd(
        deadline_s=deadline_s, end_s=deadline_s + late_s, cores=cores, used_core_s=work, least_s=least_s,
        planned_core_s=work / 2, planned_start_s=start_s, first_task_s=late_s, owed_core_s=work / 3,
    )  # fmt: skip
    found = why_late(facts)
    assert (found is None) == (facts.end_s <= deadline_s)
    if found is not None:
        assert found.sentence
        assert 0 <= found.explained_s <= found.late_s


def test_lateness_begins_with_the_first_forecast_past_the_deadline_and_ends_with_the_first_in_time() -> None:
    since = None
    seen = []
    for at_s, forecast_s in [(1.0, 90.0), (2.0, 101.0), (3.0, None), (4.0, 102.0), (5.0, 100.0), (6.0, 101.0)]:
        since = late_since(since, forecast_s, 100.0, at_s)
        seen.append(since)
    assert seen == [None, 2.0, 2.0, 2.0, None, 6.0]


def test_a_deadline_that_has_passed_is_missed_whatever_is_forecast() -> None:
    assert late_since(None, None, 100.0, 103.0) == 100.0
    assert late_since(40.0, 90.0, 100.0, 103.0) == 40.0
    assert late_since(40.0, 90.0, None, 103.0) is None


# ---------------------------------------------------------------- in the master


def asks(deadline: str = "", arguments: tuple[str, ...] = ("12",), **more: str) -> dict[str, str]:
    conf = {"spark.pace.arguments": json.dumps(arguments), **{f"spark.pace.{name}": value for name, value in more.items()}}
    return conf | ({"spark.pace.deadline": deadline} if deadline else {})


def teach(cluster: FakeCluster, work_core_s: float, launch_s: float | None = None) -> None:
    """Let a run of "app@app.py" teach, with a stage of that many core-seconds on a core."""
    one = stage("collect", name="collect at app.py:1", work_core_s=work_core_s, start_s=1.0)
    taught = run("r0", 0, one, arguments=("12",), cores=1.0, slots=1, startup_s=1.0, launch_s=launch_s, tail_s=0.0)
    cluster.state.profiles.add(profile("app@app.py", [taught]))


def test_a_run_that_did_more_than_planned_says_so_everywhere(cluster: FakeCluster) -> None:
    teach(cluster, 4.0)
    job = cluster.finished_run(conf=asks("8s"))
    view = cluster.view(job)
    assert view.lateness is not None
    assert (view.lateness.reason, view.lateness.more) == ("more_work", 1.0)
    summary = cluster.summary(job)
    assert summary["lateness"]["sentence"] == view.lateness.sentence
    assert summary["basis"]["same_arguments"] == 1
    [ended] = ended_runs(cluster.path / "runs")
    assert ended.lateness == view.lateness
    explained = cluster.state.core.commands.explain(job, cluster.now_s)
    assert (explained.lateness, explained.basis) == (view.lateness, view.basis)


@pytest.mark.parametrize(("launch_s", "reason"), [(0.0, "waited"), (2.0, "deadline_too_short")])
def test_executors_that_take_as_long_to_start_as_before_are_no_wait(
    cluster: FakeCluster, launch_s: float, reason: str
) -> None:
    """The first task begins 3 s after submission, of which 2 s may be the usual start of executors; 8 s of work follow."""
    teach(cluster, 8.0, launch_s)
    view = cluster.view(cluster.finished_run(conf=asks("9s", force="true")))
    assert view.lateness is not None
    assert view.lateness.reason == reason


def test_a_running_application_counts_the_work_that_is_still_to_come(cluster: FakeCluster) -> None:
    cluster.finished_run(conf=asks())
    application = cluster.registered(conf=asks("30s"))
    most = cluster.state.workers.capacity(application, cluster.now_s)
    # 8 core-seconds are planned, and nothing has shown more: the forecast by itself is the reason
    found = lateness_to_come(application, most, 40.0)
    assert found is not None
    assert (found.reason, found.late_s) == ("forecast_wrong", 10.0)
    assert lateness_to_come(application, most, 29.0) is None, "in time"
    cluster.driver(application.id, *one_stage_run(1000)[:-4])
    cluster.worker("w1", report(application.id, "1", stages=(use(0, 20.0, done=3),)))
    found = lateness_to_come(application, most, 40.0)
    assert found is not None
    assert (found.reason, found.core_s, found.more) == ("more_work", 20.0, 1.5)


def test_input_that_is_read_again_after_a_loss_is_no_larger_input(cluster: FakeCluster) -> None:
    cluster.finished_run(conf=asks())
    application = cluster.registered(conf=asks("30s"))
    started, submitted, *tasks, completed = one_stage_run(1000)[:-2]
    info = StageInfo(stage=0, attempt=1, name="collect at /x/app.py:1", tasks=4)
    again = [structs.replace(task, attempt=1) for task in tasks[:3]]
    lost = structs.replace(completed, failure="its output was lost")
    cluster.driver(application.id, started, submitted, *tasks, lost, StageSubmitted(info=info, time_ms=9000), *again)
    cluster.worker("w1", report(application.id, "1", stages=(use(0, 20.0, done=4),)))
    found = lateness_to_come(application, cluster.state.workers.capacity(application, cluster.now_s), 40.0)
    assert found is not None
    assert found.reason == "more_work"
    assert "input" not in found.sentence


def test_a_run_in_time_says_what_it_rested_on_and_no_reason(cluster: FakeCluster) -> None:
    for _ in range(2):
        cluster.finished_run(conf=asks())
    job = cluster.finished_run(conf=asks("30s"))
    view, summary = cluster.view(job), cluster.summary(job)
    assert (view.lateness, summary["lateness"]) == (None, None)
    assert view.basis is not None
    assert (view.basis.runs, view.basis.same_arguments, view.basis.recognised, view.basis.late_since_s) == (2, 2, 1.0, None)


def test_a_run_that_was_killed_was_not_late(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    job = cluster.register(conf=asks("5s"))
    cluster.now_s += 60
    cluster.kill(job)
    assert cluster.view(job).lateness is None


def test_a_run_with_other_arguments_is_informed_when_it_registers(cluster: FakeCluster) -> None:
    teach(cluster, 4.0)
    cluster.worker("w1")
    view = cluster.view(cluster.register(conf=asks("90s", ("24",))))
    assert view.basis is not None
    assert (view.basis.runs, view.basis.same_arguments, view.basis.further) == (1, 0, 1.0)
    assert view.notices == (view.basis.sentence,)
    assert "other arguments" in view.basis.sentence
    assert "100%" in view.basis.sentence
    # with the same ones there is nothing to tell
    assert cluster.view(cluster.register(conf=asks("90s"))).notices == ()


def test_the_plan_of_a_run_with_other_arguments_keeps_time(cluster: FakeCluster) -> None:
    """Its stage of 4 core-seconds on a core of its own has no loop behind it: while nothing has come, as much again may."""
    teach(cluster, 4.0)
    cluster.worker("w1")
    plans = []
    for arguments in (("12",), ("24",)):
        job = cluster.register(conf=asks("90s", arguments))
        cluster.driver(job)
        plans.append(next(p for p in cluster.worker("w1").desired.applications if p.application_id == job))
    # 4 s of work, and 2 s that no core shortens
    assert [plan.further_s for plan in plans] == [0.0, pytest.approx(6.0)]


def squeezed(cluster: FakeCluster, **sampled: Any) -> tuple[str, list[ExecutorReport]]:
    """Run two applications for 3 s: one with a quarter of the core, `other`, of a higher priority, with the rest. Return the
    first one, and what is reported of both."""
    cluster.worker("w1")
    mine, other = cluster.register(conf=asks("60s")), cluster.register(name="other", conf=asks(priority="high"))
    for job in (mine, other):
        cluster.driver(job)
    here = [report(mine, "1", demand_cores=1.0, quota_cores=0.25), report(other, "1", demand_cores=0.75, quota_cores=0.75)]
    cluster.worker("w1", *here)
    for at_s in (1.0, 2.0, 3.0):
        rows = (
            sample(mine, "1", at_s, demand=1.0, grant=0.25, squeezed=True, **sampled),
            sample(other, "1", at_s, demand=0.75, grant=0.75),
        )
        cluster.worker("w1", *here, samples=rows, sample_seq=2 * int(at_s - 1))
    return mine, here


@pytest.mark.parametrize("pressed", [False, True], ids=["by another job", "by a machine under pressure"])
def test_an_application_is_named_that_had_the_cores_also_after_a_restart(cluster: FakeCluster, pressed: bool) -> None:
    mine, _ = squeezed(cluster, pressed=pressed)
    for _ in range(2):
        totals = cluster.state.applications[mine].totals
        # three quarters of a core for two seconds
        assert totals.withheld_core_s() == pytest.approx(1.5)
        assert totals.squeezed_by() == ({} if pressed else {"other": pytest.approx(1.5)})
        cluster.tick(60)
        cluster.restart()


def test_since_when_it_is_late_is_shown_while_it_runs_and_survives_a_restart(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    job = cluster.register(conf=asks("60s"))
    cluster.driver(job)
    cluster.worker("w1", report(job, "1"))

    def late_since_s() -> float | None:
        basis = cluster.view(job).basis
        assert basis is not None
        return basis.late_since_s

    seen = []
    for number, forecast_s in enumerate((50.0, 61.0, 62.0)):
        rows = (sample(job, "1", 5.0 + number, forecast_end_s=forecast_s),)
        cluster.worker("w1", report(job, "1"), samples=rows, sample_seq=number)
        seen.append(late_since_s())
    assert seen == [None, 6.0, 6.0]
    cluster.now_s += 60
    cluster.state.tick(cluster.now_s)
    cluster.restart()
    assert late_since_s() == 6.0


def test_a_run_that_waited_for_another_names_it(cluster: FakeCluster) -> None:
    teach(cluster, 8.0)
    cluster.worker("w1")
    first = cluster.register(name="load", instance="first")
    job = cluster.register(conf=asks("25s", after="load"))
    cluster.driver(job)
    cluster.kill(first)
    cluster.now_s += 20
    for _ in range(2):
        cluster.pass_by()
    events = one_stage_run(20_000)
    cluster.driver(job, *events[:-1])
    cluster.now_s += 9
    cluster.worker("w1", report(job, "1", stages=(use(0, 8.0, done=4),)))
    cluster.driver(job, events[-1], first=len(events), ended=True)
    cluster.tick()
    lateness = cluster.view(job).lateness
    assert lateness is not None
    # submitted 2 s before the clock of the driver began: 30 s, and its first task after 22 where 1 was planned
    assert lateness.reason == "waited"
    assert lateness.late_s == pytest.approx(5.0, abs=0.1)
    assert first in lateness.sentence
    assert "21s" in lateness.sentence

"""Reasons why a run teaches nothing: each reason, where it is reported, and that the next run of the job reports it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers

from controller.master.core.lesson import CLAUSES, NoLesson, why_untaught
from controller.wire.basis import Untaught
from stage_model.history.events import AnyEvent, ApplicationEnd
from stage_model.history.run import Run
from tests.fakes.cluster import FakeCluster, one_stage_run, report
from tests.fakes.refusals import assert_names

END_MS = 20_000
KEY = "app@app.py"
NO_JOB = Untaught(reason="no_job", sentence="it ran no Spark job")


def made(*, ended: bool = True, job: bool = True, lossy: bool = False) -> Run:
    run = Run()
    for event in one_stage_run(1000)[:-1] if job else ():
        run.apply(event)
    if lossy:
        run.replace_active(())
    if ended:
        run.apply(ApplicationEnd(time_ms=END_MS))
    return run


@given(succeeded=booleans(), ended=booleans(), job=booleans(), lossy=booleans(), left_out=integers(0, 2))
def test_a_whole_run_that_ended_well_teaches(succeeded: bool, ended: bool, job: bool, lossy: bool, left_out: int) -> None:
    found = why_untaught(made(ended=ended, job=job, lossy=lossy), succeeded=succeeded, left_out=left_out)
    assert (found is None) is (succeeded and ended and job and not lossy and not left_out)
    assert found is None or found.sentence == CLAUSES[NoLesson(found.reason)]


@pytest.mark.parametrize(
    ("run", "succeeded", "left_out", "reason"),
    [
        (made(), False, 0, NoLesson.NOT_WELL),
        (made(job=False), False, 1, NoLesson.NOT_WELL),
        (made(job=False), True, 0, NoLesson.NO_JOB),
        (made(job=False), True, 1, NoLesson.EVENTS_MISSING),
        (made(job=False, lossy=True), True, 0, NoLesson.EVENTS_MISSING),
        (made(lossy=True), True, 0, NoLesson.EVENTS_MISSING),
        (made(ended=False), True, 0, NoLesson.EVENTS_MISSING),
        (made(), True, 1, NoLesson.EVENTS_MISSING),
    ],
)
def test_the_reason_is_the_first_that_holds(run: Run, succeeded: bool, left_out: int, reason: NoLesson) -> None:
    found = why_untaught(run, succeeded=succeeded, left_out=left_out)
    assert found is not None
    assert found.reason == reason


def run_of(cluster: FakeCluster, *events: AnyEvent, damaged: bool = False, **changed: Any) -> str:
    """Run an application that reports these events from begin to end; its profile may be damaged meanwhile."""
    cluster.worker("w1")
    application_id = cluster.register(**changed)
    cluster.worker("w1", report(application_id, "1"))
    if damaged:
        (cluster.path / "profiles" / f"{KEY}.json").write_text("no profile")
    cluster.now_s += 20
    cluster.driver(application_id, *events, ended=True)
    cluster.exits(application_id, "1", exit_code=0)
    return application_id


def noticed(cluster: FakeCluster, application_id: str) -> list[str]:
    """Return the notices about its profile that the application got."""
    return [line for line in cluster.state.applications[application_id].notices.lines if "no profile" in line]


def test_the_record_the_view_and_the_explanation_tell_it(cluster: FakeCluster) -> None:
    silent = run_of(cluster, ApplicationEnd(time_ms=END_MS))
    found = cluster.summary(silent)
    assert (found["outcome"], found["taught"]) == ("succeeded", False)
    assert found["untaught"] == {"reason": NO_JOB.reason, "sentence": NO_JOB.sentence}
    assert found["largest_stages"] == []
    assert cluster.view(silent).untaught == NO_JOB
    assert cluster.state.core.commands.explain(silent, cluster.now_s).untaught == NO_JOB


@pytest.mark.parametrize("restarted", [False, True])
def test_the_next_run_is_informed_until_a_run_teaches(cluster: FakeCluster, restarted: bool) -> None:
    silent = run_of(cluster, ApplicationEnd(time_ms=END_MS))
    [first] = noticed(cluster, silent)
    assert KEY in first
    if restarted:
        cluster.restart()
    planned = cluster.plan(profile=KEY)
    second = run_of(cluster, *one_stage_run(1000), instance="second")
    assert noticed(cluster, second) == [planned.reason] != [first]
    assert_names(planned.reason, KEY, silent, NO_JOB.sentence)
    assert cluster.summary(second)["untaught"] is None
    if restarted:
        cluster.restart()
    assert cluster.state.registry.untaught == {}


def test_a_profile_that_is_damaged_by_then_is_a_reason(cluster: FakeCluster) -> None:
    found = cluster.summary(run_of(cluster, *one_stage_run(1000), damaged=True))
    assert (found["taught"], found["untaught"]["reason"]) == (False, "profile")
    assert f"{KEY}.json" in found["untaught"]["sentence"]


def test_what_is_known_goes_with_the_run_s_record(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, keep_runs=1)
    run_of(cluster, ApplicationEnd(time_ms=END_MS))
    assert set(cluster.state.registry.untaught) == {KEY}
    run_of(cluster, *one_stage_run(1000), name="other", instance="second")
    assert cluster.state.registry.untaught == {}

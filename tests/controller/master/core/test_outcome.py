"""Outcomes of applications, by all that may be known of their drivers: each rule, and the reports that are waited for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from controller.machine.process import find_process
from controller.master.core import registry
from controller.master.core.lifecycle import HEARD_S, SILENCE_S, WORD_S
from controller.master.core.outcome import DriverEnd, driver_end, judge
from controller.wire.states import Outcome
from stage_model.errors import NotStored
from stage_model.history.events import AnyEvent, ApplicationEnd, JobEnd
from tests.fakes.cluster import FakeCluster, one_stage_run, report

SUBMISSION = "0a1b2c3d-0000-0000-0000-000000000000"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def judged(
    cut_off: Outcome | None = None,
    code: int | None = None,
    end: DriverEnd | None = None,
    *,
    server: bool = False,
    seems_well: bool = True,
) -> Outcome:
    return judge(cut_off, code, end, server=server, seems_well=seems_well)[0]


@pytest.mark.parametrize(
    ("code", "of_a_job", "of_a_server"),
    [
        (0, Outcome.SUCCEEDED, Outcome.SUCCEEDED),
        (1, Outcome.FAILED, Outcome.FAILED),
        (255, Outcome.FAILED, Outcome.FAILED),
        (128 + 1, Outcome.KILLED, Outcome.SUCCEEDED),
        (128 + 2, Outcome.KILLED, Outcome.SUCCEEDED),
        (128 + 15, Outcome.KILLED, Outcome.SUCCEEDED),
        (128 + 9, Outcome.DRIVER_DIED, Outcome.DRIVER_DIED),
        (128 + 11, Outcome.DRIVER_DIED, Outcome.DRIVER_DIED),
    ],
)
def test_exit_codes_decide_and_servers_asked_to_end_ended_well(code: int, of_a_job: Outcome, of_a_server: Outcome) -> None:
    for seems_well in (True, False):
        assert judged(code=code, seems_well=seems_well) is of_a_job
        assert judged(code=code, seems_well=seems_well, server=True) is of_a_server
        assert judged(Outcome.DRIVER_DIED, code, DriverEnd.UNKNOWN) is of_a_job, "the master was away when it ended"


@pytest.mark.parametrize(
    ("end", "outcome", "of_a_server"),
    [
        (DriverEnd.WELL, Outcome.SUCCEEDED, Outcome.SUCCEEDED),
        (DriverEnd.FAILED, Outcome.FAILED, Outcome.FAILED),
        (DriverEnd.ASKED, Outcome.KILLED, Outcome.SUCCEEDED),
        (DriverEnd.TO_COME, Outcome.DRIVER_DIED, Outcome.DRIVER_DIED),
    ],
)
def test_without_an_exit_code_the_bridge_s_word_decides(end: DriverEnd, outcome: Outcome, of_a_server: Outcome) -> None:
    for seems_well in (True, False):
        assert judged(end=end, seems_well=seems_well) is outcome
        assert judged(end=end, seems_well=seems_well, server=True) is of_a_server


@pytest.mark.parametrize("end", [None, DriverEnd.UNKNOWN])
def test_where_no_one_knows_the_jobs_do(end: DriverEnd | None) -> None:
    assert judged(end=end) is Outcome.SUCCEEDED
    assert judged(end=end, seems_well=False) is Outcome.UNKNOWN
    assert judged(Outcome.DRIVER_DIED, end=end) is Outcome.DRIVER_DIED


@pytest.mark.parametrize("cut_off", [Outcome.KILLED, Outcome.STOPPED])
def test_what_was_ended_by_a_command_or_the_master_is_no_success_whatever_its_driver_says(cut_off: Outcome) -> None:
    assert judged(cut_off, 0, DriverEnd.WELL, server=True) is cut_off


def test_a_word_of_a_newer_bridge_is_unknown() -> None:
    assert driver_end("well") is DriverEnd.WELL
    assert driver_end("in style") is DriverEnd.UNKNOWN


class Jobs:
    """Applications on a cluster whose drivers all are one process, which lives until a test ends it."""

    def __init__(self, cluster: FakeCluster, driver: subprocess.Popen[bytes]) -> None:
        self.cluster, self.driver = cluster, driver

    def begin(self, main: str = "app.py", **conf: str) -> str:
        identity = find_process(self.driver.pid)
        assert identity is not None
        self.cluster.worker("w1")
        settings = {f"spark.pace.{name}": value for name, value in conf.items()}
        job = self.cluster.register(pid=identity.pid, pid_start=identity.start_ticks, main=main, conf=settings)
        self.cluster.worker("w1", report(job, "1"))
        return job

    def end(self, job: str, *events: AnyEvent, said: str | None = None) -> None:
        """Send all events of a run, or those given, and the farewell; the worker has cleaned up."""
        self.cluster.now_s += 9
        self.cluster.driver(job, *(events or one_stage_run(1000)), ended=True, driver_end=said)
        self.cluster.exits(job, exit_code=0)

    def submit_tells(self, code: int) -> None:
        self.cluster.state.commands.driver_ended(SUBMISSION, code, self.cluster.now_s)
        self.cluster.tick()

    def die(self) -> None:
        self.driver.communicate(b"\n")
        self.cluster.tick(HEARD_S)

    def outcome(self, job: str) -> tuple[str | None, bool]:
        """Return the outcome of an application, in its view; and whether its record is there and says the same."""
        view = self.cluster.view(job)
        recorded = (self.cluster.path / "runs" / job / "summary.json").exists()
        assert view.finished == recorded
        if recorded:
            found = self.cluster.summary(job)
            assert found["outcome"] == view.outcome
            assert found["taught"] is (view.outcome == "succeeded")
            assert (None if found["taught"] else "not_well") == (found["untaught"] and found["untaught"]["reason"])
            assert (found["error_pct"] is not None) is (view.outcome == "succeeded" and found["deadline_s"] is not None)
            assert found["end_reason"] == view.reason
        return view.outcome, recorded


@pytest.fixture
def jobs(cluster: FakeCluster) -> Iterator[Jobs]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield Jobs(cluster, process)


@pytest.mark.parametrize(("code", "outcome"), [(0, "succeeded"), (1, "failed"), (143, "killed")])
def test_the_outcome_is_open_until_submit_tells_the_exit_code(jobs: Jobs, code: int, outcome: str) -> None:
    ended = jobs.cluster.state.registry.tally.ended
    job = jobs.begin(submission=SUBMISSION, deadline="60s")
    jobs.end(job, said="to_come")
    jobs.cluster.tick(600)  # it goes on without Spark for a long time
    assert (jobs.outcome(job), ended) == ((None, False), {})
    jobs.submit_tells(code)
    assert (jobs.outcome(job), ended) == ((outcome, True), {outcome: 1})
    jobs.submit_tells(1 - min(code, 1))
    assert jobs.outcome(job) == (outcome, True), "what is settled stays"


def test_all_applications_of_a_submission_get_the_exit_code(jobs: Jobs) -> None:
    first = jobs.begin(submission=SUBMISSION)
    jobs.end(first)
    second = jobs.begin(submission=SUBMISSION)
    other = jobs.begin(submission=SUBMISSION.replace("0", "1"))
    jobs.submit_tells(1)
    assert [jobs.outcome(one)[0] for one in (first, second, other)] == ["failed", "failed", None]


def test_a_submit_that_is_gone_is_not_waited_for_for_ever(jobs: Jobs) -> None:
    job = jobs.begin(submission=SUBMISSION)
    jobs.end(job)
    jobs.die()
    jobs.cluster.tick(WORD_S - 0.1)
    assert jobs.outcome(job) == (None, False)
    jobs.cluster.tick(0.1)
    assert jobs.outcome(job) == ("succeeded", True)


@pytest.mark.parametrize(
    ("said", "outcome"), [("well", "succeeded"), ("failed", "failed"), ("asked", "killed"), (None, "driver_died")]
)
def test_a_bridges_promised_word_is_waited_for_while_its_driver_lives(jobs: Jobs, said: str | None, outcome: str) -> None:
    job = jobs.begin()
    jobs.end(job, said="to_come")
    jobs.cluster.tick(600)
    assert jobs.outcome(job) == (None, False)
    if said is not None:
        jobs.cluster.driver(job, ended=True, driver_end=said)
    jobs.die()
    assert jobs.outcome(job) == (outcome, True)


@pytest.mark.parametrize("said", ["failed", None])
def test_an_end_that_arrives_before_the_farewell_is_not_judged_yet(jobs: Jobs, said: str | None) -> None:
    """Spark reports the application's end before it stops the scheduler, whose farewell says how the driver ends."""
    job, events = jobs.begin(), one_stage_run(1000)
    assert isinstance(events[-1], ApplicationEnd)
    jobs.cluster.driver(job, *events)
    jobs.cluster.tick(600)
    assert jobs.outcome(job) == (None, False)
    jobs.cluster.driver(job, first=len(events) + 1, ended=True, driver_end=said)
    jobs.cluster.pass_by()
    assert jobs.outcome(job) == (said or "succeeded", True)


def test_a_driver_out_of_sight_that_goes_on_in_silence_has_not_died(jobs: Jobs) -> None:
    jobs.cluster.worker("w1")
    job = jobs.cluster.register(boot_id="another machine's")
    jobs.cluster.worker("w1", report(job, "1"))
    jobs.end(job, said="to_come")
    for _ in range(int(SILENCE_S) - 1):
        jobs.cluster.tick(1)
    assert jobs.outcome(job) == (None, False)
    for _ in range(2):
        jobs.cluster.tick(1)
    assert jobs.outcome(job) == ("succeeded", True)


@pytest.mark.parametrize("said", [None, "unknown"])
@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("", "succeeded"),
        ("Job aborted due to stage failure", "unknown"),
        ("Job 0 cancelled part of cancelled job group g", "succeeded"),
    ],
)
def test_where_no_exit_code_will_come_the_jobs_settle_the_outcome_at_once(
    jobs: Jobs, said: str | None, how: str, outcome: str
) -> None:
    job = jobs.begin()
    events = [
        JobEnd(job=0, time_ms=one.time_ms, ok=not how, failure=how) if isinstance(one, JobEnd) else one
        for one in one_stage_run(1000)
    ]
    jobs.end(job, *events, said=said)
    assert jobs.outcome(job) == (outcome, True)


def test_a_server_that_is_asked_to_end_teaches(jobs: Jobs) -> None:
    job = jobs.begin(main=SERVER)
    jobs.end(job, said="asked")
    assert jobs.outcome(job) == ("succeeded", True)


def test_a_success_of_which_events_are_missing_teaches_nothing(jobs: Jobs) -> None:
    job = jobs.begin(submission=SUBMISSION)
    jobs.cluster.driver(job, *one_stage_run(1000)[:3])
    jobs.submit_tells(0)
    jobs.cluster.worker("w1")
    jobs.cluster.tick(60)
    view, found = jobs.cluster.view(job), jobs.cluster.summary(job)
    assert (view.state, view.outcome, view.reason) == ("ended", "succeeded", "")
    assert (found["taught"], found["untaught"]["reason"]) == (False, "events_missing")


def test_who_comes_after_a_success_follows_the_outcome(jobs: Jobs) -> None:
    """The jobs of the first one were all done; its driver failed afterwards."""
    first = jobs.begin(submission=SUBMISSION)
    second = jobs.cluster.register(conf={"spark.pace.after": f"{first}:success"})
    jobs.end(first)
    jobs.submit_tells(1)
    jobs.cluster.tick()
    view = jobs.cluster.view(second)
    assert (view.state, view.outcome) == ("ended", "stopped")
    assert first in view.reason


@pytest.mark.parametrize("how", [Outcome.KILLED, Outcome.STOPPED])
def test_a_driver_is_stopped_by_its_outcome_even_without_a_sentence(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, how: Outcome
) -> None:
    monkeypatch.setattr(registry, "REASONS", {})
    application = cluster.registered()
    cluster.state.registry.end(application, cluster.now_s, how)
    assert cluster.driver(application.id).stop is not None
    cluster.driver(application.id, ended=True)
    assert cluster.driver(application.id, ended=True).stop is None
    assert cluster.state.registry.tally.ended == {how: 1}


def test_what_is_known_survives_a_restart_of_the_master(jobs: Jobs) -> None:
    job = jobs.begin(submission=SUBMISSION)
    jobs.end(job)
    jobs.cluster.state.commands.driver_ended(SUBMISSION, 1, jobs.cluster.now_s)
    jobs.cluster.restart()
    jobs.driver.communicate(b"\n")
    for _ in range(2):
        jobs.cluster.tick(60)
    assert jobs.outcome(job) == ("failed", True)
    jobs.cluster.restart()
    assert not jobs.cluster.state.registry.past[job].succeeded


def test_submit_is_to_ask_again_while_it_cannot_be_stored(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs.begin(submission=SUBMISSION)
    jobs.end(job)
    monkeypatch.setattr(jobs.cluster.state.store, "failing", "the disk is full")
    with pytest.raises(NotStored, match="the disk is full"):
        jobs.submit_tells(1)
    assert jobs.cluster.state.applications[job].record.exit_code == 1, "control goes on from memory"


def test_a_dead_driver_ends_its_application(jobs: Jobs) -> None:
    job = jobs.begin()
    for death in (lambda: None, lambda: jobs.driver.communicate(b"\n")):
        jobs.cluster.tick(HEARD_S)
        assert jobs.cluster.view(job).state != "ended"
        jobs.cluster.driver(job)
        death()
    jobs.cluster.tick()
    assert jobs.cluster.view(job).state != "ended", "its last word was a moment ago"
    jobs.cluster.tick(HEARD_S)
    view = jobs.cluster.view(job)
    assert (view.state, view.outcome) == ("ended", "driver_died")
    assert jobs.cluster.worker("w1", report(job, "1")).desired.stopped == (f"{job}/1",)


def test_an_end_while_no_master_ran_is_counted_by_the_next_one_as_a_dead_driver(jobs: Jobs) -> None:
    jobs.begin()
    jobs.cluster.state.store.close()
    jobs.driver.communicate(b"\n")
    jobs.cluster.restart()
    jobs.cluster.tick(HEARD_S)
    assert jobs.cluster.state.registry.tally.ended == {"driver_died": 1}

"""Outcomes of applications, by all that may be known of their drivers: each rule, and who waits for whose word."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from controller.machine.process import find_process
from controller.master.core import registry
from controller.master.core.lifecycle import HEARD_S, SILENCE_S, WORD_S
from controller.master.core.outcome import DriverEnd, Evidence, driver_end, judge
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
    return judge(Evidence(cut_off, code, end, server, seems_well))[0]


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
def test_the_exit_code_decides_and_servers_that_are_asked_to_end_have_ended_well(
    code: int, of_a_job: Outcome, of_a_server: Outcome
) -> None:
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


@pytest.fixture
def driver() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def begin(cluster: FakeCluster, driver: subprocess.Popen[bytes], main: str = "app.py", **conf: str) -> str:
    """Begin an application whose driver lives until `driver` is ended."""
    identity = find_process(driver.pid)
    assert identity is not None
    cluster.worker("w1")
    settings = {f"spark.pace.{name}": value for name, value in conf.items()}
    application_id = cluster.register(pid=identity.pid, pid_start=identity.start_ticks, main=main, conf=settings)
    cluster.worker("w1", report(application_id, "1"))
    return application_id


def end(cluster: FakeCluster, application_id: str, *events: AnyEvent, said: str | None = None) -> None:
    """Send all events of a run, or those given, and the farewell; the worker has cleaned up."""
    cluster.now_s += 9
    cluster.driver(application_id, *(events or one_stage_run(1000)), ended=True, driver_end=said)
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=0))
    cluster.worker("w1")
    cluster.tick()


def die(cluster: FakeCluster, driver: subprocess.Popen[bytes]) -> None:
    driver.communicate(b"\n")
    cluster.tick(HEARD_S)


def told(cluster: FakeCluster, application_id: str) -> tuple[str | None, bool]:
    """Return the outcome of an application, in its view; and whether its record is there and says the same."""
    view = cluster.view(application_id)
    summary = cluster.path / "runs" / application_id / "summary.json"
    assert view.finished == summary.exists()
    if summary.exists():
        found = json.loads(summary.read_text())
        assert found["outcome"] == view.outcome
        assert found["taught"] is (view.outcome == "succeeded")
        assert (None if found["taught"] else "not_well") == (found["untaught"] and found["untaught"]["reason"])
        assert (found["error_pct"] is not None) is (view.outcome == "succeeded" and found["deadline_s"] is not None)
        assert found["end_reason"] == view.reason
    return view.outcome, summary.exists()


@pytest.mark.parametrize(("code", "outcome"), [(0, "succeeded"), (1, "failed"), (143, "killed")])
def test_the_outcome_is_open_until_submit_tells_the_exit_code(
    cluster: FakeCluster, driver: subprocess.Popen[bytes], code: int, outcome: str
) -> None:
    application_id = begin(cluster, driver, submission=SUBMISSION, deadline="60s")
    end(cluster, application_id, said="to_come")
    cluster.now_s += 600  # it goes on without Spark for a long time
    cluster.tick()
    assert told(cluster, application_id) == (None, False)
    assert not cluster.state.registry.tally.ended
    cluster.state.commands.driver_ended(SUBMISSION, code, cluster.now_s)
    cluster.tick()
    assert told(cluster, application_id) == (outcome, True)
    assert cluster.state.registry.tally.ended == {outcome: 1}
    cluster.state.commands.driver_ended(SUBMISSION, 1 - min(code, 1), cluster.now_s)
    cluster.tick()
    assert told(cluster, application_id) == (outcome, True), "what is settled stays"


def test_all_applications_of_a_submission_are_told(cluster: FakeCluster, driver: subprocess.Popen[bytes]) -> None:
    first = begin(cluster, driver, submission=SUBMISSION)
    end(cluster, first)
    second = begin(cluster, driver, submission=SUBMISSION)
    other = begin(cluster, driver, submission=SUBMISSION.replace("0", "1"))
    cluster.state.commands.driver_ended(SUBMISSION, 1, cluster.now_s)
    cluster.tick()
    assert [told(cluster, one)[0] for one in (first, second, other)] == ["failed", "failed", None]


def test_a_submit_that_is_gone_is_not_waited_for_for_ever(cluster: FakeCluster, driver: subprocess.Popen[bytes]) -> None:
    application_id = begin(cluster, driver, submission=SUBMISSION)
    end(cluster, application_id)
    die(cluster, driver)
    cluster.tick(WORD_S - 0.1)
    assert told(cluster, application_id) == (None, False)
    cluster.tick(0.1)
    assert told(cluster, application_id) == ("succeeded", True)


@pytest.mark.parametrize(
    ("said", "outcome"), [("well", "succeeded"), ("failed", "failed"), ("asked", "killed"), (None, "driver_died")]
)
def test_a_bridge_that_promises_a_word_is_waited_for_while_its_driver_lives(
    cluster: FakeCluster, driver: subprocess.Popen[bytes], said: str | None, outcome: str
) -> None:
    application_id = begin(cluster, driver)
    end(cluster, application_id, said="to_come")
    cluster.tick(600)
    assert told(cluster, application_id) == (None, False)
    if said is not None:
        cluster.driver(application_id, ended=True, driver_end=said)
    die(cluster, driver)
    assert told(cluster, application_id) == (outcome, True)


@pytest.mark.parametrize("said", ["failed", None])
def test_an_end_that_arrives_before_the_farewell_is_not_judged_yet(
    cluster: FakeCluster, driver: subprocess.Popen[bytes], said: str | None
) -> None:
    """Spark reports the application's end before it stops the scheduler, whose farewell says how the driver ends."""
    application_id = begin(cluster, driver)
    events = one_stage_run(1000)
    assert isinstance(events[-1], ApplicationEnd)
    cluster.driver(application_id, *events)
    cluster.tick(600)
    assert told(cluster, application_id) == (None, False)
    cluster.driver(application_id, first=len(events) + 1, ended=True, driver_end=said)
    cluster.worker("w1")
    cluster.tick()
    assert told(cluster, application_id) == (said or "succeeded", True)


def test_a_driver_out_of_sight_that_goes_on_in_silence_has_not_died(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register(boot_id="another machine's")
    cluster.worker("w1", report(application_id, "1"))
    end(cluster, application_id, said="to_come")
    cluster.tick(SILENCE_S)
    assert told(cluster, application_id) == (None, False)
    cluster.tick(1)
    assert told(cluster, application_id) == ("succeeded", True)


@pytest.mark.parametrize("said", [None, "unknown"])
@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("", "succeeded"),
        ("Job aborted due to stage failure", "unknown"),
        ("Job 0 cancelled part of cancelled job group g", "succeeded"),
    ],
)
def test_where_no_one_will_say_it_is_settled_at_once_by_the_jobs(
    cluster: FakeCluster, driver: subprocess.Popen[bytes], said: str | None, how: str, outcome: str
) -> None:
    application_id = begin(cluster, driver)
    events = [
        JobEnd(job=0, time_ms=one.time_ms, ok=not how, failure=how) if isinstance(one, JobEnd) else one
        for one in one_stage_run(1000)
    ]
    end(cluster, application_id, *events, said=said)
    assert told(cluster, application_id) == (outcome, True)


def test_a_server_that_is_asked_to_end_teaches(cluster: FakeCluster, driver: subprocess.Popen[bytes]) -> None:
    application_id = begin(cluster, driver, main=SERVER)
    end(cluster, application_id, said="asked")
    assert told(cluster, application_id) == ("succeeded", True)


def test_a_success_of_which_events_are_missing_teaches_nothing(cluster: FakeCluster, driver: subprocess.Popen[bytes]) -> None:
    application_id = begin(cluster, driver, submission=SUBMISSION)
    cluster.driver(application_id, *one_stage_run(1000)[:3])
    cluster.state.commands.driver_ended(SUBMISSION, 0, cluster.now_s)
    cluster.tick()
    cluster.worker("w1")
    cluster.tick(60)
    view = cluster.view(application_id)
    assert (view.state, view.outcome, view.reason) == ("ended", "succeeded", "")
    found = cluster.summary(application_id)
    assert (found["taught"], found["untaught"]["reason"]) == (False, "events_missing")


def test_who_comes_after_a_success_follows_the_outcome(cluster: FakeCluster, driver: subprocess.Popen[bytes]) -> None:
    """The jobs of the first one were all done; its driver failed afterwards."""
    first = begin(cluster, driver, submission=SUBMISSION)
    second = cluster.register(conf={"spark.pace.after": f"{first}:success"})
    end(cluster, first)
    cluster.state.commands.driver_ended(SUBMISSION, 1, cluster.now_s)
    cluster.tick()
    cluster.tick()
    view = cluster.view(second)
    assert (view.state, view.outcome) == ("ended", "stopped")
    assert first in view.reason


@pytest.mark.parametrize("how", [Outcome.KILLED, Outcome.STOPPED])
def test_a_driver_is_stopped_by_the_outcome_and_not_by_its_sentence(
    cluster: FakeCluster, driver: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, how: Outcome
) -> None:
    monkeypatch.setattr(registry, "REASONS", {})
    application_id = begin(cluster, driver)
    cluster.state.registry.end(cluster.state.applications[application_id], cluster.now_s, how)
    assert cluster.driver(application_id).stop is not None
    cluster.driver(application_id, ended=True)
    assert cluster.driver(application_id, ended=True).stop is None
    assert cluster.state.registry.tally.ended == {how: 1}


def test_what_is_known_survives_a_restart_of_the_master(cluster: FakeCluster, driver: subprocess.Popen[bytes]) -> None:
    application_id = begin(cluster, driver, submission=SUBMISSION)
    end(cluster, application_id)
    cluster.state.commands.driver_ended(SUBMISSION, 1, cluster.now_s)
    cluster.restart()
    driver.communicate(b"\n")
    for _ in range(2):
        cluster.tick(60)
    assert told(cluster, application_id) == ("failed", True)
    cluster.restart()
    assert not cluster.state.registry.past[application_id].succeeded


def test_submit_is_to_ask_again_while_it_cannot_be_stored(
    cluster: FakeCluster, driver: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    application_id = begin(cluster, driver, submission=SUBMISSION)
    end(cluster, application_id)
    monkeypatch.setattr(cluster.state.store, "failing", "the disk is full")
    with pytest.raises(NotStored, match="the disk is full"):
        cluster.state.commands.driver_ended(SUBMISSION, 1, cluster.now_s)
    assert cluster.state.applications[application_id].record.exit_code == 1, "control goes on from memory"

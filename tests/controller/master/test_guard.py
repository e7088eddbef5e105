"""One application's error is that application's: the others, the pass and the other agents' reports go on."""

from __future__ import annotations

import json
import logging
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.master.core.effects import Log, StoreApplication, Wake
from controller.master.core.records import MOST_TRIES
from controller.master.parts import Parts
from controller.master.providers import Provider
from controller.master.recording import write_record
from controller.wire.driver import DriverReply, DriverSync
from placement.growth import Growth, Limits
from stage_model.history.events import JobStart
from tests.fakes.cluster import AtOnce, FakeCluster, Later, answered, one_stage_run, report, sample, use
from tests.fakes.refusals import assert_names


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    made = FakeCluster(tmp_path)
    made.worker("w1")
    return made


def raw(cluster: FakeCluster, application_id: str, *events: dict[str, Any], first: int = 1) -> DriverReply:
    """Sync events as they come over the wire; return the reply."""
    numbered = [{"seq": first + i, "event": event} for i, event in enumerate(events)]
    sync = msgspec.json.decode(json.dumps({"instance": "driver", "wanted": {"0": {}}, "events": numbered}), type=DriverSync)
    return answered(cluster.state.drivers.sync(application_id, sync, cluster.clock))


def explode(*_: object) -> Any:
    raise OverflowError("on purpose")


def whole_run(cluster: FakeCluster, application_id: str) -> None:
    cluster.driver(application_id, *one_stage_run(1000), ended=True, driver_end="well")
    cluster.worker("w1")


UNREADABLE = {"type": "job_start", "job": 0, "time_ms": 10**400, "properties": {"spark.pace.deadline": "10s"}}
JOB = {"type": "job_start", "job": 1, "time_ms": 1000, "stages": [{"stage": 0, "tasks": 4}]}


def test_an_unreadable_event_is_left_out_and_reported_once_and_the_next_counts(
    cluster: FakeCluster, application_id: str
) -> None:
    reply = raw(cluster, application_id, UNREADABLE, JOB)
    assert reply.acknowledged == 2
    assert [line for line in reply.notices if "went wrong" in line]
    again = raw(cluster, application_id, UNREADABLE, UNREADABLE, first=3)
    assert (again.acknowledged, again.notices) == (4, ())
    for _ in range(2):
        application = cluster.state.applications[application_id]
        assert (application.stream.acknowledged, list(application.run.jobs), application.faults) == (4, [1], 3)
        cluster.restart()


def test_an_event_that_cannot_be_applied_stops_neither_its_message_nor_the_next_start(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, application_id: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("controller.master.core.actions.Actions.apply", explode)
        assert cluster.driver(application_id, JobStart(job=0, time_ms=1), JobStart(job=1, time_ms=2)).acknowledged == 2
        cluster.restart()
        assert cluster.state.applications[application_id].faults == 2
    assert cluster.driver(application_id, JobStart(job=2, time_ms=3), first=3).acknowledged == 3


def test_a_run_of_which_something_was_left_out_teaches_nothing(cluster: FakeCluster, application_id: str) -> None:
    raw(cluster, application_id, UNREADABLE)
    cluster.driver(application_id, *one_stage_run(1000), first=2, ended=True)
    cluster.pass_by()
    summary = cluster.summary(application_id)
    assert (summary["faults"], summary["taught"]) == (1, False)
    assert cluster.state.profiles.list() == ()


def test_trouble_of_one_application_keeps_no_other_from_its_turn(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    broken = cluster.register(name="first", conf={"spark.pace.priority": "high"})
    other = cluster.register(name="second", instance="second")
    whole_run(cluster, other)
    cluster.state.applications[broken].record.comes_after = None  # type: ignore[assignment]
    log = cluster.path / "master.db-wal"
    assert log.stat().st_size > 0
    for _ in range(30):
        cluster.tick(1)
    assert cluster.view(other).finished
    assert log.stat().st_size == 0  # emptied in spite of it
    assert cluster.view(broken).faults >= 30
    assert [r.levelno for r in caplog.records if broken in r.message] == [logging.ERROR]  # once


OUTLIVED = "pace-20261121-103319-c7e35d"
STEPS = [
    "core.application.Application.replace_active",
    "core.application.Application.starved",
    "core.application.Application.take",
    "core.commands.application_view",
    "core.drivers.locality",
    "core.executors.reconcile",
    "core.executors.take_over",
    "core.lateness.watch_forecast",
    "core.lifecycle.Lifecycle._turn",
    "core.planning.application_plan",
    "core.registry.Registry.end",
    "core.remaining.promises",
    "outside._stored_form",
    "storage.recorder.Recorder.add",
]


@pytest.mark.parametrize("step", STEPS)
def test_whatever_step_fails_the_master_goes_on(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    application_id = cluster.register(conf={"spark.pace.deadline": "1h"})
    own = report(application_id, "1")
    cluster.worker("w1", own, report(OUTLIVED, "7"))
    snapshot = {"instance": "driver", "wanted": {"0": {}}, "snapshot": [JOB], "next_seq": 5}
    sync = msgspec.json.decode(json.dumps(snapshot), type=DriverSync)
    with monkeypatch.context() as patched:
        patched.setattr(f"controller.master.{step}", explode)
        cluster.register(name="second", instance="second")
        cluster.plan()
        cluster.register(name="outlived", instance="third", application_id=OUTLIVED)
        assert answered(cluster.state.drivers.sync(application_id, sync, cluster.clock)).acknowledged == 4
        cluster.worker("w1", own, samples=(sample(application_id, "1", 1.0),))
        assert len(answered(cluster.state.commands.views(cluster.now_s))) == 3
        cluster.tick(60)
        cluster.worker("w1", own, drivers_gone=(application_id,))
    notices = {notice for application in cluster.state.applications.values() for notice in application.notices.lines}
    assert [notice for notice in notices if "(OverflowError)" in notice]
    assert not cluster.state.parts.failures


def test_a_stored_snapshot_that_cannot_be_read_stops_no_start(cluster: FakeCluster, application_id: str) -> None:
    raw(cluster, application_id, JOB)
    with cluster.state.store.transaction():
        cluster.state.store.add_snapshot(application_id, 1, 9, b"{")
    cluster.restart()
    application = cluster.state.applications[application_id]
    assert (application.stream.acknowledged, application.faults, list(application.run.jobs)) == (8, 1, [1])
    assert [notice for notice in application.notices.lines if "went wrong" in notice]


def test_counters_that_cannot_be_stored_keep_no_others_from_the_store(cluster: FakeCluster) -> None:
    broken, other = cluster.register(name="first"), cluster.register(name="second", instance="second")
    cluster.worker("w1", report(broken, "1"), report(other, "1", stages=(use(0, 7.0),)))
    cluster.state.applications[broken].executors["1"].record.spec = object()  # type: ignore[assignment]
    cluster.state.tick(cluster.now_s + 60)
    cluster.restart()
    assert cluster.state.applications[other].executors["1"].use()[0, 0].cpu_core_s == 7.0


def test_a_record_whose_run_folder_has_gone_is_written_all_the_same(cluster: FakeCluster, application_id: str) -> None:
    shutil.rmtree(cluster.path / "runs" / application_id)
    cluster.end(application_id)
    assert cluster.summary(application_id)["tasks"] == 4


def in_the_way(cluster: FakeCluster, application_id: str) -> Path:
    """Put a file where the folder of the run is."""
    folder = cluster.path / "runs" / application_id
    folder.rmdir()
    folder.write_text("in the way")
    return folder


def test_a_record_that_cannot_be_written_is_tried_ever_later_and_given_up(cluster: FakeCluster, application_id: str) -> None:
    in_the_way(cluster, application_id)
    other = cluster.register(name="other", instance="other")
    for one in (application_id, other):
        whole_run(cluster, one)
    tries: list[float] = []
    cluster.pool = Watched(lambda: tries.append(cluster.now_s))
    cluster.restart()
    while not cluster.state.applications[application_id].finished and cluster.now_s < 10_000:
        cluster.tick(1)
    assert cluster.state.applications[other].finished
    waits = [b - a for a, b in pairwise(tries[1:])]  # the first is the other's
    assert waits[:6] == [1, 2, 4, 8, 16, 32]
    assert (len(waits), set(waits[6:])) == (MOST_TRIES - 1, {60})
    assert "record" in cluster.view(application_id).reason
    cluster.restart()
    assert application_id in cluster.state.registry.past


def test_a_record_that_can_be_written_later_is(cluster: FakeCluster, application_id: str) -> None:
    folder = in_the_way(cluster, application_id)
    cluster.end(application_id)
    assert not cluster.view(application_id).finished
    folder.unlink()
    cluster.tick(1)
    assert cluster.view(application_id).finished
    assert (folder / "summary.json").exists()


def test_one_bad_report_or_sample_of_an_agent_loses_no_other(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = cluster.register(name="bad"), cluster.register(name="good", instance="good")
    folder = cluster.path / "runs" / bad
    (folder / "samples.csv").mkdir()
    cluster.state.applications[bad].run = None  # type: ignore[assignment]
    reply = cluster.worker(
        "w1",
        report(bad, "1", stages=(use(0, 1.0),)),
        report(good, "1"),
        samples=(sample(bad, "1", 1.0), sample(good, "1", 1.0)),
    )
    assert reply.samples_acknowledged == 2
    assert (cluster.path / "runs" / good / "samples.csv").read_text().count("\n") == 2
    assert [plan.application_id for plan in reply.desired.applications] == [good]
    assert cluster.view(good).state == "running"
    assert [view.application_id for view in answered(cluster.state.commands.views(cluster.now_s))] == [bad, good]
    assert cluster.view(bad).reason


def test_a_provider_that_fails_wildly_keeps_no_application_from_its_turn(cluster: FakeCluster) -> None:
    class Wild(Provider):
        def start(self, name: str, kind: object) -> None:
            explode()

        def end(self, name: str) -> None:
            explode()

    cluster.state.grow_by(Growth(Limits(), None, 0.8), Wild(), cluster.now_s)
    assert cluster.state.growing is not None
    cluster.state.growing.growth.step = explode  # type: ignore[assignment,method-assign]
    application_id = cluster.register()
    whole_run(cluster, application_id)
    cluster.state.tick(cluster.now_s + 20)
    assert cluster.view(application_id).finished
    assert list(cluster.state.parts.failures.values()) == [1]
    assert (cluster.path / "master.db-wal").stat().st_size == 0


@pytest.mark.parametrize("step", ["core.registry.Registry.save_counters", "storage.store.Store.checkpoint"])
def test_a_part_of_a_pass_that_fails_ends_no_pass(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(f"controller.master.{step}", explode)
    cluster.state.tick(cluster.now_s + 60)
    assert list(cluster.state.parts.failures.values()) == [1]


def test_a_pass_reads_and_writes_no_record_itself(cluster: FakeCluster, application_id: str) -> None:
    rows = tuple(sample(application_id, "1", float(t)) for t in range(3))
    cluster.worker("w1", report(application_id, "1"), samples=rows)
    whole_run(cluster, application_id)
    later = Later()
    cluster.state.outside.recording.pool = later
    samples = cluster.path / "runs" / application_id / "samples.csv"
    text = samples.read_text()
    samples.unlink()  # what is not there cannot be read
    for _ in range(3):
        cluster.tick()
    assert not cluster.view(application_id).finished
    samples.write_text(text)
    assert len(later.jobs) == 1
    later.work()
    # not before a pass has seen that it is written
    assert not cluster.view(application_id).finished
    cluster.tick()
    assert cluster.view(application_id).finished
    assert cluster.summary(application_id)["tasks"] == 4


def test_a_part_that_fails_is_logged_when_it_begins_and_when_it_works_again(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts()
    for _ in range(3):
        with parts.guarded("counting"):
            explode()
    assert parts.failures["counting"] == 3
    for _ in range(2):
        with parts.guarded("counting"):
            pass
    began, worked = caplog.messages
    assert_names(began, "counting")
    assert_names(worked, "counting", 3)
    with pytest.raises(KeyboardInterrupt), parts.guarded("counting"):
        raise KeyboardInterrupt


class Watched(AtOnce):
    """An executor that announces every record that is to be written."""

    def __init__(self, seen: Any) -> None:
        self.seen = seen

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        if fn is write_record:
            self.seen()
        return super().submit(fn, *args, **kwargs)


def test_an_effect_that_cannot_be_carried_out_keeps_no_other_from_it(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster.state.outside, "_wake", explode)
    cluster.state.outside.carry_out([Wake(frozenset({"w1"})), Log("warning", "the next one")], cluster.now_s)
    logged = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert logged == [(logging.ERROR, "Wake could not be carried out"), (logging.WARNING, "the next one")]


def test_storing_comes_before_every_other_effect(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, application_id: str
) -> None:
    cluster.state.applications[application_id].record.next_executor = 77
    seen: list[bool] = []

    def look(_: object) -> None:
        [(_, _, data)] = cluster.state.store.applications()
        seen.append(b'"next_executor":77' in data)

    monkeypatch.setattr(cluster.state.outside, "_wake", look)
    cluster.state.outside.carry_out([Wake(frozenset({"w1"})), StoreApplication(application_id)], cluster.now_s)
    assert seen == [True]

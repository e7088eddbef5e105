"""A disk that is full for real (a small tmpfs): control goes on from memory, nothing new is promised, nothing is lost."""

from __future__ import annotations

import logging

import pytest

from controller.master.storage.recorder import MOST_UNWRITTEN, Recorder
from controller.runs.run_folder import read_samples, read_summary
from stage_model.errors import NotStored, Unavailable
from tests.fakes.cluster import FakeCluster, one_stage_run, report, sample
from tests.fakes.small_disk import SmallDisk


@pytest.fixture
def cluster(small_disk: SmallDisk) -> FakeCluster:
    made = FakeCluster(small_disk.path)
    made.worker("w1")
    return made


def test_a_run_amid_a_full_disk_is_controlled_killed_and_recorded_as_if_there_was_room(
    cluster: FakeCluster, small_disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    events = one_stage_run(1000)
    application_id = cluster.register(conf={"spark.pace.deadline": "1h"})
    doomed = cluster.register(name="doomed", instance="doomed")
    application = cluster.state.applications[application_id]
    assert cluster.driver(application_id, events[0]).acknowledged == 1
    small_disk.fill()

    # a report is taken in and not acknowledged; the driver is to go on behind it
    reply = cluster.driver(application_id, *events[:2])
    assert (reply.acknowledged, reply.taken) == (1, 2)
    assert [stage.key for stage in application.run.active_stages()] == [(0, 0)]
    desired = cluster.worker("w1", report(application_id, "1"), samples=(sample(application_id, "1", 1.0),)).desired
    [plan] = [plan for plan in desired.applications if plan.application_id == application_id]
    assert [stage.stage for stage in plan.stages] == [0]
    reply = cluster.driver(application_id, *events[2:4], first=3)
    assert (reply.acknowledged, reply.taken) == (1, 4)
    assert len(application.run.attempts[0, 0].done) == 2
    # the end of an executor reaches its driver, and another executor follows
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=1))
    assert [gone.executor_id for gone in cluster.driver(application_id).gone] == ["1"]
    cluster.worker("w1")
    cluster.tick(1)
    wanted = {(spec.application_id, spec.executor_id) for spec in cluster.worker("w1").desired.executors}
    assert wanted == {(application_id, "2"), (doomed, "1")}
    # a kill works
    cluster.kill(doomed)
    assert cluster.driver(doomed).stop
    assert f"{doomed}/1" in cluster.worker("w1", report(doomed, "1")).desired.stopped
    # what would be a new promise is refused, and then nothing has changed
    refused = (
        lambda: cluster.register(name="new", instance="new"),
        lambda: cluster.change(application_id, deadline_s=900.0),
        lambda: cluster.state.commands.label("w1", {"zone": "a"}, cluster.now_s),
    )
    runs = sorted(path.name for path in (small_disk.path / "runs").iterdir())
    for call in refused:
        with pytest.raises(NotStored):
            call()
    assert sorted(cluster.state.applications) == sorted((application_id, doomed))
    assert sorted(path.name for path in (small_disk.path / "runs").iterdir()) == runs
    assert (application.options.deadline_s, application.record.changes) == (3600.0, [])
    assert not cluster.state.workers.by_id["w1"].info.labels
    for _ in range(60 * 30):  # half an hour: no record is given up
        cluster.tick(1)
        cluster.worker("w1")
        cluster.driver(application_id)
    assert not cluster.view(doomed).finished
    assert not cluster.state.parts.failures
    assert [application.faults for application in cluster.state.applications.values()] == [0, 0]
    assert [r.levelno for r in caplog.records if "master.db" in r.message] == [logging.ERROR]  # once

    small_disk.clear()
    cluster.tick(61)
    reply = cluster.driver(application_id)
    assert (reply.acknowledged, reply.taken) == (1, None)
    assert cluster.driver(application_id, *events[1:4], first=2).acknowledged == 4
    assert len(application.run.attempts[0, 0].done) == 2  # none counts twice
    cluster.worker(
        "w1", report(application_id, "2"), samples=(sample(application_id, "1", 1.0), sample(application_id, "2", 2.0))
    )
    assert [s.time_s for s in read_samples(small_disk.path / "runs" / application_id)] == [1.0, 2.0]
    summary = read_summary(small_disk.path / "runs" / doomed)
    assert summary["outcome"] == "killed"
    cluster.register(name="new", instance="new")

    # a restart knows the same
    cluster.state.store.close()
    cluster.restart()
    again = cluster.state.applications[application_id]
    assert (again.stream.acknowledged, len(again.run.attempts[0, 0].done), again.faults) == (4, 2, 0)
    assert {name: e.live for name, e in again.executors.items()} == {"1": False, "2": True}
    assert again.options == application.options
    assert doomed in cluster.state.registry.past


def test_a_master_that_dies_amid_it_has_promised_nothing_that_is_gone(cluster: FakeCluster, small_disk: SmallDisk) -> None:
    events = one_stage_run(1000)
    application_id = cluster.register()
    cluster.driver(application_id, *events[:2])
    small_disk.fill()
    reply = cluster.driver(application_id, *events[2:4], first=3)
    assert (reply.acknowledged, reply.taken) == (2, 4)
    # it dies here: what it kept for later is not written
    cluster.state.store._db.close()
    small_disk.clear()
    cluster.restart()
    assert cluster.driver(application_id).acknowledged == reply.acknowledged
    assert cluster.driver(application_id, *events[2:4], first=3).acknowledged == 4
    assert len(cluster.state.applications[application_id].run.attempts[0, 0].done) == 2


def test_an_executor_placed_amid_it_is_known_to_the_next_master_by_its_agents_word(
    cluster: FakeCluster, small_disk: SmallDisk, application_id: str
) -> None:
    [spec] = cluster.worker("w1").desired.executors
    assert spec.executor_id == "1"
    small_disk.fill()
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=137))
    cluster.worker("w1")
    cluster.tick(1)
    assert [spec.executor_id for spec in cluster.worker("w1").desired.executors] == ["2"]
    cluster.state.store._db.close()  # it dies here
    small_disk.clear()
    cluster.restart()
    cluster.worker("w2")  # the other worker reports first
    cluster.driver(application_id)
    cluster.worker("w1", report(application_id, "2"))
    placed = {name: (e.record.worker_id, e.live) for name, e in cluster.state.applications[application_id].executors.items()}
    assert placed["2"] == ("w1", True)
    assert {name for name, (worker, _) in placed.items() if worker == "w2"} == {"1001"}
    assert "2" in {spec.executor_id for spec in cluster.worker("w1", report(application_id, "2")).desired.executors}


def test_an_application_that_ends_amid_it_is_recorded_whole_and_teaches(cluster: FakeCluster, small_disk: SmallDisk) -> None:
    events = one_stage_run(1000)
    application_id = cluster.register()
    cluster.driver(application_id, *events[:2])
    small_disk.fill()
    reply = cluster.driver(application_id, *events[2:], first=3, ended=True)
    assert (reply.acknowledged, reply.taken, reply.stop) == (2, len(events), None)
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=0), samples=(sample(application_id, "1", 1.0),))
    cluster.worker("w1")
    for _ in range(60 * 30):
        cluster.tick(1)
    assert not cluster.state.profiles.list()
    small_disk.clear()
    cluster.tick(61)
    cluster.tick(61)
    summary = read_summary(small_disk.path / "runs" / application_id)
    assert (summary["tasks"], summary["taught"], summary["end_reason"], summary["faults"]) == (4, True, "", 0)
    assert [s.time_s for s in read_samples(small_disk.path / "runs" / application_id)] == [1.0]


def test_samples_are_kept_in_order_and_not_for_ever(small_disk: SmallDisk) -> None:
    recorder = Recorder(small_disk.path, 3)
    recorder.begin("a")
    recorder.add("a", [sample("a", "1", 1.0)])
    small_disk.fill()
    half = [sample("a", "1", 2.0 + number / 1024) for number in range(MOST_UNWRITTEN // 2)]
    recorder.add("a", half)
    recorder.add("a", half)
    with pytest.raises(OSError, match="No space"):
        recorder.add("a", [sample("a", "1", 99.0)])
    with pytest.raises(OSError, match="No space"):
        recorder.samples("a")
    recorder = Recorder(small_disk.path, 3)
    recorder.add("a", half[:1000])  # more than what is left of the file's last block
    assert [s.time_s for s in read_samples(small_disk.path / "a")] == [1.0]  # none of it, rather than a part
    small_disk.clear()
    recorder.add("a", [sample("a", "1", 99.0)])
    assert [s.time_s for s in recorder.samples("a")] == [1.0, *(round(one.time_s, 4) for one in half[:1000]), 99.0]


def test_a_master_that_starts_amid_it_says_so_and_loses_nothing(cluster: FakeCluster, small_disk: SmallDisk) -> None:
    application_id = cluster.register()
    generation = cluster.state.identity.generation
    cluster.state.store.close()
    small_disk.fill()
    with pytest.raises(Unavailable):
        cluster.restart()
    small_disk.clear()
    cluster.restart()
    assert list(cluster.state.applications) == [application_id]
    assert cluster.state.identity.generation == generation + 1

"""The master's rules: executors wanted and observed, events in order, ends, restarts, records. No network, a manual clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import structs

from controller.messages import Change, ExecutorWish, PlanRequest
from controller.run_folder import read_samples
from controller.runtime.process_identity import of
from stage_model.errors import BadInput, Denied, Infeasible, PaceError
from stage_model.events import ExecutorRemoved
from tests.fakes.cluster import FakeCluster, one_stage_run, registration, report, sample, use


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


def finished_run(cluster: FakeCluster, **changed: object) -> str:
    """A whole run of 8 s of work after 1 s, on one worker."""
    cluster.worker("w1")
    application_id = cluster.register(**changed)
    start_ms = round(time.time() * 1000) + 1000
    events = one_stage_run(start_ms)
    cluster.driver(application_id, *events[:-1])
    done = use(0, 8.0, done=4, records=40.0)
    cluster.now_s += 9
    cluster.worker("w1", report(application_id, "1", stages=(done,)))
    cluster.driver(application_id, events[-1], first=len(events), ended=True)
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=0, stages=(done,)))
    cluster.worker("w1")
    cluster.state.tick(cluster.now_s)
    return application_id


def test_an_application_gets_one_executor_per_worker(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.worker("w2")
    application_id = cluster.register()
    for worker in ("w1", "w2"):
        [spec] = cluster.worker(worker).desired.executors
        assert spec.application_id == application_id
        assert spec.slots == 1  # a worker of one core
    assert [e.record.executor_id for e in cluster.state.applications[application_id].executors.values()] == ["1", "2"]


def test_no_more_executors_than_spark_wants(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.worker("w2")
    cluster.register(wanted={"0": ExecutorWish(count=1)})
    assert sum(len(cluster.worker(w).desired.executors) for w in ("w1", "w2")) == 1


def test_a_worker_that_joins_later_gets_an_executor_too(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.register()
    assert cluster.worker("w2").desired.executors


def test_without_room_the_application_waits_and_says_why(cluster: FakeCluster) -> None:
    cluster.worker("w1", memory_mb=2000)
    first = cluster.register()  # 1024 heap + 384 overhead
    cluster.worker("w1", report(first, "1"), memory_mb=2000)
    second = cluster.register(instance="other")
    view = cluster.state.commands.view(second, cluster.now_s)
    assert view.state == "waiting"
    assert view.reason == "an executor needs 1408 MiB and the most that is free on a worker is 592 MiB"


def test_an_executor_larger_than_every_worker_is_refused(cluster: FakeCluster) -> None:
    cluster.worker("w1", memory_mb=1000)
    with pytest.raises(BadInput, match="needs 1408 MiB"):
        cluster.register()
    assert not cluster.state.applications


def test_a_killed_executor_is_reported_to_the_driver_and_replaced(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.worker("w1", report(application_id, "1"))
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=137))
    [gone] = cluster.driver(application_id).gone
    assert (gone.executor_id, gone.exit_code, gone.planned, gone.by_application) == ("1", 137, False, False)
    desired = cluster.worker("w1").desired  # the agent no longer shows it: cleaned up
    assert desired.stopped == ()
    cluster.state.tick(cluster.now_s)
    [spec] = cluster.worker("w1").desired.executors
    assert spec.executor_id == "2"


def test_executors_spark_no_longer_wants_are_stopped_as_planned(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.worker("w1", report(application_id, "1"))
    cluster.driver(application_id, wanted={"0": ExecutorWish(count=0)}, killed=("1",))
    assert cluster.worker("w1", report(application_id, "1")).desired.stopped == (f"{application_id}/1",)
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=143))
    [gone] = cluster.driver(application_id, wanted={"0": ExecutorWish(count=0)}, killed=("1",)).gone
    assert gone.planned


def test_an_executor_lost_by_the_driver_counts_as_gone(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.worker("w1", report(application_id, "1"))
    cluster.driver(application_id, ExecutorRemoved(executor="1", reason="heartbeat timed out", time_ms=1))
    assert cluster.worker("w1", report(application_id, "1")).desired.stopped == (f"{application_id}/1",)


def test_events_count_once_and_only_without_gaps(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    events = one_stage_run(1000)
    assert cluster.driver(application_id, *events[:2]).acknowledged == 2
    assert cluster.driver(application_id, *events[:2]).acknowledged == 2  # repeated
    assert cluster.driver(application_id, *events[3:4], first=4).acknowledged == 2  # 3 is missing
    assert cluster.driver(application_id, *events[2:4], first=3).acknowledged == 4
    stage = cluster.state.applications[application_id].run.stage(0)
    assert stage is not None
    assert len(stage.done) == 2


def test_a_stage_event_changes_the_desired_state_at_once(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    before = cluster.state.versions.last
    cluster.driver(application_id, *one_stage_run(1000)[:2])
    assert cluster.state.versions.last > before
    assert cluster.changes > 0


def test_only_agents_with_executors_of_an_application_are_woken_by_its_events(cluster: FakeCluster) -> None:
    for worker in ("w1", "w2", "w3"):
        cluster.worker(worker)
    application_id = cluster.register(wanted={"0": ExecutorWish(count=2)})
    mine = {e.record.worker_id for e in cluster.state.applications[application_id].executors.values()}
    [other] = {"w1", "w2", "w3"} - mine
    before = {worker: cluster.state.versions.of(worker) for worker in ("w1", "w2", "w3")}
    cluster.woken.clear()
    cluster.driver(application_id, *one_stage_run(1000)[:2], wanted={"0": ExecutorWish(count=2)})
    assert cluster.woken == mine
    assert cluster.state.versions.of(other) == before[other]
    for worker in mine:
        assert cluster.worker(worker).desired.version == cluster.state.versions.of(worker) > before[worker]


def test_an_executor_that_exits_wakes_the_agents_of_its_application_and_of_who_gets_its_place(cluster: FakeCluster) -> None:
    for worker in ("w1", "w2"):
        cluster.worker(worker, memory_mb=2000)
    first = cluster.register(wanted={"0": ExecutorWish(count=2)})
    waiting = cluster.register(instance="second", wanted={"0": ExecutorWish(count=1)})
    cluster.driver(first, wanted={"0": ExecutorWish(count=1)}, killed=("2",))
    cluster.woken.clear()
    cluster.worker("w2", report(first, "2", "exited", exit_code=143), memory_mb=2000)
    assert cluster.woken == {"w1", "w2"}
    [placed] = cluster.state.applications[waiting].executors.values()
    assert placed.record.worker_id == "w2"


def test_nothing_is_lost_in_a_restart(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.driver(application_id, *one_stage_run(round(time.time() * 1000))[:4])
    before = cluster.worker("w1", report(application_id, "1", stages=(use(0, 3.0, done=2),))).desired
    generation, cluster_id = cluster.state.identity.generation, cluster.state.identity.cluster_id
    cluster.state.tick(cluster.now_s + 60)  # counters are stored now and then
    cluster.now_s += 5
    cluster.restart()
    assert (cluster.state.identity.cluster_id, cluster.state.identity.generation) == (cluster_id, generation + 1)
    application = cluster.state.applications[application_id]
    assert application.acknowledged == 4
    assert application.elapsed_s(cluster.now_s) == pytest.approx(7.0)  # 2 s old at registration, 5 s away
    after = cluster.worker("w1", report(application_id, "1", stages=(use(0, 3.0, done=2),))).desired
    assert [s.executor_id for s in after.executors] == [s.executor_id for s in before.executors] == ["1"]
    assert application.stage_use() == {(0, 0): 3.0}
    assert cluster.driver(application_id, first=5).acknowledged == 4


def test_an_ended_application_stops_its_executors_and_leaves_a_record(cluster: FakeCluster) -> None:
    application_id = finished_run(cluster)
    view = cluster.state.commands.view(application_id, cluster.now_s)
    assert (view.state, view.finished) == ("ended", True)
    summary = json.loads((cluster.path / "runs" / application_id / "summary.json").read_text())
    assert summary["tasks"] == 4
    assert summary["taught"] is True
    assert summary["executors_lost"] == 0
    assert summary["end_s"] == pytest.approx(11.0, abs=0.1)  # 2 s old, 1 s to the first stage, 8 s of tasks
    [run] = cluster.state.profiles.load("app@app.py").runs  # type: ignore[union-attr]
    assert run.stages[0].work_core_s == pytest.approx(8.0)


def test_the_second_run_is_planned_from_the_first_and_an_impossible_deadline_refused(cluster: FakeCluster) -> None:
    finished_run(cluster)
    with pytest.raises(Infeasible, match=r"cannot be met: with all 1\.00 cores it takes 11s; accepted: 12s or more"):
        cluster.register(conf={"spark.pace.deadline": "5s"}, instance="second")
    assert len(cluster.state.applications) == 1
    cluster.register(conf={"spark.pace.deadline": "5s", "spark.pace.force": "true"}, instance="third")
    admitted = cluster.register(conf={"spark.pace.deadline": "20s"}, instance="fourth", age_s=0.0)
    cluster.driver(admitted, *one_stage_run(round(time.time() * 1000))[:2])
    plans = {p.application_id: p for p in cluster.worker("w1", report(admitted, "1")).desired.applications}
    if admitted in plans:  # memory allows all three on one worker
        [stage] = plans[admitted].stages
        assert stage.work_core_s == pytest.approx(8.0)


def test_an_executor_that_shows_itself_after_its_stop_is_stopped_again(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.worker("w1", report(application_id, "1"))
    cluster.state.commands.kill(application_id, cluster.now_s)
    cluster.worker("w1")  # not shown: thought removed
    assert cluster.worker("w1").desired.stopped == ()
    assert cluster.worker("w1", report(application_id, "1")).desired.stopped == (f"{application_id}/1",)


def test_workers_known_before_a_restart_count_as_capacity_of_running_applications(cluster: FakeCluster) -> None:
    for worker in ("w1", "w2"):
        cluster.worker(worker)
    application_id = cluster.register()
    cluster.restart()
    [plan] = cluster.worker("w1", report(application_id, "1")).desired.applications
    assert plan.cores == 2.0
    assert [w.worker_id for w in cluster.state.workers.views(cluster.now_s)] == ["w1"]


def test_samples_are_written_once(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    rows = tuple(sample(application_id, "1", float(t)) for t in range(3))
    assert cluster.worker("w1", samples=rows).samples_acknowledged == 3
    assert cluster.worker("w1", samples=rows).samples_acknowledged == 3
    later = (*rows[1:], sample(application_id, "1", 3.0))
    assert cluster.worker("w1", samples=later, sample_seq=1).samples_acknowledged == 4
    lines = (cluster.path / "runs" / application_id / "samples.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["0", "1", "2", "3"]


def test_a_dead_driver_ends_its_application(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    driver = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = of(driver.pid)
    assert identity is not None
    application_id = cluster.register(pid=identity.pid, pid_start=identity.start_ticks)
    cluster.state.tick(cluster.now_s)
    assert cluster.state.commands.view(application_id, cluster.now_s).state != "ended"
    driver.communicate(b"\n")
    cluster.state.tick(cluster.now_s)
    view = cluster.state.commands.view(application_id, cluster.now_s)
    assert (view.state, view.reason) == ("ended", "its driver died")
    assert cluster.worker("w1", report(application_id, "1")).desired.stopped == (f"{application_id}/1",)


def test_a_refused_executor_ends_the_application_with_the_reason(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.worker("w1", report(application_id, "1", "refused", reason="mount '/secret' is outside"))
    reply = cluster.driver(application_id)
    assert reply.stop == "an executor was refused on worker w1: mount '/secret' is outside"


def test_executors_that_keep_failing_end_the_application(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    for number in range(1, 12):
        cluster.worker("w1", report(application_id, str(number), "exited", exit_code=1))
        cluster.worker("w1")
        cluster.state.tick(cluster.now_s)
    assert "11 executors failed in a row" in (cluster.driver(application_id).stop or "")


def test_a_bridge_that_comes_again_keeps_its_application(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.driver(application_id, *one_stage_run(1000)[:3])
    again = cluster.state.drivers.register(registration(application_id=application_id), cluster.now_s)
    assert (again.application_id, again.acknowledged) == (application_id, 3)
    assert len(cluster.state.applications) == 1


def test_unknown_settings_are_refused_before_anything_is_kept(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    with pytest.raises(BadInput, match=r"spark\.pace\.dedline is not a setting"):
        cluster.register(conf={"spark.pace.dedline": "5s"})
    assert not cluster.state.applications
    assert not list((cluster.path / "runs").iterdir())


def test_old_runs_are_removed(cluster: FakeCluster) -> None:
    first = finished_run(cluster)
    for number in range(3):
        finished_run(cluster, instance=f"run {number}")
    assert not (cluster.path / "runs" / first).exists()
    assert len(list((cluster.path / "runs").iterdir())) == 3
    assert {application.id for application, _ in cluster.state.registry.on("w1")} == set(cluster.state.applications)


def test_nobody_registers_as_another_user(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    with pytest.raises(Denied, match="accepted: the driver's own uid"):
        cluster.register(uid=os.getuid() + 1)
    with pytest.raises(Denied, match="claims to be root"):
        cluster.register(boot_id="another host", uid=0)
    assert not cluster.state.applications


def test_a_driver_of_before_a_reboot_is_dead(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    application = cluster.state.applications[application_id]
    application.record.boot_id = "before"
    application.record.registration = structs.replace(application.record.registration, boot_id="before")
    cluster.state.tick(cluster.now_s)
    assert cluster.state.commands.view(application_id, cluster.now_s).reason == "its driver died"


def test_a_silent_driver_elsewhere_is_gone_only_when_its_executors_are(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register(boot_id="another host", uid=1000)
    cluster.worker("w1", report(application_id, "1"))
    cluster.now_s += 61
    cluster.worker("w1", report(application_id, "1"))
    cluster.state.tick(cluster.now_s)
    assert not cluster.state.applications[application_id].ended
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=1))
    cluster.state.tick(cluster.now_s)
    assert cluster.state.applications[application_id].ended


def test_a_finished_application_leaves_no_environment_behind(cluster: FakeCluster) -> None:
    finished_run(cluster, environment={"_SPARK_AUTH_SECRET": "hunter2-hunter2"})
    for name in ("master.db", "master.db-wal"):
        path = cluster.path / name
        cluster.state.store.checkpoint()
        assert not path.exists() or b"hunter2" not in path.read_bytes()


def test_agents_are_told_which_applications_are_over(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    assert cluster.worker("w1", report(application_id, "1")).desired.ended == ()
    cluster.state.commands.kill(application_id, cluster.now_s)
    assert cluster.worker("w1", report(application_id, "1")).desired.ended == (application_id,)


def test_a_lost_executors_ended_tasks_count_and_its_running_ones_do_not(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.driver(application_id, *one_stage_run(round(time.time() * 1000))[:2])
    seen = use(0, 3.0, done=2, running=1, records=25.0, records_running=5.0, cpu_running_core_s=1.0, speed=0.5)
    cluster.worker("w1", report(application_id, "1", stages=(seen,)))
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=137, stages=(seen,)))
    cluster.worker("w1")
    cluster.state.tick(cluster.now_s)
    [plan] = cluster.worker("w1", report(application_id, "2")).desired.applications
    [stage] = plan.stages
    assert (stage.elsewhere_done, stage.elsewhere_running, stage.elsewhere_speed) == (2, 0, 0.0)
    assert (stage.elsewhere_records, stage.elsewhere_records_running) == (20.0, 0.0)
    assert (stage.elsewhere_cpu_core_s, stage.elsewhere_cpu_running_core_s) == (2.0, 0.0)


def test_an_agent_that_restarts_hears_what_cpu_its_executors_tasks_had_used(cluster: FakeCluster) -> None:
    """It reads from them how many have ended, and counts CPU from its own start on."""
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.driver(application_id, *one_stage_run(round(time.time() * 1000))[:2])
    before = use(0, 3.0, done=2, running=1, records=25.0, records_running=5.0, cpu_running_core_s=1.0, speed=0.5)
    [plan] = cluster.worker("w1", report(application_id, "1", stages=(before,)), instance="one").desired.applications
    assert plan.stages[0].elsewhere_cpu_core_s == 0.0
    after = use(0, 0.5, done=2, running=1, records=25.0, records_running=5.0, cpu_running_core_s=0.5, speed=0.5)
    [plan] = cluster.worker("w1", report(application_id, "1", stages=(after,)), instance="two").desired.applications
    [stage] = plan.stages
    assert (stage.elsewhere_cpu_core_s, stage.elsewhere_cpu_running_core_s) == (3.0, 0.0)
    assert (stage.elsewhere_done, stage.elsewhere_running, stage.elsewhere_records) == (0, 0, 0.0)


class TestDebt:
    def test_what_a_squeeze_withholds_is_owed_planned_recorded_and_survives_a_restart(self, cluster: FakeCluster) -> None:
        cluster.worker("w1")
        application_id = cluster.register()
        squeezed = {"demand": 0.8, "grant": 0.3, "squeezed": True}
        rows = tuple(sample(application_id, "1", float(t), **squeezed) for t in range(5))
        cluster.worker("w1", report(application_id, "1"), samples=rows)
        # four seconds of half a core; how long the last sample holds is not known yet
        assert cluster.state.commands.view(application_id, cluster.now_s).debt_core_s == pytest.approx(2.0)
        cluster.now_s += 20
        cluster.state.tick(cluster.now_s)
        cluster.restart()
        [plan] = cluster.worker("w1", report(application_id, "1")).desired.applications
        assert plan.debt_core_s == pytest.approx(2.0)
        repaid = tuple(sample(application_id, "1", 10.0 + t, demand=1.0, grant=1.0) for t in range(6))
        cluster.worker("w1", report(application_id, "1"), samples=repaid, sample_seq=5)
        assert cluster.state.commands.view(application_id, cluster.now_s).debt_core_s == pytest.approx(1.0)
        rows_read = read_samples(cluster.path / "runs" / application_id)
        assert [row.debt_core_s for row in rows_read[:5]] == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0])

    def test_a_lost_executor_takes_its_debt_along(self, cluster: FakeCluster) -> None:
        cluster.worker("w1")
        application_id = cluster.register()
        rows = tuple(sample(application_id, "1", float(t), demand=0.8, grant=0.3, squeezed=True) for t in range(3))
        cluster.worker("w1", report(application_id, "1"), samples=rows)
        cluster.worker("w1", report(application_id, "1", "exited", exit_code=137))
        application = cluster.state.applications[application_id]
        assert application.debt_core_s() == 0.0
        assert application.withheld_core_s() == pytest.approx(1.0)


class TestPromises:
    """The profile of `finished_run`: 8 core-seconds after a second of start-up, on one core."""

    def test_a_deadline_must_fit_beside_those_of_the_same_or_a_higher_priority(self, cluster: FakeCluster) -> None:
        finished_run(cluster)
        cluster.register(conf={"spark.pace.deadline": "14s"}, instance="first")
        with pytest.raises(Infeasible, match=r"beside 1 promised .*accepted: (19|20)s or more"):
            cluster.register(conf={"spark.pace.deadline": "15s"}, instance="second")
        assert cluster.register(conf={"spark.pace.deadline": "25s"}, instance="third")
        assert cluster.register(conf={"spark.pace.deadline": "15s", "spark.pace.priority": "high"}, instance="fourth")
        forced = {"spark.pace.deadline": "15s", "spark.pace.force": "true"}
        assert cluster.register(conf=forced, instance="fifth")

    def test_a_late_one_of_a_higher_priority_takes_all_until_it_ends(self, cluster: FakeCluster) -> None:
        finished_run(cluster)
        late = {"spark.pace.deadline": "3s", "spark.pace.force": "true", "spark.pace.priority": "high"}
        cluster.register(conf=late, instance="late")
        cluster.now_s += 5
        beside = cluster.state.admission.plan(PlanRequest(profile="app@app.py", deadline_s=12.0), cluster.now_s)
        above = cluster.state.admission.plan(PlanRequest(profile="app@app.py", deadline_s=12.0, priority=100), cluster.now_s)
        assert (beside.feasible, above.feasible) == (False, True)

    def test_a_plan_says_so_too(self, cluster: FakeCluster) -> None:
        finished_run(cluster)
        alone = cluster.state.admission.plan(PlanRequest(profile="app@app.py", deadline_s=15.0), cluster.now_s)
        cluster.register(conf={"spark.pace.deadline": "14s"})
        beside = cluster.state.admission.plan(PlanRequest(profile="app@app.py", deadline_s=15.0), cluster.now_s)
        above = cluster.state.admission.plan(PlanRequest(profile="app@app.py", deadline_s=15.0, priority=100), cluster.now_s)
        assert (alone.feasible, beside.feasible, above.feasible) == (True, False, True)


class TestSet:
    def test_deadline_and_priority_change_at_once_and_survive_a_restart(self, cluster: FakeCluster) -> None:
        cluster.worker("w1")
        application_id = cluster.register(conf={"spark.pace.deadline": "100s"})
        version = cluster.state.versions.last
        cluster.state.commands.change(application_id, Change(deadline_s=60.0, priority="high"), cluster.now_s)
        assert cluster.state.versions.last > version
        cluster.restart()
        [plan] = cluster.worker("w1", report(application_id, "1")).desired.applications
        assert (plan.deadline_s, plan.priority) == (60.0, 100)
        assert plan.left_s == pytest.approx(58.0)
        cluster.state.commands.change(application_id, Change(no_deadline=True), cluster.now_s)
        [plan] = cluster.worker("w1", report(application_id, "1")).desired.applications
        assert (plan.deadline_s, plan.left_s) == (None, None)
        changes = cluster.state.applications[application_id].record.changes
        assert [(c.at_s, c.deadline_s, c.priority) for c in changes] == [(2.0, 60.0, 100), (2.0, None, 100)]

    def test_the_stage_under_way_gets_a_new_deadline(self, cluster: FakeCluster) -> None:
        finished_run(cluster)
        application_id = cluster.register(conf={"spark.pace.deadline": "100s"}, instance="driver")
        start_ms = round(time.time() * 1000)
        cluster.driver(application_id, *one_stage_run(start_ms)[:2])
        application = cluster.state.applications[application_id]
        before = application.goals[(0, 0)].length_s
        cluster.state.commands.change(application_id, Change(deadline_s=50.0), cluster.now_s)
        assert application.goals[(0, 0)].length_s < before - 40

    @pytest.mark.parametrize(
        ("asked", "error", "part"),
        [
            (Change(deadline_s=1.5), BadInput, "has passed: the application has run for 2s"),
            (Change(deadline_s=float("nan")), BadInput, "has passed"),
            (Change(deadline_s=8.0), Infeasible, "cannot be met .*accepted: .* or more"),
            (Change(priority="101"), BadInput, "0 to 100"),
        ],
    )
    def test_what_cannot_be_changes_nothing(
        self, cluster: FakeCluster, asked: Change, error: type[PaceError], part: str
    ) -> None:
        finished_run(cluster)
        application_id = cluster.register(conf={"spark.pace.deadline": "100s"}, instance="second")
        before = cluster.state.applications[application_id].options
        with pytest.raises(error, match=part):
            cluster.state.commands.change(application_id, asked, cluster.now_s)
        assert cluster.state.applications[application_id].options == before
        assert cluster.state.applications[application_id].record.changes == []

    def test_the_priority_of_a_job_that_will_be_late_can_be_raised(self, cluster: FakeCluster) -> None:
        finished_run(cluster)
        forced = {"spark.pace.deadline": "3s", "spark.pace.force": "true"}
        application_id = cluster.register(conf=forced, instance="second")
        cluster.state.commands.change(application_id, Change(priority="high"), cluster.now_s)
        assert cluster.state.applications[application_id].options.priority == 100

    def test_force_takes_a_deadline_that_cannot_be_met_and_an_ended_application_none(self, cluster: FakeCluster) -> None:
        ended = finished_run(cluster)
        application_id = cluster.register(conf={"spark.pace.deadline": "100s"}, instance="second")
        cluster.state.commands.change(application_id, Change(deadline_s=8.0, force=True), cluster.now_s)
        assert cluster.state.applications[application_id].options.deadline_s == 8.0
        with pytest.raises(BadInput, match="has ended"):
            cluster.state.commands.change(ended, Change(priority="low"), cluster.now_s)

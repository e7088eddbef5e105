"""Ends of applications: killed drivers, failing executors, records, old runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from controller.master.core.executor_state import ExecutorRecord
from controller.master.core.lifecycle import CLEAN_UP_S, HEARD_S
from tests.fakes.cluster import FakeCluster, one_stage_run, report, use
from tests.fakes.refusals import assert_names


def test_an_ended_application_stops_its_executors_and_leaves_a_record(cluster: FakeCluster) -> None:
    application_id = cluster.finished_run()
    view = cluster.view(application_id)
    assert (view.state, view.finished) == ("ended", True)
    summary = cluster.summary(application_id)
    assert summary["tasks"] == 4
    assert summary["taught"] is True
    assert summary["executors_lost"] == 0
    assert summary["end_s"] == pytest.approx(11.0, abs=0.1)  # 2 s old, 1 s to the first stage, 8 s of tasks
    [run] = cluster.state.profiles.load("app@app.py").runs  # type: ignore[union-attr]
    assert run.stages[0].work_core_s == pytest.approx(8.0)


@pytest.mark.parametrize(("deadline_s", "late"), [(60, None), (3, True)])
def test_a_run_cut_off_may_be_late_and_is_never_early(cluster: FakeCluster, deadline_s: int, late: bool | None) -> None:
    cluster.worker("w1")
    application_id = cluster.register(conf={"spark.pace.deadline": f"{deadline_s}s"})
    cluster.now_s += 5
    cluster.worker("w1", report(application_id, "1"))
    cluster.kill(application_id)
    cluster.driver(application_id, ended=True)
    cluster.exits(application_id, exit_code=0)
    summary = cluster.summary(application_id)
    assert (summary["outcome"], summary["error_pct"], summary["violated"]) == ("killed", None, late)


def test_who_ends_by_itself_while_it_waits_has_no_reason(cluster: FakeCluster) -> None:
    application_id = cluster.register()
    events = one_stage_run(1000)
    cluster.driver(application_id, *events[:2])
    assert cluster.view(application_id).reason
    cluster.driver(application_id, events[-1], first=3, ended=True)
    view = cluster.view(application_id)
    assert (view.state, view.reason) == ("ended", "")


@pytest.mark.parametrize("says_so", [True, False])
def test_an_application_killed_while_it_waits_is_over_when_its_driver_knows(cluster: FakeCluster, says_so: bool) -> None:
    application_id = cluster.register(conf={"spark.pace.after": "missing"})
    cluster.kill(application_id)
    cluster.tick()
    assert not cluster.view(application_id).finished
    assert cluster.driver(application_id).stop
    if says_so:
        cluster.driver(application_id, ended=True)
    else:
        cluster.now_s += CLEAN_UP_S
    cluster.tick()
    assert cluster.view(application_id).finished


def test_executors_that_keep_failing_end_the_application(cluster: FakeCluster, application_id: str) -> None:
    for number in range(1, 12):
        cluster.exits(application_id, str(number), exit_code=1)
    assert_names(cluster.driver(application_id).stop, "11 executors", "exit code 1")


def test_old_runs_are_removed(cluster: FakeCluster) -> None:
    first = cluster.finished_run()
    for number in range(3):
        cluster.finished_run(instance=f"run {number}")
    assert not (cluster.path / "runs" / first).exists()
    assert len(list((cluster.path / "runs").iterdir())) == 3
    assert {application.id for application, _ in cluster.state.registry.on("w1")} == set(cluster.state.applications)


def test_a_driver_of_before_a_reboot_is_dead(cluster: FakeCluster) -> None:
    record = cluster.registered().record
    record.boot_id = "before"
    record.registration = structs.replace(record.registration, boot_id="before")
    cluster.tick(HEARD_S)
    assert cluster.view(record.application_id).outcome == "driver_died"


@pytest.mark.parametrize("where", [{"boot_id": "another host"}, {"pid_namespace": "pid:[1]", "pid": 1 << 22}])
def test_a_silent_driver_elsewhere_is_gone_only_when_its_executors_are(cluster: FakeCluster, where: dict[str, Any]) -> None:
    cluster.worker("w1")
    application = cluster.registered(uid=1000, **where)
    cluster.worker("w1", report(application.id, "1"))
    for _ in range(61):
        cluster.worker("w1", report(application.id, "1"))
        cluster.tick(1.0)
    assert not application.ended
    cluster.exits(application.id, exit_code=1)
    assert application.ended


def test_a_finished_application_leaves_no_environment_behind(cluster: FakeCluster) -> None:
    cluster.finished_run(environment={"USERS_SECRET": "hunter2-hunter2"})
    for name in ("master.db", "master.db-wal"):
        path = cluster.path / name
        cluster.state.store.checkpoint()
        assert not path.exists() or b"hunter2" not in path.read_bytes()


def test_a_pass_stores_some_counters_and_the_next_the_rest(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.master.core.registry.MOST_SAVED", 2)
    cluster.worker("w1")
    names = [cluster.register(name=name, instance=name) for name in ("first", "second", "third")]
    cluster.worker("w1", *(report(name, "1", stages=(use(0, 7.0),)) for name in names))

    def stored() -> list[bool]:
        rows = [data for name in names for _, data in cluster.state.store.executors(name)]
        return [bool(msgspec.json.decode(data, type=ExecutorRecord).uses) for data in rows]

    assert stored() == [False, False, False]
    cluster.tick(20)
    assert stored() == [True, True, False]
    cluster.tick()
    assert stored() == [True, True, True]

"""Parts die while jobs run on real Spark and Docker: jobs stay right, records whole, and no container outlives its driver.

Waits are generous and no verdict. Not covered: plain processes as executors (`test_process_runtime`).
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from controller.machine.process import find_process
from controller.runs.run_folder import quotas_from
from tests.integration.conftest import Learned
from tests.integration.engine import Engine
from tests.integration.local_cluster import LocalCluster, eventually
from tests.integration.pacing import AIM, assert_late_only_with_all, assert_unharmed, deadline_for

pytestmark = [pytest.mark.spark, pytest.mark.docker]

FLOOR = 0.1
"""The least quota of an executor of one slot, in cores."""


def test_agents_die_and_come_back_and_adopt_their_containers(cluster: LocalCluster, engine: Engine, stop_file: Path) -> None:
    job = cluster.submit("--name", "agents-die", "rounds.py", str(stop_file))
    view = cluster.running("agents-die")
    before = {container.id for container in engine.containers(view.application_id)}
    assert len(before) == 2

    # One loses its child: the supervisor brings another.
    child = cluster.agent_child("w1")
    child.kill()
    eventually(lambda: cluster.agent_child("w1").pid != child.pid, "a new child")
    # The other loses both: only an operator brings it back.
    cluster.kill_agent("w2")
    assert "Started the agent of w2, which had died." in cluster.restore()
    adopted = "adopted running executor"
    eventually(lambda: all(adopted in cluster.log(f"agent-{w}") for w in ("w1", "w2")), "adoption by both agents")

    def reported() -> bool:
        workers = {worker.worker_id: worker.seen_s_ago for worker in cluster.client().workers()}
        return len(workers) == 2 and max(workers.values()) < 5

    eventually(reported, "reports of both agents")
    eventually(lambda: cluster.running("agents-die").used_cores > 0, "use of the adopted containers")
    assert {container.id for container in engine.containers(view.application_id, ended=False)} == before
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    assert_unharmed(cluster.summary("agents-die"), view.application_id)


def test_the_master_is_away_and_comes_back_and_nothing_is_lost(
    cluster: LocalCluster, engine: Engine, stages: Learned, stop_file: Path, tmp_path: Path
) -> None:
    pace = ("--profile", stages.summary["profile"], "--deadline", stages.deadline, *AIM)
    # All tasks run after the master's end, and the last round waits until it is back: the job may be late for it. Executors
    # that wait have the floor, which is there for as long as the test needs to see it.
    begin = tmp_path / "begin"
    job = cluster.submit("--name", "master-dies", *pace, *stages.words, "--begin", str(begin), "--hold", str(stop_file))
    view = cluster.running("master-dies")

    def waiting() -> bool:
        quotas = [engine.quota(container) for container in engine.containers(view.application_id, ended=False)]
        return quotas == [10_000] * 2

    eventually(waiting, "executors that wait for tasks")
    cluster.kill_master()
    begin.touch()

    def two_rounds_are_over() -> bool:
        assert job.process.poll() is None, "the job ended too early for this test"
        logs = (cluster.home.runs / view.application_id / "executors").glob("*/stderr")
        ended = sum(log.read_text(errors="replace").count("Finished task") for log in logs)
        return ended >= 2 * (6 + 4) and waiting()

    eventually(two_rounds_are_over, "two rounds without a master")
    assert "Started the master, which had died." in cluster.restore()
    # It plans at once, with the workers it knew, and has its application back.
    assert "least deadline" in cluster.command("plan", "--profile", stages.summary["profile"]).stdout
    again = cluster.client().application(view.application_id)
    assert (again.name, again.state) == ("master-dies", "running")
    cluster.await_workers()

    def orders_have_come_in() -> bool:
        orders, _ = quotas_from(cluster.home.runs / view.application_id, 0, -1)
        courses = [[one.cores for one in orders if one.executor_id == executor] for executor in ("1", "2")]
        return all(course and course[-1] == FLOOR < max(course) for course in courses)

    # Agents had more than the floor only for the tasks without a master, and order nothing before the last round begins.
    eventually(orders_have_come_in, "what agents ordered without a master: more than the floor, and the floor again")
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    summary = cluster.summary("master-dies")
    assert_unharmed(summary, view.application_id)
    # every task was reported in spite of the outage: 3 rounds of 6 tasks and 4 more after the shuffle
    assert summary["tasks"] == 3 * (6 + 4)


def test_the_master_loses_its_database_and_the_job_goes_on_under_its_id(
    cluster: LocalCluster, engine: Engine, stop_file: Path
) -> None:
    job = cluster.submit("--name", "database-lost", "rounds.py", str(stop_file))
    view = cluster.running("database-lost")
    cluster_id = cluster.client().health().cluster_id
    before = {container.id for container in engine.containers(view.application_id)}
    cluster.kill_master()
    for path in cluster.home.path.glob("master.db*"):
        path.unlink()
    cluster.restore()
    assert cluster.client().health().cluster_id == cluster_id
    cluster.await_workers()
    assert cluster.running("database-lost").application_id == view.application_id
    assert {container.id for container in engine.containers(view.application_id, ended=False)} == before
    assert not any("this agent belongs to" in cluster.log(f"agent-{worker}") for worker in ("w1", "w2"))
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    engine.await_none(view.application_id)
    summary = cluster.summary("database-lost")
    # the containers that ran were taken over, and no others were started
    assert (summary["end_reason"], summary["executors"], summary["executors_lost"]) == ("", 2, 0)


def test_a_killed_container_is_replaced_and_the_job_is_right(cluster: LocalCluster, engine: Engine, stop_file: Path) -> None:
    job = cluster.submit("--name", "one-lost", "rounds.py", str(stop_file))
    view = cluster.running("one-lost")
    engine.kill_executor(view.application_id, "1")
    _await_executor(cluster, view.application_id, "3")
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    summary = cluster.summary("one-lost")
    assert (summary["executors_lost"], summary["executors"]) == (1, 3)
    assert summary["end_reason"] == ""


def _await_executor(cluster: LocalCluster, application_id: str, executor_id: str) -> None:
    log = cluster.home.runs / application_id / "executors" / executor_id / "stderr"
    eventually(
        lambda: log.exists() and "Starting executor ID" in log.read_text(errors="replace"),
        f"executor {executor_id} of {application_id}",
    )


def test_containers_go_with_a_killed_driver(cluster: LocalCluster, engine: Engine, stop_file: Path) -> None:
    job = cluster.submit("--name", "driver-dies", "rounds.py", str(stop_file))
    view = cluster.running("driver-dies")
    assert len(engine.containers(view.application_id)) == 2
    job.driver().kill()
    assert job.finish().code == 137
    engine.await_none(view.application_id)
    summary = cluster.summary("driver-dies")
    assert summary["end_reason"] == "its driver died"
    assert summary["taught"] is False


@pytest.mark.parametrize("name", [pytest.param("SIGINT", marks=pytest.mark.slow), "SIGTERM"])
def test_a_signal_to_submit_ends_driver_and_containers(
    cluster: LocalCluster, engine: Engine, stop_file: Path, name: str
) -> None:
    job = cluster.submit("--name", name, "rounds.py", str(stop_file))
    view = cluster.running(name)
    driver = find_process(job.driver().pid)
    if name == "SIGINT":
        job.interrupt()
    else:
        job.process.terminate()
    assert job.finish().code == 128 + signal.Signals[name]
    assert driver is not None
    assert not driver.is_alive()
    engine.await_none(view.application_id)
    assert cluster.client().application(view.application_id).state == "ended"


@pytest.mark.slow
def test_two_applications_side_by_side_keep_their_deadlines(
    cluster: LocalCluster, engine: Engine, stages: Learned, tmp_path: Path
) -> None:
    """Their first rounds begin together, when both have their executors and their quotas were seen."""
    begin = tmp_path / "begin"
    pace = ("--profile", stages.summary["profile"], "--deadline", f"{deadline_for(2 * stages.end_s):.0f}s", *AIM)
    words = (*pace, *stages.words, "--begin", str(begin))
    jobs = [cluster.submit("--name", name, *words) for name in ("left", "right")]
    views = [cluster.running(name) for name in ("left", "right")]
    highest = 0

    def quotas() -> dict[tuple[str, str], int]:
        found = engine.containers(ended=False)
        return {(container.labels["sparkpace.worker"], container.id): engine.quota(container) for container in found}

    while all(job.process.poll() is None for job in jobs):
        before, after = quotas(), quotas()
        if before == after:  # else one moved between two looks, and the sum would be of different moments
            by_worker = Counter[str]()
            for (worker, _), quota in after.items():
                by_worker[worker] += quota
            highest = max(highest, *by_worker.values(), 0)
            begin.touch()
        time.sleep(0.2)
    for job, view in zip(jobs, views, strict=True):
        assert job.finish().ok().answer["ok"]
        summary = cluster.summary(view.name)
        assert_unharmed(summary, view.application_id)
        assert_late_only_with_all(summary["violated"], cluster.samples(view.application_id))
        assert summary["workers"] == ["w1", "w2"]
    assert 0 < highest <= 100_000, "both together never had more than the worker's one core"

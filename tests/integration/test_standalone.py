"""The stock baseline on real Spark: a standalone cluster whose Workers have quotas; executors are killed and come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.machine.proc import command_line
from controller.runtime.cgroup.tree import CgroupTree
from experiments.baselines import standalone as module
from experiments.baselines.standalone import LABEL, Standalone, run_stock, standalone
from experiments.harness.recorded import Order
from stage_model.errors import Unavailable
from tests.integration.local_cluster import QUICK_JVM, eventually

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker]

OPTIONS = (
    *("--driver-memory", "512m", "--executor-memory", "512m", "--driver-java-options", QUICK_JVM),
    *("--conf", "spark.ui.enabled=false", "--conf", f"spark.executor.extraJavaOptions={QUICK_JVM}"),
)
CORES = 0.9
"""Cores of each Worker: with fewer, executors would only take longer to start."""
APP = """
import pathlib, sys, time
from pyspark import SparkContext

sc = SparkContext(appName="rounds")
stop, rounds = pathlib.Path(sys.argv[1]), 0
pairs = sc.parallelize(range(40), 8).map(lambda n: (n % 4, n)).reduceByKey(lambda a, b: a + b, 8)
while not stop.exists():
    assert sum(pairs.mapValues(lambda n: [time.sleep(0.3), n][1]).values().collect()) == 780
    rounds += 1
sc.stop()
sys.exit(0 if rounds else 1)
"""


@pytest.fixture
def apps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide applications of this test instead of the workloads."""
    (tmp_path / "rounds.py").write_text(APP)
    monkeypatch.setattr(module, "WORKLOADS", tmp_path)
    return tmp_path


def containers(engine: Any, folder: Path) -> list[Any]:
    return list(engine.api.containers(all=True, filters={"label": f"{LABEL}={folder}"}))


def killed(cluster: Standalone, job: str) -> int:
    log = (cluster.folder / "logs" / f"test-{job}.log").read_text(errors="replace")
    return log.count("resizable: executor")


def joined(cluster: Standalone, job: str) -> int:
    """Return the executors that have registered with the job's driver so far."""
    log = (cluster.folder / "logs" / f"test-{job}.log").read_text(errors="replace")
    return log.count("Registered executor")


def test_an_executor_is_killed_and_comes_back_and_nothing_is_left(docker_engine: Any, apps: Path) -> None:
    folder = apps / "cluster"
    stale = folder / "eventlogs" / "test-long-0" / "app-of-an-interrupted-run"
    stale.parent.mkdir(parents=True)
    stale.touch()
    crashed = standalone(folder, workers=1, cores_each=CORES)
    crashed.__enter__()  # nothing closes it before the next start
    before = {one["Id"] for one in containers(docker_engine, folder)}
    assert len(before) == 2
    with standalone(folder, workers=2, cores_each=CORES) as cluster:
        assert before.isdisjoint({one["Id"] for one in containers(docker_engine, folder)})
        found = [docker_engine.api.inspect_container(one["Id"]) for one in containers(docker_engine, folder)]
        quotas = sorted(one["HostConfig"]["CpuQuota"] for one in found)
        assert quotas[:2] == [90_000, 90_000]
        assert len(quotas) == 3
        long, short = (Order(name, ("rounds.py", f"{apps}/stop-{name}"), options=OPTIONS) for name in ("long", "short"))
        cluster.submit("test", long, executors=2, resizable=True)
        eventually(lambda: joined(cluster, "long") == 2, "two executors")
        assert cluster.begun() <= cluster.asking() <= {"long"}
        assert not stale.exists()

        # both Workers are taken, so the short job gets a Worker only when the long job has lost it
        cluster.submit("test", short, executors=1)
        eventually(lambda: "short" in cluster.asking(), "the short job's driver")
        assert "short" not in cluster.begun()
        cluster.resize("long", 1)
        eventually(lambda: joined(cluster, "short") == 1, "the short job's executor")
        assert killed(cluster, "long") == 1
        assert joined(cluster, "long") == 2

        (apps / "stop-short").touch()
        eventually(lambda: "short" in cluster.ended(), "the short job's end")
        assert joined(cluster, "long") == 2, "an executor came back without a request"
        cluster.resize("long", 2)
        eventually(lambda: joined(cluster, "long") == 3, "the executor that comes back")
        # it gets an executor when the long one has ended
        cluster.submit("test", Order("left", ("rounds.py", f"{apps}/never"), options=OPTIONS), executors=1)
        (apps / "stop-long").touch()
        eventually(lambda: "long" in cluster.ended(), "the long job's end")

        lost, kept = (cluster.record(job, 0.0) for job in ("long", "short"))
        assert (lost.exit_code, kept.exit_code) == (0, 0)
        assert (lost.summary["executors_lost"], kept.summary["executors_lost"]) == (1, 0)
        assert lost.summary["lost_core_s"] > 0 == kept.summary["lost_core_s"]
        assert cluster.core_s() > 0

        # a job that still runs when the block ends is ended with it
        eventually(lambda: joined(cluster, "left") == 1, "the last job's executor")
        left = cluster.jobs["left"].process
    assert left.poll() is not None
    assert containers(docker_engine, folder) == []
    crashed.__exit__(None, None, None)  # last, because it would take away what the other one leaves behind


def test_executors_of_one_worker_share_its_cores_by_weight(docker_engine: Any, apps: Path) -> None:
    if CgroupTree().version != 1:
        with pytest.raises(Unavailable, match="need cgroup v1"), standalone(apps / "v2", workers=1, cores_each=0.8, slots=2):
            pass
        assert containers(docker_engine, apps / "v2") == []
        return
    with standalone(apps / "shared", workers=1, cores_each=0.8, slots=2) as cluster:
        for name, weight in (("small", 1), ("large", 2)):
            order = Order(name, ("rounds.py", f"{apps}/stop-{name}"), options=OPTIONS)
            cluster.submit("test", order, executors=1, weight=weight)
        [worker] = cluster.groups

        def shares() -> dict[str, str]:
            cluster.share()
            return {group.name: (group / "cpu.shares").read_text().strip() for group in worker.cpu.glob("app-*")}

        def has_python(app: str) -> bool:
            words = (command_line(int(pid)) for pid in (worker.cpu / app / "cgroup.procs").read_text().split())
            return any(Path(of_one[0]).name.startswith("python") for of_one in words if of_one)

        eventually(lambda: len(shares()) == 2, "a group of each application's")
        logs = {job: log for job, one in cluster.jobs.items() if (log := one.application())}
        ids = {job: log.name.partition(".")[0] for job, log in logs.items()}
        assert shares() == {ids["small"]: "1024", ids["large"]: "2048"}
        eventually(lambda: all(map(has_python, ids.values())), "Python workers next to their executors")
        assert (worker.cpu / "cpu.cfs_quota_us").read_text().strip() == "80000"
    assert not worker.cpu.exists()


def test_what_executors_hold_over_time_is_read_from_the_master(docker_engine: Any, apps: Path) -> None:
    (apps / "once.py").write_text(APP.replace("while not stop.exists():", "while rounds < 1:"))
    one, other = (
        Order(name, ("once.py", "unused"), delay_s=delay_s, options=OPTIONS, stock_executors=executors)
        for name, delay_s, executors in (("one", 0.0, 2), ("other", 0.5, 1))
    )
    ran = run_stock(apps / "metered", "test", [other, one], workers=3, cores_each=CORES, limit_s=300)
    assert [(job.job, job.exit_code) for job in ran.jobs] == [("one", 0), ("other", 0)]
    held = [{job.job: reading.slots.get(job.app_id, 0) for job in ran.jobs} for reading in ran.readings]
    assert held[0] == {"one": 0, "other": 0}
    assert {name: max(at[name] for at in held) for name in held[0]} == {"one": 2, "other": 1}
    assert 0 < ran.readings[-1].used_core_s - ran.readings[0].used_core_s <= ran.core_s
    assert containers(docker_engine, apps / "metered") == []

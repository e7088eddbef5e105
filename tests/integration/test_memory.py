"""Off-heap memory of real executors in containers: the first shrinks, the second starts, the first grows again; waiting
applications.

Its own cluster, of one small worker, so that a cache of about a gigabyte is more than a share. Jobs are right throughout, no
task fails, and a thread watches that limits fit the worker and no executor is killed for memory. How long it takes is printed
(`pytest -s`) and no verdict.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from controller.agent.executors.resizing import OrderFile
from controller.wire.command import ApplicationView
from stage_model.progress import MemoryProgress, Progress
from tests.integration.engine import Engine, containers_in
from tests.integration.local_cluster import Job, LocalCluster, eventually

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker]

H = 512 + 384 + 100
"""Heap, overhead, Python: of SIZES."""
M = 4 * H + 40
"""Two applications share it, a third waits: (M - 3 h) / 3 < h."""
ALONE, SHARED = M - H, (M - 2 * H) // 2
SIZES = ("--conf", "spark.executor.memoryOverhead=384m", "--conf", "spark.executor.pyspark.memory=100m")
ROWS = 1_200_000
"""A kilobyte each: about 1,190 MiB cached, more than SHARED (1,016 MiB) and less than ALONE (3,028 MiB)."""
FEW = 100_000
SQL = (
    "--conf",
    "spark.sql.shuffle.partitions=4",
    "--conf",
    "spark.rdd.compress=false",
    "--conf",
    "spark.sql.inMemoryColumnarStorage.compressed=false",
    "--conf",
    "spark.driver.maxResultSize=200m",
)
MB = 1 << 20


@dataclass
class Watch:
    """Facts that the engine shows several times a second."""

    engine: Engine
    stop: threading.Event = field(default_factory=threading.Event)
    most_mb: int = 0
    killed: set[str] = field(default_factory=set)

    def run(self) -> None:
        while not self.stop.wait(0.2):
            before, after = self.limits(), self.limits()
            if before == after:  # else one moved between two looks, and the sum would be of different moments
                self.most_mb = max(self.most_mb, sum(after.values()) // MB)

    def limits(self) -> dict[str, int]:
        found = {container.id: self.engine.inspect(container) for container in self.engine.containers()}
        known = {name: facts for name, facts in found.items() if facts is not None}
        self.killed |= {name for name, facts in known.items() if facts["State"]["OOMKilled"]}
        running = {name: facts["HostConfig"] for name, facts in known.items() if facts["State"]["Running"]}
        assert all(host["Memory"] == host["MemorySwap"] for host in running.values())
        return {name: host["Memory"] for name, host in running.items()}


@dataclass
class Scene:
    """A cluster of one worker and jobs of one Spark version on it."""

    cluster: LocalCluster
    engine: Engine
    python: Path | None
    place: Path
    watch: Watch

    def job(self, name: str, rows: int, *conf: str) -> Job:
        files = [part for key in ("log", "go", "stop") for part in (f"--{key}", str(self.file(name, key)))]
        words = ["--name", name, *SIZES, *SQL, *conf, "memory.py", "--rows", str(rows), *files]
        if self.python is None:
            return self.cluster.submit(*words)
        return self.cluster.stock(self.python, "--properties-file", str(self.cluster.properties()), *words)

    def file(self, name: str, key: str) -> Path:
        return self.place / f"{name}.{key}"

    def said(self, name: str) -> list[str]:
        log = self.file(name, "log")
        return log.read_text().splitlines() if log.exists() else []

    def view(self, name: str) -> ApplicationView | None:
        found = self.cluster.views(name)
        return found[-1] if found else None

    def memory(self, name: str) -> MemoryProgress | None:
        """Return the memory that the first executor reports."""
        view = self.view(name)
        if view is None:
            return None
        file = self.cluster.home.local / view.application_id / "executor-1" / "control" / "progress.json"
        return msgspec.json.decode(file.read_bytes(), type=Progress).memory if file.exists() else None

    def order(self, name: str) -> OrderFile | None:
        view = self.view(name)
        file = (
            self.cluster.home.path / "agents" / "w1" / "orders" / (view.application_id if view else "-") / "1" / "memory.json"
        )
        return msgspec.json.decode(file.read_bytes(), type=OrderFile) if file.exists() else None

    def resident_mb(self, name: str) -> int:
        """Return the memory of all processes in the executor's container."""
        view = self.view(name)
        assert view is not None
        [container] = self.engine.containers(view.application_id, ended=False)
        facts = self.engine.inspect(container)
        assert facts is not None
        first = psutil.Process(facts["State"]["Pid"])
        return sum(process.memory_info().rss for process in (first, *first.children(recursive=True))) // MB

    def await_cached(self, name: str) -> None:
        eventually(lambda: "cached" in self.said(name), f"the cache of {name}")

    def await_acknowledged(self, name: str, budget_mb: int) -> None:
        """Wait until the budget is in the view: the agent has seen it."""

        def look() -> bool:
            view = self.view(name)
            return view is not None and view.off_heap_mb == budget_mb

        eventually(look, f"{budget_mb} MiB for {name}")

    def await_obeyed(self, name: str, budget_mb: int) -> None:
        """Wait until that budget has been ordered and is in force; print the seconds from the one to the other."""
        eventually(lambda: (o := self.order(name)) and o.off_heap_bytes == budget_mb * MB, f"the order for {name}")
        ordered = time.monotonic()
        number = (self.order(name) or OrderFile(number=0, off_heap_bytes=0)).number

        def look() -> bool:
            progress = self.memory(name)
            return progress is not None and progress.order == number and progress.budget == budget_mb * MB

        eventually(look, f"the answer of {name}")
        took_s = time.monotonic() - ordered
        print(f"{name}: {budget_mb} MiB acknowledged {took_s:.1f} s after the order, {self.resident_mb(name)} MiB resident")


def small_cluster(docker_engine: Any, place: Path, *options: str) -> AbstractContextManager[LocalCluster]:
    return containers_in(docker_engine, place, "--workers", "1", "--memory", f"{M}m", *options)


@contextmanager
def watched(cluster: LocalCluster, docker_engine: Any, python: Path | None, place: Path) -> Iterator[Scene]:
    watch = Watch(Engine(docker_engine, cluster.cluster().cluster_id))
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        yield Scene(cluster, watch.engine, python, place, watch)
    finally:
        watch.stop.set()
        thread.join()
        for job in cluster.jobs:
            job.kill()
    watch.engine.await_none()
    assert watch.killed == set(), "killed for memory"
    assert 0 < watch.most_mb <= M


@pytest.fixture(scope="module")
def small_home(docker_engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with small_cluster(docker_engine, tmp_path_factory.mktemp("memory")) as cluster:
        yield cluster


@pytest.fixture(params=["submit", "stock-3.5"])
def scene(request: pytest.FixtureRequest, small_home: LocalCluster, docker_engine: Any, tmp_path: Path) -> Iterator[Scene]:
    python = Path(request.getfixturevalue("spark35_python")) if request.param == "stock-3.5" else None
    with watched(small_home, docker_engine, python, tmp_path) as found:
        yield found


def finish(scene: Scene, job: Job, name: str) -> dict[str, Any]:
    scene.file(name, "stop").touch()
    done = job.finish().ok()
    assert done.answer["ok"]
    summary = scene.cluster.summary(name)
    assert (summary["tasks_failed"], summary["executors_lost"], summary["executors"]) == (0, 0, 1)
    return dict(done.answer)


def test_the_first_shrinks_the_second_starts_and_the_first_grows_again(scene: Scene) -> None:
    first, second = (f"{name}-{'3' if scene.python else '4'}" for name in ("first", "second"))
    one = scene.job(first, ROWS)
    scene.await_cached(first)
    scene.await_acknowledged(first, ALONE)

    def more_than_a_share() -> MemoryProgress | None:
        report = scene.memory(first)
        return report if report is not None and report.storage > SHARED * MB else None

    held = eventually(more_than_a_share, "a report of more than a share")
    resident_mb = scene.resident_mb(first)
    print(f"{first}: {held.storage // MB} MiB cached, {resident_mb} MiB resident")

    # Storage holds it: it is evicted, and only then there is room for the second.
    two = scene.job(second, FEW)
    scene.await_obeyed(first, SHARED)
    scene.await_cached(second)
    scene.await_acknowledged(second, SHARED)
    scene.await_acknowledged(first, SHARED)
    progress = scene.memory(first)
    assert progress is not None
    assert progress.storage <= progress.budget == SHARED * MB
    # what left the cache left the process, too; its heap may have grown by some MiB meanwhile
    assert scene.resident_mb(first) <= resident_mb - 0.5 * (held.storage - progress.storage) / MB

    if scene.python:
        finish(scene, two, second)
    else:  # the master lets a third wait, whatever the release of its Spark
        finish_before_a_third(scene, two, second)

    # The first grows again.
    scene.await_obeyed(first, ALONE)
    scene.await_acknowledged(first, ALONE)
    view = scene.view(first)
    assert view is not None
    assert view.memory_mb == M
    if not scene.python:
        shrink_while_it_sorts(scene, first)
    sorts = finish(scene, one, first)["sorts"]
    assert sorts == 0 if scene.python else sorts >= 2


def finish_before_a_third(scene: Scene, two: Job, second: str) -> None:
    """Finish the second job while a third waits, which fits nowhere: it says so, and starts when the second is over."""
    three = scene.job("third", FEW)

    def waits() -> bool:
        view = scene.view("third")
        return view is not None and (view.state, view.queue_position) == ("waiting", 1) and "off-heap memory" in view.reason

    eventually(waits, "a third that waits")
    finish(scene, two, second)
    scene.await_cached("third")
    said = three.err.read_text(errors="replace")
    assert said.count("waits, place 1: with it each of 3 on worker w1 would have") == 1
    finish(scene, three, "third")


def shrink_while_it_sorts(scene: Scene, first: str) -> None:
    """Let the first sort more than a share of the memory holds, while another job arrives and goes."""

    def holds_more() -> bool:
        report = scene.memory(first)
        return report is not None and report.execution > 0 and report.execution + report.storage > SHARED * MB

    scene.file(first, "go").touch()
    eventually(lambda: "sorted 1" in scene.said(first), "a first sort")
    eventually(holds_more, "a sort that holds more than a share")
    arriving = scene.job("arriving", FEW)
    scene.await_obeyed(first, SHARED)
    scene.await_cached("arriving")
    before = len(scene.said(first))
    eventually(lambda: len(scene.said(first)) > before, "a sort in half the memory")
    finish(scene, arriving, "arriving")
    scene.await_acknowledged(first, ALONE)


def test_by_need_leaves_the_cache_to_the_application_that_uses_it(docker_engine: Any, tmp_path: Path) -> None:
    with (
        small_cluster(docker_engine, tmp_path, "--memory-policy", "by-need") as cluster,
        watched(cluster, docker_engine, None, tmp_path) as scene,
    ):
        one = scene.job("large", ROWS)
        scene.await_cached("large")
        two = scene.job("small", FEW)
        scene.await_cached("small")

        def split_by_need() -> bool:
            large, small = scene.view("large"), scene.view("small")
            return large is not None and small is not None and large.off_heap_mb > SHARED > small.off_heap_mb > 0

        eventually(split_by_need, "more than an equal share for whom needs more")
        finish(scene, two, "small")
        scene.await_acknowledged("large", ALONE)
        finish(scene, one, "large")


@pytest.mark.parametrize("scene", ["submit"], indirect=True)
def test_a_killed_job_and_a_restarted_master_leave_the_right_split(scene: Scene) -> None:
    one, two = scene.job("stays", FEW), scene.job("killed", FEW)
    for name in ("stays", "killed"):
        scene.await_cached(name)
        scene.await_acknowledged(name, SHARED)
    scene.cluster.kill_master()
    scene.cluster.restore()
    scene.cluster.await_workers()
    scene.await_acknowledged("stays", SHARED)
    scene.cluster.command("kill", "killed", check=None)  # the command waits for the end for 15 s at most
    two.finish()
    scene.await_acknowledged("stays", ALONE)
    view = scene.view("stays")
    assert view is not None
    container = scene.engine.containers(view.application_id, ended=False)[0]
    scene.engine.kill_executor(view.application_id, container.labels["sparkpace.executor"])
    eventually(lambda: (v := scene.view("stays")) and v.off_heap_mb == ALONE and v.executors == 1, "a new executor")
    scene.file("stays", "stop").touch()
    assert one.finish().ok().answer["ok"]

"""Clusters for the integration tests: one with Docker containers, one with plain processes, each for a whole test run.

A test gets its cluster clean and must leave it so: no application alive, no container left, all services alive.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller.runtime.docker.image import choose_base, ensure_executor_image
from experiments.harness.one_node import load_image
from tests.integration.engine import Engine, containers_in
from tests.integration.kubernetes_cluster import Kubernetes, namespace
from tests.integration.local_cluster import LocalCluster, adopted_groups, cluster_in, eventually
from tests.integration.pacing import deadline_for

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STAGES = ("stages.py", "--work", "4", "--tasks", "6", "--rounds", "3")
"""About ten core-seconds of executors: 30 tasks in 6 stages."""
ONE_SPARK = pytest.mark.parametrize("python", ["installed"], indirect=True)
"""Mark of a test whose claim does not depend on Spark's release: one job of each way to start executors runs on both."""


PIP_CACHE = os.environ.get("PIP_CACHE_DIR") or str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pip")
"""Cache of the user's pip: in the cache that a test run has of its own, there would be nothing."""
LOG_LINES = 40
"""Last lines of a service's log that a failed test shows."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the services of a failed test's cluster said: elsewhere their logs are gone with the machine."""
    report = yield
    if report.failed:
        clusters = [one for one in getattr(item, "funcargs", {}).values() if isinstance(one, LocalCluster)]
        for log in [file for cluster in clusters for file in sorted(cluster.home.logs.glob("*.log"))]:
            lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            report.sections.append((f"end of {log.name}", "\n".join(lines)))
    return report


@dataclass(frozen=True, slots=True)
class Learned:
    """A job that ran once without a deadline under `name`, so that it has a profile."""

    name: str
    words: tuple[str, ...]
    end_s: float
    summary: dict[str, Any]

    @property
    def deadline(self) -> str:
        """Return a generous deadline."""
        return f"{deadline_for(self.end_s):.0f}s"


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make class archives once for all clusters and processes of a test run, and leave those of the user as they are."""
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(run / "cache"))
        yield


@pytest.fixture(scope="session")
def docker_home(docker_engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with containers_in(docker_engine, tmp_path_factory.mktemp("docker"), "--workers", "2") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def process_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with cluster_in(tmp_path_factory.mktemp("process"), "process", "--workers", "1", "--host-drivers") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the bridge from this checkout's sources."""
    out = tmp_path_factory.mktemp("bridge") / "sparkpace-bridge.jar"
    subprocess.run([sys.executable, str(ROOT / "bridge" / "build.py"), "--out", str(out)], check=True)
    return out


@pytest.fixture(scope="session")
def classes(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the class path of the harnesses in `java/`: Spark's jars, the bridge, themselves in the bridge's package."""
    folder = tmp_path_factory.mktemp("harnesses")
    pyspark = pytest.importorskip("pyspark")
    path = f"{Path(pyspark.__file__).parent / 'jars'}/*:{jar}"
    home = os.environ.get("JAVA_HOME")
    javac = f"{home}/bin/javac" if home else shutil.which("javac") or "javac"
    sources = sorted(map(str, (HERE / "java").glob("*.java")))
    subprocess.run([javac, "-proc:none", "-nowarn", "-cp", path, "-d", str(folder), *sources], check=True)
    return f"{path}:{folder}"


@pytest.fixture
def engine(docker_engine: Any, docker_home: LocalCluster) -> Engine:
    return Engine(docker_engine, docker_home.cluster().cluster_id)


@pytest.fixture
def cluster(docker_home: LocalCluster, engine: Engine) -> Iterator[LocalCluster]:
    """Provide two workers of one core each, executors in containers."""
    yield docker_home
    _tidy(docker_home)
    engine.await_none()


@pytest.fixture
def process_cluster(process_home: LocalCluster) -> Iterator[LocalCluster]:
    """Provide a worker of two cores, executors as processes."""
    yield process_home
    _tidy(process_home)


@pytest.fixture(params=["installed", "spark35"])
def python(request: pytest.FixtureRequest) -> Path:
    """Provide a Python with Spark 4.3, then one with Spark 3.5."""
    return Path(sys.executable if request.param == "installed" else request.getfixturevalue("spark35_python"))


@pytest.fixture(scope="module")
def adopting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start a master, and an agent that paces executors that others start on this machine; both are removed afterwards."""
    with cluster_in(tmp_path_factory.mktemp("adopting"), "adopt") as cluster:
        yield cluster
    assert adopted_groups(cluster) == []


@pytest.fixture(scope="session")
def node_image(docker_engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the image of the master and of agents from this checkout's wheel; each process of a test run has its own."""
    name = f"sparkpace-node:tests-{os.getpid()}"
    dist = tmp_path_factory.mktemp("dist")
    wheels = ["pip", "wheel", "--quiet", "--wheel-dir", str(dist), f"{ROOT}[kubernetes]"]
    subprocess.run([sys.executable, "-m", *wheels], env={**os.environ, "PIP_CACHE_DIR": PIP_CACHE}, check=True)
    (dist / "Dockerfile").write_bytes((ROOT / "dockerfiles" / "node" / "Dockerfile").read_bytes())
    base = choose_base(docker_engine.api, None)
    arguments = {"PIP_OPTIONS": "--no-index", **({"BASE_IMAGE": base} if base else {})}
    docker_engine.images.build(path=str(dist), tag=name, buildargs=arguments, network_mode="host", rm=True)
    yield name
    docker_engine.images.remove(name, force=True)


@pytest.fixture(scope="session")
def executor_image(docker_engine: Any, kubeconfig: Path) -> str:
    """Load the project's own image onto the cluster's node."""
    image = ensure_executor_image(docker_engine.api, os.environ.get("SPARKPACE_BASE_IMAGE"))
    load_image(image)
    return image


@contextmanager
def _turn(tmp_path_factory: pytest.TempPathFactory, how: int) -> Iterator[None]:
    """Share the cluster among test processes; a test that harms the cluster has no others on it."""
    shared = tmp_path_factory.getbasetemp().parent
    with (shared / "kubernetes.lock").open("w") as lock:
        fcntl.flock(lock, how)
        yield


@pytest.fixture
def kubernetes(kubeconfig: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """Provide a namespace of the test's own."""
    with _turn(tmp_path_factory, fcntl.LOCK_SH), namespace(kubeconfig, tmp_path / "kubernetes") as found:
        yield found


@pytest.fixture(scope="module")
def module_kubernetes(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """Provide a namespace that the tests of a module share."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with _turn(tmp_path_factory, fcntl.LOCK_SH), namespace(kubeconfig, folder) as found:
        yield found


@pytest.fixture
def kubernetes_alone(kubeconfig: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """Provide a namespace of the test's own while no other test uses the cluster."""
    with _turn(tmp_path_factory, fcntl.LOCK_EX), namespace(kubeconfig, tmp_path / "kubernetes") as found:
        yield found


@pytest.fixture(scope="session")
def learned(docker_home: LocalCluster) -> Callable[..., Learned]:
    """Provide a function that runs a job once per test run, so that it has a profile afterwards."""
    known: dict[str, Learned] = {}

    def learn(name: str, *words: str) -> Learned:
        if name not in known:
            docker_home.run("--name", name, *words).ok()
            summary = docker_home.summary(name)
            known[name] = Learned(name, words, summary["end_s"], summary)
        return known[name]

    return learn


@pytest.fixture
def stop_file(tmp_path: Path) -> Path:
    """Provide the path of a file until which `rounds.py` goes on, or for which a job with `--hold` waits."""
    return tmp_path / "stop"


@pytest.fixture
def stages(learned: Callable[..., Learned]) -> Learned:
    return learned("stages", *STAGES)


def _tidy(cluster: LocalCluster) -> None:
    """Clear up after a test that failed half-way, so that it does not disturb the next one."""
    for job in cluster.jobs:
        job.kill()
    dead = cluster.heal()
    eventually(
        lambda: all(view.state == "ended" and view.executors == 0 for view in cluster.client().applications()),
        "the end of all applications",
    )
    assert dead == [], "services died"

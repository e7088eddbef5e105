"""Resources that any test may ask for (a Docker engine, a Kubernetes cluster, a second Spark), how property tests run, and
the order of tests.

`SPARKPACE_REQUIRE_DOCKER=1`, and likewise KUBERNETES, HELM, BROWSER, PROMETHEUS and AIRFLOW (set by .ci/run) and LAB (set by
`make lab-test`), turn a skipped test that needs one into a failure, so nothing passes unseen.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import docker
import hypothesis
import pytest
from xdist.scheduler.loadfile import LoadFileScheduling

from controller.runtime.docker.client import docker_version
from stage_model.errors import Unavailable
from tests.fakes.small_disk import SmallDisk, mounted

if TYPE_CHECKING:
    from xdist.remote import Producer

NEEDS = {
    "docker": "docker_engine",
    "kubernetes": "kubeconfig",
    "helm": "helm_library",
    "browser": "chromium",
    "prometheus": "prometheus",
    "airflow": "airflow",
    "lab": "lab",
}
"""The fixture that every test of a marker needs."""
REQUIRED = {marker for marker in NEEDS if os.environ.get(f"SPARKPACE_REQUIRE_{marker.upper()}", "") not in {"", "0"}}

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background jobs ignore Ctrl-C, and so would every program that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Jobs would run with the Python of an environment that is active in the user's shell.
os.environ.pop("VIRTUAL_ENV", None)

# A slow machine is no wrong answer, so there is no deadline; a gate must say the same twice, so it draws no new cases.
PATIENT = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("dev", PATIENT)
hypothesis.settings.register_profile("gate", PATIENT, derandomize=True, max_examples=200)
hypothesis.settings.load_profile("gate" if REQUIRED or os.environ.get("CI") else "dev")

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparkpace"
"""Folder in which `.ci/setup prometheus` and `.ci/setup airflow` leave the programs. Tests may have a cache of their own
later."""


def _missing(marker: str, problem: str) -> NoReturn:
    if marker in REQUIRED:
        pytest.fail(problem)
    pytest.skip(problem)


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[docker.DockerClient]:
    """Provide a client of the engine that answers here (DOCKER_HOST or the default socket)."""
    try:
        docker_version()
    except Unavailable as problem:
        _missing("docker", str(problem))
    client = docker.from_env(timeout=120)
    yield client
    client.close()


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide an administrator's kubeconfig of a cluster that answers. A variable of its own names it, so that no test
    touches a user's cluster unless the user says so."""
    given = os.environ.get("SPARKPACE_TEST_KUBECONFIG")
    if not given:
        _missing("kubernetes", "SPARKPACE_TEST_KUBECONFIG names no cluster; `make kubernetes` starts one")
    options = ("--kubeconfig", given, "--cache-dir", str(tmp_path_factory.mktemp("kubectl")), "--request-timeout", "20s")
    try:
        subprocess.run(["kubectl", *options, "get", "--raw", "/readyz"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        why = getattr(problem, "stderr", None) or problem
        _missing("kubernetes", f"no cluster answers at SPARKPACE_TEST_KUBECONFIG={given}: {why}")
    return Path(given)


@pytest.fixture(scope="session")
def helm_library() -> None:
    """Check that Helm's library, which `tests.helm` calls, is here."""
    if importlib.util.find_spec("helm_python") is None:
        _missing("helm", "there is no helm-python-sdk; `.ci/setup helm` installs it on x86_64")


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Provide Debian's browser, which Playwright drives."""
    found = shutil.which("chromium")
    if found is None or importlib.util.find_spec("playwright") is None:
        _missing("browser", "there is no chromium with playwright; `.ci/setup browser` installs them")
    return Path(found)


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """Provide the folder of `prometheus` and `promtool`."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    for folder in (*folders, CACHE / "prometheus" / "usr" / "bin"):
        if all(os.access(folder / name, os.X_OK) for name in ("prometheus", "promtool")):
            return folder
    _missing("prometheus", "there is no prometheus with promtool; `.ci/setup prometheus` unpacks them")


@pytest.fixture(scope="session")
def airflow() -> Path:
    """Provide the Airflow command, from an environment that holds exactly what the lock file says."""
    made = CACHE / "airflow"
    lock = Path(__file__).parents[1] / ".ci" / "airflow.txt"
    if not (made / "made-from").is_file() or (made / "made-from").read_bytes() != lock.read_bytes():
        _missing("airflow", "there is no Airflow as .ci/airflow.txt says; `.ci/setup airflow` makes it")
    return made / "bin" / "airflow"


@pytest.fixture(scope="session")
def lab() -> Path:
    """Provide the folder of a lab whose machines run."""
    given = os.environ.get("SPARKPACE_LAB")
    if not given:
        _missing("lab", "SPARKPACE_LAB names no lab; `make lab` starts one")
    pids = [Path(given, f"{machine}.pid") for machine in "ab"]
    if not all(pid.is_file() and Path("/proc", pid.read_text().strip()).is_dir() for pid in pids):
        _missing("lab", f"no lab runs in SPARKPACE_LAB={given}; `make lab` starts one")
    return Path(given)


@pytest.fixture(autouse=True)
def _marked_tests_have_what_they_need(request: pytest.FixtureRequest) -> None:
    for marker, fixture in NEEDS.items():
        if request.node.get_closest_marker(marker) is not None:
            request.getfixturevalue(fixture)


@pytest.fixture(autouse=True)
def _tests_of_containers_groups_may_write_them(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("groups") is not None and os.geteuid() != 0:
        pytest.skip("only root may write the control groups of an engine's containers")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Provide a disk of two megabytes; root only."""
    with mounted(tmp_path / "small", "2m") as disk:
        yield disk


@pytest.fixture(scope="session")
def spark35_python() -> Path:
    """Provide a Python interpreter whose pyspark is a 3.5 (`make test` builds one)."""
    given = os.environ.get("SPARKPACE_SPARK35_PYTHON")
    if not given:
        pytest.skip("SPARKPACE_SPARK35_PYTHON names no Python with pyspark 3.5; `make test` sets it where 3.5 can run")
    if not Path(given).is_file():
        pytest.fail(f"SPARKPACE_SPARK35_PYTHON is {given!r}, which is no file; name a Python that has pyspark 3.5")
    return Path(given)


TOGETHER: dict[str, tuple[str, ...]] = {
    "kubernetes": ("test_kubernetes", "test_node_image."),
    "bridge": ("test_bridge", "test_steady_clock."),
    "containers": (
        *("test_authentication.", "test_class_archive.", "test_environment.", "test_failures.", "test_jobs."),
        "test_several_jobs.",
    ),
    "memory": ("test_memory.", "test_pressure."),
    "processes": (
        *("test_airflow.", "test_jupyter.", "test_outcomes.", "test_pipelines.", "test_process_runtime.", "test_prometheus."),
        *("test_shim.", "test_sql_servers.", "test_store_and_disk.", "test_ui."),
    ),
}
"""Groups of files in `tests/integration` that share what takes long to start: the Kubernetes cluster and the node image, the
bridge's classes, the cluster with executors in containers, that with executors as processes. In several processes, each would
start it, or one would wait until another is done with it. The files of "memory" share gigabytes of the machine: at the same
time, one would put the machine under a pressure that the other does not expect."""


def _together(nodeid: str) -> str:
    """Return the group of tests that run in one process: that of a file in `TOGETHER`, or else the file's own tests."""
    file = nodeid.split("::", 1)[0]
    name = file.removeprefix("tests/integration/")
    return next((group for group, names in TOGETHER.items() if name.startswith(names)), file)


class _Scheduling(LoadFileScheduling):  # type: ignore[misc] # it has no types
    def _split_scope(self, nodeid: str) -> str:
        return _together(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Scheduling | None:
    return _Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the groups and files with most jobs on real clusters first where several processes run tests, so that all processes
    end together."""
    if hasattr(config, "workerinput"):
        of = {item: _together(item.nodeid) for item in items}
        long = (item for item in items if item.get_closest_marker("docker") or of[item] in TOGETHER)
        jobs = Counter(of[item] for item in long if item.get_closest_marker("spark"))
        items.sort(key=lambda item: (item.get_closest_marker("spark") is None, -jobs[of[item]]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refused = item.get_closest_marker("groups") is not None and os.geteuid() != 0
    if report.skipped and not refused and not hasattr(report, "wasxfail"):
        for marker in sorted(REQUIRED):
            if item.get_closest_marker(marker) is not None:
                report.outcome = "failed"
                variable = f"SPARKPACE_REQUIRE_{marker.upper()}"
                report.longrepr = f"{item.nodeid} was skipped although {variable} is set: {report.longrepr}"
    return report

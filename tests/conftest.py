"""What every test may ask for: a Docker engine, a second Spark; how property tests run, and in which order.

`SPARKPACE_REQUIRE_DOCKER=1` (set by .ci/run) turns a skipped Docker test into a failure, so nothing passes unseen.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import docker
import hypothesis
import pytest

from controller.engines import docker_version
from stage_model.errors import Unavailable
from tests.fakes.small_disk import SmallDisk, mounted

REQUIRE_DOCKER = os.environ.get("SPARKPACE_REQUIRE_DOCKER", "") not in {"", "0"}

# A slow machine is no wrong answer, so there is no deadline; a gate must say the same twice, so it draws no new cases.
PATIENT = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("dev", PATIENT)
hypothesis.settings.register_profile("gate", PATIENT, derandomize=True, max_examples=200)
hypothesis.settings.load_profile("gate" if REQUIRE_DOCKER or os.environ.get("CI") else "dev")


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[docker.DockerClient]:
    """A client of the engine that answers here (DOCKER_HOST or the default socket)."""
    try:
        docker_version()
    except Unavailable as problem:
        if REQUIRE_DOCKER:
            pytest.fail(str(problem))
        pytest.skip(str(problem))
    client = docker.from_env(timeout=120)
    yield client
    client.close()


@pytest.fixture(autouse=True)
def _marked_docker_tests_have_an_engine(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("docker") is not None:
        request.getfixturevalue("docker_engine")


@pytest.fixture(autouse=True)
def _tests_of_containers_groups_may_write_them(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("groups") is not None and os.geteuid() != 0:
        pytest.skip("only root may write the control groups of an engine's containers")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Of two megabytes; root only."""
    with mounted(tmp_path / "small", "2m") as disk:
        yield disk


@pytest.fixture(scope="session")
def spark35_python() -> Path:
    """A Python interpreter whose pyspark is a 3.5 (`make test` builds one)."""
    given = os.environ.get("SPARKPACE_SPARK35_PYTHON")
    if not given:
        pytest.skip("SPARKPACE_SPARK35_PYTHON names no Python with pyspark 3.5; `make test` sets it where 3.5 can run")
    if not Path(given).is_file():
        pytest.fail(f"SPARKPACE_SPARK35_PYTHON is {given!r}, which is no file; name a Python that has pyspark 3.5")
    return Path(given)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes run tests, a file at a time, those with most jobs on real clusters come first, so that all
    processes end together."""
    if hasattr(config, "workerinput"):
        jobs = Counter(item.path for item in items if item.get_closest_marker("spark") and item.get_closest_marker("docker"))
        items.sort(key=lambda item: (item.get_closest_marker("spark") is None, -jobs[item.path]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refused = item.get_closest_marker("groups") is not None and os.geteuid() != 0
    needs_engine = item.get_closest_marker("docker") is not None and not refused
    if REQUIRE_DOCKER and needs_engine and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped although SPARKPACE_REQUIRE_DOCKER is set: {report.longrepr}"
    return report

"""The master that tests of its parts begin with, an application on it, and calls of its API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.calls import Caller, Connection
from tests.fakes.cluster import FakeCluster


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    """Provide a master without workers."""
    return FakeCluster(tmp_path)


@pytest.fixture
def application_id(cluster: FakeCluster) -> str:
    """Provide an application whose first executor is to start on worker w1."""
    cluster.worker("w1")
    return cluster.register()


@pytest.fixture
def _taught(cluster: FakeCluster) -> None:
    """Have a run on worker w1 teach: 3 s of start-up and 8 core-seconds on one core."""
    cluster.finished_run()


@pytest.fixture
def call(cluster: FakeCluster) -> Iterator[Caller]:
    """Provide a caller of the API of that master."""
    connection = Connection()
    yield Caller(cluster, connection)
    connection.close()

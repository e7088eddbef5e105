"""The master that tests of its parts begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.cluster import FakeCluster


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    """Provide a master without workers."""
    return FakeCluster(tmp_path)

"""The worker with which most tests of an agent begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.worker import FakeWorker


@pytest.fixture
def worker(tmp_path: Path) -> FakeWorker:
    """Provide a worker of two cores and 4096 MiB."""
    return FakeWorker(tmp_path)

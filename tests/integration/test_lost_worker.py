"""A worker whose agent is away for too long, on real Spark: its executor is given up and ends. The job goes on without it,
and with another one when the agent is back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.local_cluster import LocalCluster, cluster_in, eventually
from tests.integration.test_process_runtime import executors_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[LocalCluster]:
    """Provide two workers that are soon lost, executors as processes."""
    with cluster_in(tmp_path, "process", "--workers", "2", "--lost-after", "15s") as cluster:
        yield cluster


def test_an_executor_that_is_given_up_ends_and_is_replaced_once_its_worker_is_back(
    impatient: LocalCluster, stop_file: Path
) -> None:
    job = impatient.submit("--name", "left", "rounds.py", str(stop_file))
    view = impatient.running("left")
    assert len(executors_of(view.application_id)) == 2
    impatient.kill_agent("w2")
    client = impatient.client()
    eventually(lambda: any("is given up" in line for line in client.application(view.application_id).notices), "its loss")
    eventually(lambda: len(executors_of(view.application_id)) == 1, "the end of what the driver has removed")
    eventually(lambda: "is given up" in job.err.read_text(), "the line for its user")
    impatient.restore()
    eventually(lambda: client.application(view.application_id).executors == 2, "another executor on its worker")
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    summary = impatient.summary("left")
    assert summary["end_reason"] == ""
    # a busy machine may hold the other agent up for as long, even until the job has ended
    assert 3 <= summary["executors"] <= 2 + summary["executors_lost"]

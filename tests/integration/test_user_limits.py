"""Real jobs of a user with limits: what `up` was given refuses one and holds another back. The cluster is the test's own,
because limits are given when a master starts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.fakes.refusals import assert_names
from tests.integration.local_cluster import cluster_in, eventually

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def test_a_user_may_run_one_job_at_a_time_and_none_of_high_priority(tmp_path: Path, stop_file: Path) -> None:
    user = str(os.getuid())
    with cluster_in(tmp_path, "process", "--workers", "1", "--user-limits", f"{user} priority=50 applications=1") as cluster:
        refused = cluster.run("--priority", "high", "rounds.py", str(stop_file))
        assert refused.code == 2
        assert_names(refused.err, "priority 100", f"user {user}", "50 or lower")
        first = cluster.submit("--name", "first", "rounds.py", str(stop_file))
        cluster.running("first", executors=1)
        second = cluster.submit("--name", "second", "rounds.py", str(stop_file))
        eventually(lambda: any(f"user {user}" in view.reason for view in cluster.views("second")), "the wait of the second")
        shown = json.loads(cluster.command("ps", "--output", "json").stdout)
        assert [view["share"]["applications"] for view in shown] == [1, 1]
        assert f"user {user}: 1 of 1 applications" in cluster.command("ps").stdout
        stop_file.touch()
        assert [job.finish().ok().answer["ok"] for job in (first, second)] == [True, True]

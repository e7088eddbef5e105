"""Pipelines on real Spark: jobs, each with its share of the time, split again at each end."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.integration.conftest import STAGES
from tests.integration.local_cluster import APPS, JOB_S, LocalCluster, eventually
from tests.integration.pacing import AIM, deadline_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOBS = ("extract", "publish")
"""Names that no other test of this cluster uses: the record of another run would count as the end of the job."""


def wall_s(summary: dict[str, Any], moment: str) -> float:
    """Return the wall-clock time of a moment that counts from the submission."""
    return float(summary["submitted_epoch_s"] + summary[moment])


def test_a_chain_runs_in_order_and_its_time_is_split_again_at_each_end(process_cluster: LocalCluster) -> None:
    process_cluster.run("--name", "link", *STAGES).ok()
    learned = process_cluster.summary("link")
    app, *arguments = STAGES
    words = ("submit", "--profile", learned["profile"], "--pipeline", "nightly", *AIM)
    # one moment for all, because each start of a submission takes seconds
    by = datetime.now().astimezone() + timedelta(seconds=len(JOBS) * deadline_for(learned["end_s"]))
    for before, name in zip([None, *JOBS], JOBS, strict=False):
        after = ("--after", f"{before}:success") if before else ()
        job = ("--by", by.isoformat(), "--name", name, *after, str(APPS / app), *arguments)
        process_cluster.command(*words, "--detach", *job)

    def recorded(name: str) -> bool:
        views = process_cluster.views(name)
        return bool(views) and views[-1].finished

    eventually(lambda: all(map(recorded, JOBS)), "their records", len(JOBS) * JOB_S)
    summaries = [process_cluster.summary(name) for name in JOBS]
    said = [path.read_text()[-2000:] for path in process_cluster.home.logs.glob("driver-*.log")]
    assert [summary["outcome"] for summary in summaries] == ["succeeded"] * len(JOBS), said
    for first, second in pairwise(summaries):
        # a master reads its wall clock when a driver registers, so on a busy machine it may be late for the first one
        assert wall_s(second, "first_task_s") > wall_s(first, "last_task_s")
        assert second["pipeline"]["by_s"] < first["pipeline"]["by_s"] - first["end_s"] + 1
    # alike jobs: half of what is left when the second one comes, and then all that is left, whatever the first one took of it
    first_share, last_share = (summary["deadline_s"] / summary["pipeline"]["by_s"] for summary in summaries)
    assert 0.4 < first_share < 0.8
    assert last_share == pytest.approx(1.0)

"""Pipelines on real Spark: a file's jobs, each with its share of the time, split again at each end; and refusals."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from controller.wire.command import PlanRequest
from tests.integration.conftest import STAGES
from tests.integration.local_cluster import APPS, LocalCluster, eventually
from tests.integration.pacing import AIM, deadline_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOBS = ("load", "report")


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

    eventually(lambda: all(map(recorded, JOBS)), "their records", 300.0)
    summaries = [process_cluster.summary(name) for name in JOBS]
    assert [summary["outcome"] for summary in summaries] == ["succeeded"] * len(JOBS)
    for first, second in pairwise(summaries):
        # wall clocks are read a moment apart
        assert second["submitted_epoch_s"] > first["submitted_epoch_s"] + first["end_s"] - 1
        assert second["pipeline"]["by_s"] < first["pipeline"]["by_s"] - first["end_s"] + 1
    # alike jobs: half of the time, and then all that is left of it, whatever the first one took of its half
    shares = [summary["deadline_s"] / summary["pipeline"]["by_s"] for summary in summaries]
    assert shares == [pytest.approx(1 / 2, rel=0.15), pytest.approx(1.0)]


def test_who_does_not_fit_into_the_whole_is_refused_before_its_driver_starts(process_cluster: LocalCluster) -> None:
    # long enough that two fifths of its time are plenty for the start of a driver
    app, *arguments = "stages.py", "--work", "240", "--tasks", "6", "--rounds", "3"
    process_cluster.run("--name", "long", app, *arguments).ok()
    profile = process_cluster.summary("long")["profile"]
    alone_s = process_cluster.client().plan(PlanRequest(profile=profile)).least_deadline_s
    assert alone_s is not None
    words = ("submit", "--profile", profile, "--pipeline", "whole", "--by", f"{1.4 * alone_s:.1f}s")
    job = (str(APPS / app), *arguments)
    # it waits for one that never comes, so all of its work is still to be done
    process_cluster.command(*words, "--detach", "--name", "first", "--after", "missing", *job)
    refused = process_cluster.command(*words, "--name", "second", "--after", "first", *job, check=75)
    assert "the end of pipeline whole, " in refused.stderr
    assert not process_cluster.views("second")
    process_cluster.command("kill", "first")
    eventually(lambda: all(view.finished for view in process_cluster.views("first")), "its record")

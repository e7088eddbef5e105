"""Pipelines on real Spark: a file's jobs, each with its share of the time, split anew at each end; and what is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from controller.runs.run_folder import read_summary
from controller.wire.command import PlanRequest
from tests.integration.conftest import STAGES
from tests.integration.local_cluster import APPS, LocalCluster, eventually
from tests.integration.pacing import AIM, deadline_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOBS = ("load", "clean", "report")


def test_a_chain_runs_in_order_and_its_time_is_split_anew_at_each_end(process_cluster: LocalCluster, tmp_path: Path) -> None:
    process_cluster.run("--name", "link", *STAGES).ok()
    learned = process_cluster.summary("link")
    app, *arguments = STAGES
    options = ["--name", "link", *AIM]
    file = tmp_path / "nightly.toml"
    file.write_text(
        "".join(
            f"[jobs.{name}]\napp = '{APPS / app}'\nargs = {arguments}\noptions = {options}\n"
            f"profile = '{learned['profile']}'\nafter = {[*JOBS[:place]][-1:]}\n"
            for place, name in enumerate(JOBS)
        )
    )
    by = f"{len(JOBS) * deadline_for(learned['end_s']):.0f}s"
    refused = process_cluster.command("pipeline", "run", str(file), "--by", "1s", check=75)
    assert "the end of pipeline nightly in 1s cannot be met" in refused.stderr

    words = ("pipeline", "run", str(file), "--by", by)
    done = process_cluster.start(process_cluster.sparkpace().command(words)).finish().ok()
    assert "can be met" in done.out
    assert "all 3 jobs have ended" in done.err

    views = [view for view in process_cluster.views("link") if view.pipeline]
    assert [(view.pipeline, view.pipeline_job) for view in views] == [
        (f"nightly {place}/3", name) for place, name in enumerate(JOBS, 1)
    ]
    eventually(lambda: all(view.finished for view in process_cluster.views("link")), "their records")
    summaries = [read_summary(process_cluster.home.runs / view.application_id) for view in views]
    assert len({summary["pipeline"]["run"] for summary in summaries}) == 1
    for before, after in pairwise(summaries):
        # wall clocks are read a moment apart
        assert after["submitted_epoch_s"] > before["submitted_epoch_s"] + before["end_s"] - 1
        assert after["pipeline"]["by_s"] < before["pipeline"]["by_s"] - before["end_s"] + 1
    # alike jobs: a third of the time, half of what is left, and then all of it, whatever the first ones took of theirs
    shares = [summary["deadline_s"] / summary["pipeline"]["by_s"] for summary in summaries]
    assert shares == [pytest.approx(1 / 3, rel=0.15), pytest.approx(1 / 2, rel=0.15), pytest.approx(1.0)]


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
    process_cluster.command(*words, "--detach", "--name", "first", "--after", "nobody", *job)
    refused = process_cluster.command(*words, "--name", "second", "--after", "first", *job, check=75)
    assert "the end of pipeline whole, " in refused.stderr
    assert not process_cluster.views("second")
    process_cluster.command("kill", "first")
    eventually(lambda: all(view.finished for view in process_cluster.views("first")), "its record")

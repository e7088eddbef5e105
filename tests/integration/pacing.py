"""Facts of a job with a deadline that hold however fast the machine is. Experiments show how near a deadline is met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from controller.home import Home
from controller.runs.profile_store import ProfileStore
from controller.wire.worker import Sample

AIM_SHARE = 0.35
AIM = ("--conf", f"spark.pace.law.forecast.alpha={AIM_SHARE}")
"""Settings by which the law is to end a job after about a third of its deadline: a machine that is half as fast as it was is
no failure."""


def deadline_for(alone_s: float) -> float:
    """Return a deadline with which, under `AIM`, a job that takes `alone_s` with all cores is to end a bit later than
    that."""
    return 3 * alone_s + 20


def contest(alone_s: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options of two jobs that each take `alone_s` by themselves: one of low priority, late by half of that, so
    that it asks for all that it can use, and one of high priority with an easy deadline. Neither is refused on a machine that
    has become slower."""
    low = ("--name", "squeezed", "--priority", "low", "--deadline", f"{0.5 * alone_s:.1f}s", "--force")
    easy = f"{1.12 / AIM_SHARE * alone_s:.1f}s"
    return low, ("--name", "first", "--priority", "high", "--deadline", easy, *AIM, "--force")


def assert_paced(summary: dict[str, Any], samples: Iterable[Sample]) -> None:
    """Assert that the job held less than all cores, unless it had to hurry: it ended later than the law's aim, or its tasks
    took more than half of the time that was left until then when the first one began. A machine that is slow for some seconds
    leaves too little of a short job's time. If late, the law had asked for all that it can use."""
    took_s, deadline_s = summary["end_s"], summary["deadline_s"]
    assert summary["violated"] is (took_s > deadline_s)
    aim_s, begun_s = AIM_SHARE * deadline_s, summary["first_task_s"]
    hurried = took_s > aim_s or summary["last_task_s"] - begun_s > (aim_s - begun_s) / 2
    assert hurried or summary["allocated_core_s"] < summary["all_cores_core_s"]
    assert_late_only_with_all(summary["violated"], samples)


def assert_reported(home: Home, summary: dict[str, Any]) -> None:
    """Assert that the executors' reports through their driver have arrived: only by them an agent knows for which stage
    executors hold cores. Live progress shows it, too, but only if a sample comes in the middle of a stage."""
    profile = ProfileStore(home.profiles).load(summary["profile"])
    assert profile is not None
    [run] = [run for run in profile.runs if run.id == summary["app_id"]]
    assert any(stage.cores_s for stage in run.stages)


def assert_late_only_with_all(violated: bool, samples: Iterable[Sample]) -> None:
    """Assert that a deadline was missed only where the law had asked for a whole core or more of an executor with work to
    do."""
    assert not violated or any(sample.demand >= 1 for sample in samples if sample.progress)


def assert_unharmed(summary: dict[str, Any], application_id: str) -> None:
    """Assert that the job lost nothing, and taught."""
    assert summary["app_id"] == application_id
    assert (summary["end_reason"], summary["tasks_failed"], summary["executors_lost"]) == ("", 0, 0)
    assert summary["executors"] == 2
    assert summary["taught"] is True
    assert 0 < summary["used_core_s"] <= summary["allocated_core_s"] + 2


def assert_squeezed(summary: dict[str, Any], samples: Sequence[Sample], application_id: str) -> None:
    """Assert that the job had less than it asked for at times, and lost nothing."""
    assert_unharmed(summary, application_id)
    assert summary["withheld_core_s"] > 0
    assert any(s.demand > s.grant + 0.05 and s.quota > 0 for s in samples)
    assert all(s.grant >= 0.1 for s in samples if s.quota > 0), "a squeezed executor keeps its floor"

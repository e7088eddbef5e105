"""Figures of event logs that must agree with each other, whatever their programs did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest

from stage_model.forecast.curve import curve, reference_slots, whole
from stage_model.forecast.estimate import estimate
from stage_model.history.profile import RunRecord, profile
from tests.fakes.made_logs import decoded


def end_s(run: RunRecord, on: float) -> float:
    """Return the seconds that a plan from this run gives for that many cores."""
    known = profile("made", [run])
    return whole(estimate(known), max(reference_slots(known), math.ceil(on))).time_s(on)


def cpu_s(lines: Sequence[bytes]) -> float:
    """Return the CPU seconds of all tasks of a log. A task that is there twice counts once."""
    ends = [event for event in decoded(lines) if event["Event"] == "SparkListenerTaskEnd" and event["Task Metrics"]]
    by_task = {event["Task Info"]["Task ID"]: event["Task Metrics"].get("Executor CPU Time", 0) for event in ends}
    return math.fsum(by_task.values()) / 1e9


def check_more_cores_never_take_longer(run: RunRecord) -> None:
    """Compare each point of the curve with the next one."""
    points = curve(profile("made", [run]), run.slots, run.cores).points
    assert all(more.end_s <= fewer.end_s + 1e-9 for fewer, more in pairwise(points))


def check_cores_do_no_more_than_there_are(run: RunRecord, lines: Sequence[bytes]) -> None:
    """Compare each point of the curve with what its cores take for the CPU seconds."""
    points = curve(profile("made", [run]), run.slots, run.cores).points
    assert all(point.end_s >= (1 - 1e-9) * cpu_s(lines) / point.cores for point in points)


def check_the_same_work(one: RunRecord, other: RunRecord) -> None:
    """Compare the core-seconds of two runs of one program."""
    assert one.work_core_s == pytest.approx(other.work_core_s, rel=0.05)

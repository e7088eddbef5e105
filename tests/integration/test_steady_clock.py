"""The bridge's steady clock and listener in a JVM of their own, under a wall clock that a test sets; no Spark is started.

The harness (`java/SteadyClockHarness.java`) is compiled into the bridge's package and gets line by line what the clocks show.
Not covered: what the master does with the times (`tests/controller/master/test_clock_steps.py`).
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from controller.machine.proc import uptime

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000
ROUNDING_MS = 2
"""Wall clock and ticks are whole milliseconds."""


class Jvm:
    """Clocks that show what the test says, and the bridge's answers."""

    def __init__(self, classes: str) -> None:
        self.now_ms, self.set_by_ms = 0, 0
        command = ["java", "-cp", classes, "org.sparkpace.bridge.SteadyClockHarness"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def wall_ms(self) -> int:
        return START_MS + self.now_ms + self.set_by_ms

    def ask(self, *words: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line = [self.wall_ms, self.now_ms * 1_000_000, *words]
        self.process.stdin.write(" ".join(map(str, line)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def steady(self, stamp_ms: int, *latest_ms: int) -> int:
        """Return a stamp's steady time, counted from the start."""
        answer = self.ask("steady", stamp_ms, *(START_MS + ms for ms in latest_ms))
        return int(answer) - START_MS


@pytest.fixture
def jvm(classes: str) -> Iterator[Jvm]:
    started = Jvm(classes)
    assert started.ask("now") == START_MS
    yield started
    started.process.kill()
    started.process.communicate()


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, 500, -500])
def test_a_step_of_the_wall_clock_moves_no_stamp(jvm: Jvm, step_ms: int) -> None:
    jvm.now_ms = 5_000
    jvm.ask("look")
    before = jvm.wall_ms
    jvm.now_ms = 5_100
    jvm.set_by_ms = step_ms
    after = jvm.wall_ms
    jvm.now_ms = 5_200
    assert jvm.steady(before) == pytest.approx(5_000, abs=ROUNDING_MS), "stamped before the step, reported after it"
    assert jvm.steady(after) == pytest.approx(5_100, abs=ROUNDING_MS)
    assert jvm.ask("now") == START_MS + 5_200


def a_long_task(jvm: Jvm) -> int:
    """Launch a task after a minute, and end it two hours after a step back by one; return the stamp of its launch."""
    jvm.now_ms = 60_000
    jvm.ask("look")
    launched = jvm.wall_ms
    jvm.now_ms = 120_000
    jvm.set_by_ms = -HOUR_MS
    jvm.ask("look")
    jvm.now_ms += 2 * HOUR_MS  # by now the stamp of the launch could be one of after the step, too
    return launched


def test_a_long_tasks_launch_is_distinguished_from_a_later_moment_by_its_run_time(jvm: Jvm) -> None:
    launched = a_long_task(jvm)
    finish = jvm.steady(jvm.wall_ms)
    assert jvm.steady(launched, finish - 2 * HOUR_MS) == pytest.approx(60_000, abs=ROUNDING_MS)


def test_the_event_of_a_long_tasks_end_has_its_launch_by_its_run_time(jvm: Jvm) -> None:
    launched = a_long_task(jvm)
    (task,) = [event for event in jvm.ask("end", launched, jvm.wall_ms, 2 * HOUR_MS) if event["type"] == "task_end"]
    assert task["run_ms"] == 2 * HOUR_MS
    assert task["launch_ms"] - START_MS == pytest.approx(60_000, abs=ROUNDING_MS)
    assert task["finish_ms"] - START_MS == pytest.approx(120_000 + 2 * HOUR_MS, abs=ROUNDING_MS)


def test_however_the_wall_clock_is_set_fresh_stamps_are_placed_to_the_gap_between_two_looks(jvm: Jvm) -> None:
    draw = random.Random(7)
    for _ in range(400):
        step_ms = draw.choice([0, HOUR_MS, -HOUR_MS, draw.randint(-5_000, 5_000)])
        before = draw.random() < 0.5
        gap_ms = draw.randint(1, 200)
        at = draw.randint(0, gap_ms)
        jvm.now_ms += at
        jvm.set_by_ms += step_ms if before else 0
        stamped_ms, stamp = jvm.now_ms, jvm.wall_ms
        jvm.now_ms += gap_ms - at
        jvm.set_by_ms += 0 if before else step_ms
        assert jvm.steady(stamp) == pytest.approx(stamped_ms, abs=200 + ROUNDING_MS)


def test_a_stamp_of_a_clock_that_was_never_seen_is_a_moment_old(jvm: Jvm) -> None:
    jvm.now_ms, jvm.set_by_ms = 1_000, -HOUR_MS
    stamp = jvm.wall_ms
    jvm.set_by_ms = 0
    jvm.now_ms = 1_200
    assert jvm.steady(stamp) == 1_200


def test_a_thread_put_aside_between_two_readings_sees_no_step(jvm: Jvm) -> None:
    jvm.now_ms = 1_000
    assert jvm.ask("paused", 300) == START_MS + 1_000, "300 ms pass between each two readings of the clocks"


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_every_time_of_every_event_is_steady(jvm: Jvm, step_ms: int) -> None:
    jvm.now_ms = 10_000
    begun = jvm.wall_ms
    jvm.ask("begin", begun)
    jvm.now_ms = 12_000
    jvm.ask("look")
    jvm.set_by_ms = step_ms
    jvm.now_ms = 14_000
    events = jvm.ask("end", begun, jvm.wall_ms)
    times = {
        (event["type"], key): value - START_MS
        for event in events
        for key, value in event.items()
        if key in ("time_ms", "launch_ms", "finish_ms")
    }
    assert times == {
        ("job_start", "time_ms"): 10_000,
        ("stage_submitted", "time_ms"): 10_000,
        ("executor_added", "time_ms"): 10_000,
        ("task_end", "launch_ms"): 10_000,
        ("task_end", "finish_ms"): 14_000,
        ("stage_completed", "time_ms"): 14_000,
        ("job_end", "time_ms"): 14_000,
        ("executor_removed", "time_ms"): 14_000,
        ("application_end", "time_ms"): 14_000,
    }
    assert events[0]["wall_ms"] == begun


def test_the_age_since_a_submission_is_the_machines_own(jvm: Jvm) -> None:
    now = uptime()
    assert 0 <= jvm.ask("since", now) < 60_000
    seconds, _, boot = now.partition("@")
    assert 7_000 <= jvm.ask("since", f"{float(seconds) - 7:.2f}@{boot}") < 67_000
    for other in (f"{seconds}@another-boot", f"x@{boot}", seconds, "@"):
        assert jvm.ask("since", other) == -1

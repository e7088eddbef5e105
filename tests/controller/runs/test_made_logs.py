"""Plans from event logs of every kind, each against what its program takes by simple arithmetic, and what has to be said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from controller.cli.main import main
from controller.wire.command import PlanReply
from tests.fakes.made_logs import MadeExecutor, MadeJob, MadeStage, Threads, decoded, encoded, made_log

MAPS, REDUCES = MadeStage(8, 10_000), MadeStage(8, 10_000, parents=(0,))
TWO_STAGES = [[MadeJob((MAPS, REDUCES))]]
"""A log that takes 51 s on four cores: ten of start-up, twenty for each stage, and one at the end."""
FOUR = [MadeExecutor(4)]
Events = list[dict[str, Any]]
Change = Callable[[Events], Events]


def unchanged(events: Events) -> Events:
    return events


def without_ends(count: int, stage: int) -> Change:
    """Return a change that removes the ends of the first `count` tasks of that stage."""

    def change(events: Events) -> Events:
        ends = [event for event in events if event["Event"].endswith("TaskEnd") and event["Stage ID"] == stage]
        return [event for event in events if not any(event is end for end in ends[:count])]

    return change


def without_end_of_stage(events: Events) -> Events:
    return [e for e in events if not (e["Event"].endswith("StageCompleted") and e["Stage Info"]["Stage ID"] == 0)]


def without_submission_times(events: Events) -> Events:
    submitted = [event["Stage Info"] for event in events if event["Event"].endswith("StageSubmitted")]
    for info in submitted:
        del info["Submission Time"]
    return events


def twice_ended(events: Events) -> Events:
    """Add the good end of a speculative copy of the first task."""
    first = next(number for number, event in enumerate(events) if event["Event"].endswith("TaskEnd"))
    return [*events[: first + 1], events[first], *events[first + 1 :]]


def metrics_changed(**fields: int | None) -> Change:
    """Return a change that gives each task other metrics, or removes them (None)."""

    def change(events: Events) -> Events:
        for event in events:
            metrics = event.get("Task Metrics")
            if metrics:
                metrics.update({name.replace("_", " "): value for name, value in fields.items()})
                event["Task Metrics"] = {name: value for name, value in metrics.items() if value is not None}
        return events

    return change


@dataclass(frozen=True)
class Case:
    """A case. `ends`: seconds by cores. `works`: core-seconds of each stage. `told`: a part of each sentence."""

    threads: Threads
    ends: dict[int, float]
    works: tuple[float, ...] = ()
    executors: Sequence[MadeExecutor] = field(default_factory=lambda: FOUR)
    change: Change = unchanged
    told: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    "plain": Case(TWO_STAGES, {4: 51, 2: 91, 1: 171}, (80, 80)),
    "one executor of each core": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), executors=[MadeExecutor(1)] * 4),
    # maps are done until 30 s, four reducers until 40 s, four maps again until 50 s, and the other reducers until 60 s
    "retried": Case(
        [[MadeJob((MAPS, MadeStage(8, 10_000, parents=(0,), lost=(4, 4))))]],
        {4: 61, 2: 111, 1: 211},
        (120, 80),
        told=("2 stages (first stage 0) needed more than one attempt, because output was lost",),
    ),
    "no CPU time": Case(
        TWO_STAGES,
        {4: 51, 2: 91},
        (80, 80),
        options={"with_cpu": False},
        told=("2 stages (first stage 0) without the CPU time of tasks (Executor CPU Time)",),
    ),
    "CPU times of 0": Case(
        TWO_STAGES,
        {4: 51, 2: 91},
        (80, 80),
        change=metrics_changed(Executor_CPU_Time=0),
        told=("2 stages (first stage 0) without the CPU time of tasks (Executor CPU Time)",),
    ),
    # 40 core-seconds for each stage, and ten seconds in which its tasks wait
    "half of the time computed": Case(
        [[MadeJob((MadeStage(8, 10_000, cpu=0.5), MadeStage(8, 10_000, parents=(0,), cpu=0.5)))]], {4: 51, 2: 71}, (40, 40)
    ),
    "some ends of tasks lost": Case(
        TWO_STAGES,
        {4: 51, 2: 91},
        (80, 80),
        change=without_ends(3, stage=1),
        told=("1 stage (first stage 1) with fewer ends of tasks than tasks",),
    ),
    "an end of a stage lost": Case(
        TWO_STAGES, {4: 51}, (80, 80), change=without_end_of_stage, told=("1 stage (first stage 0) without an end",)
    ),
    "speculative": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), change=twice_ended),
    # two cores for 40 s, then eight for ten
    "grown": Case(
        [[MadeJob((MadeStage(16, 10_000),))]],
        {8: 31, 4: 51, 2: 91},
        (160,),
        executors=[MadeExecutor(2), MadeExecutor(6, comes_ms=50_000)],
        told=("executors came or went: 2 to 8 cores were there",),
    ),
    # eight cores for 20 s, and after a pause of 30 s two for 80 s
    "shrunk": Case(
        [[MadeJob((MadeStage(16, 10_000),)), MadeJob((MadeStage(16, 10_000),), pause_ms=30_000)]],
        {8: 81, 4: 121, 2: 201},
        (160, 160),
        executors=[MadeExecutor(2), MadeExecutor(6, leaves_ms=35_000)],
        told=("executors came or went: 2 to 8 cores were there",),
    ),
    # at 22 s an executor dies with two tasks, which begin again at 30 s; the loss is in the plan, too
    "lost an executor": Case(
        [[MadeJob((MadeStage(8, 10_000),))]],
        {4: 41},
        (80,),
        executors=[MadeExecutor(2), MadeExecutor(2, dies_ms=22_000)],
        told=("executors came or went: 2 to 4 cores were there",),
    ),
    "an executor that comes in the first tasks' time": Case(
        [[MadeJob((MadeStage(8, 10_000),))]], {4: 33}, (80,), executors=[MadeExecutor(2), MadeExecutor(2, comes_ms=12_000)]
    ),
    # first four tasks of one job, then four of the other
    "threads": Case([[MadeJob((MadeStage(4, 10_000),))], [MadeJob((MadeStage(4, 10_000),))]], {4: 31, 2: 51}, (40, 40)),
    # the second job of the first thread waits for the rest of the other thread's, which was there before
    "threads that pause": Case(
        [[MadeJob((MadeStage(4, 10_000),)), MadeJob((MadeStage(4, 10_000),), pause_ms=5_000)], [MadeJob((MAPS,))]],
        {4: 51},
        (40, 80, 40),
    ),
    "many short jobs": Case([[MadeJob((MadeStage(4, 100),), pause_ms=300)] * 30], {4: 23, 2: 26}, (0.4,) * 30),
    "many tasks": Case([[MadeJob((MadeStage(800, 500),))]], {4: 111, 1: 411}, (400,)),
    "branches": Case(
        [[MadeJob((MadeStage(4, 10_000), MadeStage(4, 10_000), MadeStage(2, 5_000, parents=(0, 1))))]],
        {4: 36, 2: 56},
        (40, 40, 10),
    ),
    # on one slot each the two short stages follow each other while the long one runs
    "a chain during a long stage": Case(
        [[MadeJob((MadeStage(1, 10_000), MadeStage(1, 5_000), MadeStage(1, 10_000, parents=(1,))))]], {4: 26}, (10, 5, 10)
    ),
    "a job that failed": Case(
        [[MadeJob((MadeStage(1, 1_000),), fails=True), MadeJob((MAPS, REDUCES))]], {4: 52, 2: 92}, (0, 80, 80)
    ),
    "tasks of two cores": Case(TWO_STAGES, {2: 91}, (80, 80), options={"task_cpus": 2}),
    "old and known": Case(TWO_STAGES, {4: 51}, (80, 80), options={"version": "2.3.4"}),
}


def plan(folder: Path, case: Case, *options: str) -> Result:
    log = folder / "log"
    log.write_bytes(b"".join(encoded(case.change(decoded(made_log(case.threads, case.executors, **case.options))))))
    return CliRunner().invoke(main, ["plan", str(log), "--output", "json", *options], prog_name="sparkpace")


@pytest.mark.parametrize("name", CASES)
def test_a_plan_from_a_log_has_the_figures_of_its_program_and_says_what_the_log_lacks(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    for number, (cores, end_s) in enumerate(case.ends.items()):
        answer = plan(tmp_path, case, *(["--cores", str(cores)] if number else []))
        assert answer.exit_code == 0, answer.output
        reply = msgspec.json.decode(answer.stdout, type=PlanReply)
        assert reply.cluster_cores == cores
        assert reply.least_deadline_s == pytest.approx(end_s, rel=0.005)
        assert [stage.work_core_s for stage in reply.stages] == pytest.approx(list(case.works))
        sentences = answer.stderr.splitlines()
        assert len(sentences) == len(case.told), sentences
        assert all(part in sentence for part, sentence in zip(case.told, sentences, strict=True))


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        (Case(TWO_STAGES, {}, options={"version": "2.2.1"}), "is of Spark 2.2.1, and event logs of Spark 2.2 and older do"),
        (Case(TWO_STAGES, {}, change=without_submission_times), "tells of no stage when it was submitted (Submission Time)"),
        (Case(TWO_STAGES, {}, change=metrics_changed(Executor_Run_Time=None)), "of no task that ended well with its run"),
    ],
)
def test_a_log_that_tells_too_little_is_refused_with_the_true_reason(case: Case, sentence: str, tmp_path: Path) -> None:
    answer = plan(tmp_path, case)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert sentence in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize(("name", "learned"), [("plain", True), ("retried", True), ("grown", True), ("no CPU time", False)])
def test_what_a_log_says_besides_is_said_when_it_teaches(name: str, learned: bool, tmp_path: Path) -> None:
    plan(tmp_path, CASES[name])  # writes the log
    words = ["profile", "learn", "--home", str(tmp_path / "home"), str(tmp_path / "log")]
    answer = CliRunner().invoke(main, words, prog_name="sparkpace")
    assert answer.exit_code == (0 if learned else 2)
    assert all(part in answer.stderr for part in CASES[name].told)
    if not learned:
        return
    words = ["profile", "show", "--home", str(tmp_path / "home"), "made@program.py", "--output", "json"]
    [run] = json.loads(CliRunner().invoke(main, words).stdout)["runs"]
    assert [stage["teaches"] for stage in run["stages"]] == [name != "retried"] * len(CASES[name].works)
    words = ["profile", "curve", "--home", str(tmp_path / "home"), "made@program.py", "--output", "json"]
    points = json.loads(CliRunner().invoke(main, words).stdout)["points"]
    assert points[-1]["end_s"] == pytest.approx(next(iter(CASES[name].ends.values())), rel=0.005)

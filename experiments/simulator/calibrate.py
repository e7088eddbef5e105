"""The accuracy of the simulator on recorded runs: the run as a virtual job, under the same law, compared.

    python -m experiments.simulator.calibrate ~/.sparkpace/runs/pace-... [--taught-by RUN] [--task-cv 0.2]

The program prints a table of end, allocated and used core-seconds, real and simulated; with `--clairvoyant`, a table of how
near to its deadline each run would have ended if its work had been known beforehand.

Works of stages are the growth of container CPU while they ran, their waits are the part of their duration that this work does
not explain on the cores they had. A run folder does not have two things: how unlike tasks are (`task_cv`), and the profile
that the law had; that is another run's, best the one that taught it, else the run itself.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from controller.master.core.summary import use_between
from controller.runs.run_folder import read_samples, read_stages, read_summary
from controller.wire.course import StageCourse
from controller.wire.worker import Sample
from experiments.harness.markdown import table
from experiments.simulator.jobs import SimJob, SimStage, log_normal
from experiments.simulator.state import Effects
from experiments.simulator.trials import SimCluster, TrialResult, known, oracle, run
from stage_model.errors import BadInput, PaceError
from stage_model.forecast.virtual_time import Forecast, stages_busy
from stage_model.history.profile import Profile

REPLAY = Effects(latency_s=0.05)
"""Warm-up is in the recorded works already; executors are launched when the recorded ones took their first task."""
TASK_CV = 0.2
TOGETHER_S = 0.05
"""Seconds: a stage that ended this shortly after another began may still be one that it waited for, because clocks of events
are coarse."""
FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run folder's content."""

    summary: Mapping[str, Any]
    samples: Sequence[Sample]
    stages: Sequence[StageCourse]

    @property
    def cluster(self) -> SimCluster:
        """The run's cluster, with all workers alike."""
        executors = max(1, int(self.summary["executors"]))
        cores = float(self.summary["cluster_cores"]) / executors
        return SimCluster(executors, max(1, math.ceil(cores)), cores)

    @property
    def first_task_s(self) -> float:
        """Seconds after submission until which executors started: the CPU of that time is no task's."""
        return float(self.summary.get("first_task_s") or 0.0)

    @property
    def effects(self) -> Effects:
        return replace(REPLAY, launch_s=self.first_task_s)


@dataclass(frozen=True, slots=True)
class Compared:
    """Real and simulated seconds after submission and core-seconds from the first to the last task."""

    app_id: str
    law: str
    deadline_s: float | None
    real: tuple[float, float, float]
    simulated: tuple[float, float, float]

    @property
    def errors_pct(self) -> tuple[float, float, float]:
        """Errors of end, allocated and used: simulated beyond real."""
        end, allocated, used = (100 * (s / r - 1) for s, r in zip(self.simulated, self.real, strict=True))
        return end, allocated, used


def read_recorded(folder: Path) -> Recorded:
    """Read a run folder. Raise `BadInput` for a folder without stages, samples or an ended run."""
    found = Recorded(read_summary(folder), read_samples(folder), read_stages(folder))
    if not found.samples or not found.summary.get("used_core_s") or not any(s.end_s for s in found.stages):
        raise BadInput(f"{folder} is no run that can be replayed; name the folder of one that ended with stages and samples")
    return found


def to_job(recorded: Recorded, task_cv: float = TASK_CV, seed: int = 0) -> SimJob:
    """Return the virtual job that does what the run did. Works of tasks are drawn around each stage's mean, scaled to its
    work."""
    rng = random.Random(seed)
    spans = sorted((s for s in recorded.stages if s.end_s is not None and s.tasks), key=lambda s: s.start_s)
    works = works_of(recorded, spans)
    waits = _waits(recorded, spans, works, task_cv)
    stages = []
    for place, (span, work) in enumerate(zip(spans, works, strict=True)):
        draws = [log_normal(rng, 1.0, task_cv) for _ in range(span.tasks)]
        parents = tuple(
            n for n, p in enumerate(spans[:place]) if p.end_s is not None and p.end_s <= span.start_s + TOGETHER_S
        )
        ready_s = max((spans[n].end_s or 0.0 for n in parents), default=spans[0].start_s)
        stages.append(
            SimStage(
                works=tuple(max(1e-3, work) * draw / math.fsum(draws) for draw in draws),
                wait_s=waits[place],
                records=float(1000 * span.tasks),
                gap_s=max(0.0, span.start_s - ready_s),
                parents=parents,
            )
        )
    tail_s = max(0.0, float(recorded.summary["end_s"]) - max(s.end_s or 0.0 for s in spans))
    return SimJob(tuple(stages), spans[0].start_s, tail_s, str(recorded.summary["name"]))


def _waits(recorded: Recorded, spans: Sequence[StageCourse], works: Sequence[float], task_cv: float) -> list[float]:
    """Return the seconds that each task waits, by stage: the part of the time of overlapping stages that their work does not
    explain, with the cores they held, spread over their waves."""
    cluster = recorded.cluster
    slots = cluster.executors * cluster.slots
    waits, group, until_s = [0.0] * len(spans), [0], spans[0].end_s or 0.0
    for place in range(1, len(spans) + 1):
        if place < len(spans) and spans[place].start_s < until_s - TOGETHER_S:
            group.append(place)
            until_s = max(until_s, spans[place].end_s or 0.0)
            continue
        begun_s = max(spans[group[0]].start_s, recorded.first_task_s)
        held = use_between(recorded.samples, begun_s, until_s).allocated_core_s / max(until_s - begun_s, 1e-3)
        busy = stages_busy(tuple([(spans[n].tasks, works[n], task_cv) for n in group]), slots)
        explained_s = Forecast(busy, speed_limit=min(1.0, cluster.cores)).time_s(max(held, 1e-3))
        waves = math.ceil(sum(spans[n].tasks for n in group) / slots)
        for n in group:
            waits[n] = max(0.0, until_s - begun_s - explained_s) / waves
        if place < len(spans):
            group, until_s = [place], spans[place].end_s or 0.0
    return waits


def works_of(recorded: Recorded, spans: Sequence[StageCourse]) -> list[float]:
    """Return the container CPU of each stage; where stages overlap it is shared by their tasks."""
    works = [0.0] * len(spans)
    first_s = recorded.first_task_s
    cuts = sorted({max(first_s, time_s) for s in spans for time_s in (s.start_s, s.end_s) if time_s is not None})
    for from_s, to_s in pairwise(cuts):
        under_way = [n for n, s in enumerate(spans) if s.start_s <= from_s and (s.end_s or 0.0) >= to_s]
        tasks = sum(spans[n].tasks for n in under_way)
        used = use_between(recorded.samples, from_s, to_s).used_core_s
        for n in under_way:
            works[n] += used * spans[n].tasks / tasks
    return works


def replayed(recorded: Recorded, job: SimJob, profile: Profile, seed: int) -> TrialResult:
    """Return the run's job under its law with this profile."""
    summary = recorded.summary
    return run(
        job,
        recorded.cluster,
        summary["deadline_s"],
        law=summary["law"],
        settings=summary["settings"],
        profile=profile,
        effects=recorded.effects,
        seed=seed,
    )


def taught(teacher: Recorded, task_cv: float, seed: int) -> Profile:
    return known(to_job(teacher, task_cv, seed + 1), teacher.cluster, effects=teacher.effects, seed=seed)


def compare(recorded: Recorded, taught_by: Recorded | None = None, task_cv: float = TASK_CV, seed: int = 0) -> Compared:
    """Replay the run under its law, with the profile that `taught_by` (None: the run itself) gives."""
    summary = recorded.summary
    out = replayed(recorded, to_job(recorded, task_cv, seed), taught(taught_by or recorded, task_cv, seed), seed)
    return Compared(
        str(summary["app_id"]),
        str(summary["law"]),
        summary["deadline_s"],
        (float(summary["end_s"]), float(summary["allocated_core_s"]), float(summary["used_core_s"])),
        (out.end_s, out.allocated_core_s, out.used_core_s),
    )


@dataclass(frozen=True, slots=True)
class Foreknown:
    """The distance of a run's end from its deadline, in percent of it, real and in the simulator: under its law with the
    profile that it had, under its law with a profile of this very run, and with the best constant cores, chosen with full
    knowledge."""

    app_id: str
    name: str
    deadline_s: float
    real: float
    taught: float
    own: float
    constant: float


def foreknown(recorded: Recorded, taught_by: Recorded, task_cv: float = TASK_CV, seed: int = 0) -> Foreknown:
    """Return the run's errors. Raise `BadInput` for a run without a deadline."""
    summary, deadline_s = recorded.summary, recorded.summary["deadline_s"]
    if deadline_s is None:
        raise BadInput(f"run {summary['app_id']} had no deadline; name runs that had one")
    job = to_job(recorded, task_cv, seed)
    own = known(job, recorded.cluster, effects=recorded.effects, seed=seed)
    outcomes = (
        replayed(recorded, job, taught(taught_by, task_cv, seed), seed),
        replayed(recorded, job, own, seed),
        oracle(job, recorded.cluster, deadline_s, effects=recorded.effects, seed=seed),
    )
    errors = [out.error_pct(deadline_s) for out in outcomes]
    return Foreknown(str(summary["app_id"]), str(summary["name"]), deadline_s, float(summary["error_pct"]), *errors)


def foreknown_table(found: Sequence[Foreknown]) -> str:
    """Return Markdown, one row a run, and the means of the errors' sizes."""
    heading = ("run", "application", "deadline s", "real: error %", "replayed", "profile of the very run", "constant, known")
    errors = [(one.real, one.taught, one.own, one.constant) for one in found]
    rows = [
        (one.app_id, one.name, f"{one.deadline_s:.1f}", *(f"{error:+.2f}" for error in of))
        for one, of in zip(found, errors, strict=True)
    ]
    means = [f"{statistics.fmean(map(abs, column)):.2f}" for column in zip(*errors, strict=True)]
    return "\n".join(table(heading, [*rows, ("mean size", "", "", *means)]))


def runs_table(found: Sequence[Compared]) -> str:
    """Return Markdown, one row a run."""
    heading = ("run", "law", "deadline s", "end s", "simulated", "error %", "allocated", "error %", "used", "error %")
    rows = []
    for one in found:
        end, allocated, used = (f"{error:+.2f}" for error in one.errors_pct)
        deadline = "-" if one.deadline_s is None else f"{one.deadline_s:.1f}"
        ends = (f"{seconds:.1f}" for seconds in (one.real[0], one.simulated[0]))
        rows.append((one.app_id, one.law, deadline, *ends, end, f"{one.real[1]:.1f}", allocated, f"{one.real[2]:.1f}", used))
    return "\n".join(table(heading, rows))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", nargs=-1, required=True, type=FOLDER)
@click.option("--taught-by", type=FOLDER, help="The run that taught the law's profile [default: each run itself].")
@click.option("--task-cv", type=click.FloatRange(min=0), default=TASK_CV, show_default=True, help="How unlike tasks are.")
@click.option(
    "--clairvoyant", is_flag=True, help="Show how close to its deadline each run would end if its work were known beforehand."
)
def main(runs: tuple[Path, ...], taught_by: Path | None, task_cv: float, *, clairvoyant: bool) -> None:
    """Replay recorded runs in the simulator and compare."""
    teacher = read_recorded(taught_by) if taught_by else None
    if clairvoyant:
        recorded = [read_recorded(folder) for folder in runs]
        click.echo(foreknown_table([foreknown(one, teacher or one, task_cv) for one in recorded]))
        return
    click.echo(runs_table([compare(read_recorded(folder), teacher, task_cv) for folder in runs]))


if __name__ == "__main__":
    try:
        main(prog_name="python -m experiments.simulator.calibrate")
    except PaceError as error:
        click.echo(f"experiments: {error}", err=True)
        sys.exit(error.exit_code)

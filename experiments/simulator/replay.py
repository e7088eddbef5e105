"""A recorded run once more in virtual time: in a closed loop, where the production code decides again, or with the cores that
the run had.

The run's record becomes a virtual job with the same stages, jobs, works, gaps and waits (`replayed_job`). The production
plans this job by the profile that the run had. The signatures of both are made again by the same rules, because a record does
not hold their parts. Not covered: making recorded runs of run folders (`recorded_run`), limits of the difference (tests).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from experiments.simulator.engine import Engine
from experiments.simulator.fixed import Fixed
from experiments.simulator.jobs import SimJob, SimStage, SparkJob
from experiments.simulator.pacing import Pacing
from experiments.simulator.recorded_run import RecordedRun
from experiments.simulator.state import App, Effects, SimExecutor, SimSubmission, SimWorker, Task, workers
from experiments.simulator.trials import TrialResult, outcome
from stage_model.forecast.fixed import fixed_times, modelled_s
from stage_model.forecast.overlap import overlapping
from stage_model.forecast.virtual_time import task_works
from stage_model.history.events import StageInfo
from stage_model.history.profile import Profile, RunRecord, StageRecord, profile
from stage_model.history.signature import Signatures, kind

LATENCY_S = 0.05
"""The latency of `state.REAL`. Its warm-up and background are left out, because the recorded works contain them. The CPU that
a run used outside its stages, most of it for the start of its executors, is used at the launch."""
LEAST_WORK = 1e-4
"""Core-seconds of a stage that was too short to measure."""
DEADLINE = "spark.pace.deadline"


def _infos(record: RunRecord) -> list[StageInfo]:
    """Return Spark's descriptions of the stages. The recorded shape, or the structure of a stage with one, stands for the
    operators. Only parents of the same job are named: others were skipped, and their shape is in the recorded one."""
    places = {stage.signature: place for place, stage in enumerate(record.stages)}
    infos = []
    for place, stage in enumerate(record.stages):
        parents = tuple(p for p in (places[one] for one in stage.parents) if record.stages[p].job == stage.job)
        infos.append(StageInfo(stage=place, name=stage.name, tasks=stage.tasks, parents=parents, scopes=_scopes(stage)))
    return infos


def _scopes(stage: StageRecord) -> tuple[str, ...]:
    return (f"PythonRDD {stage.structure}",) if stage.structure else (kind(stage.signature),)


def named_again(record: RunRecord) -> RunRecord:
    """Return the record with the signatures that its replay would get."""
    signatures = Signatures()
    infos = _infos(record)
    new = {old.signature: signatures.submitted(info) for old, info in zip(record.stages, infos, strict=True)}
    stages = (
        structs.replace(
            stage,
            signature=new[stage.signature],
            structure=signatures.structure(place),
            parents=tuple(new[parent] for parent in stage.parents),
        )
        for place, stage in enumerate(record.stages)
    )
    return structs.replace(record, stages=tuple(stages))


def replayed_job(run: RecordedRun, seed: int = 0) -> SimJob:
    """Return the virtual job that does what the run did. `seed` draws the order of a stage's tasks."""
    record, rng = run.record, random.Random(seed)
    places = {stage.signature: place for place, stage in enumerate(record.stages)}
    alone = {group[0].signature for group in overlapping(record.stages) if len(group) == 1}
    fixed = fixed_times(record)
    stages, jobs = list[SimStage](), dict[int, list[int]]()
    for place, (stage, info) in enumerate(zip(record.stages, _infos(record), strict=True)):
        parents = tuple(sorted(places[parent] for parent in stage.parents))
        ready_s = max((record.stages[p].start_s + record.stages[p].duration_s for p in parents), default=record.startup_s)
        overlap_s = None if stage.signature in alone else fixed[stage.signature]
        works, wait_s = _tasks(stage, record, _cores(stage, run), _lasted_s(stage, run), overlap_s)
        rng.shuffle(works)
        jobs.setdefault(stage.job, []).append(place)
        stages.append(
            SimStage(
                tuple(works),
                wait_s=wait_s,
                records=float(stage.records) or None,
                gap_s=max(0.0, stage.start_s - ready_s),
                parents=parents,
                name=info.name,
                scopes=info.scopes,
                amounts=stage.amounts,
            )
        )
    return SimJob(tuple(stages), record.startup_s, record.tail_s, record.name, tuple(_jobs(run, jobs)))


def _tasks(
    stage: StageRecord, record: RunRecord, cores: float, duration_s: float, overlap_s: float | None
) -> tuple[list[float], float]:
    """Return the works of a stage's tasks, and the seconds that each task waits. The stage waits for the part of its time
    that its work does not explain with the cores that it had; where other stages ran next to it, for `overlap_s`. Where the
    work explains more than its time, a part of that work was another stage's."""
    works = task_works(stage.tasks, max(LEAST_WORK, stage.work_core_s) / stage.tasks, stage.task_cv)
    computes_s = modelled_s((stage.tasks, math.fsum(works), stage.task_cv), cores, record.cores, record.slots)
    waves = math.ceil(stage.tasks / record.slots)
    if overlap_s is not None:
        return works, overlap_s / waves
    if computes_s > duration_s > 0:
        return [work * duration_s / computes_s for work in works], 0.0
    return works, (duration_s - computes_s) / waves


def _lasted_s(stage: StageRecord, run: RecordedRun) -> float:
    """Return the seconds that the stage lasted from the first task of the run on."""
    return max(0.0, stage.start_s + stage.duration_s - max(stage.start_s, run.first_task_s))


def _cores(stage: StageRecord, run: RecordedRun) -> float:
    """Return the cores that the stage had, on average. In a run without a deadline each stage had all cores, though samples
    say a little less."""
    most, lasted_s = run.record.cores, _lasted_s(stage, run)
    return min(most, stage.cores_s / lasted_s) if run.deadline_s is not None and stage.cores_s and lasted_s else most


def _jobs(run: RecordedRun, places: dict[int, list[int]]) -> list[SparkJob]:
    found = []
    for ordinal, here in places.items():
        sql = run.record.stages[here[0]].sql
        found.append(
            SparkJob(
                tuple(here),
                sql=None if sql is None or ordinal in run.inherited else str(sql),
                properties=_conf(run) if ordinal in run.inherited else {},
                cancelled=ordinal in run.cancelled,
            )
        )
    return found


def _conf(run: RecordedRun) -> dict[str, str]:
    return {} if run.deadline_s is None else {DEADLINE: f"{run.deadline_s}s"}


def _cluster(run: RecordedRun) -> Sequence[SimWorker]:
    """Return the workers of equal size, one for each executor."""
    return workers(run.executors, run.cluster_cores / run.executors, run.record.slots // run.executors)


def _submission(run: RecordedRun, seed: int) -> SimSubmission:
    return SimSubmission(
        replayed_job(run, seed),
        deadline_s=run.deadline_s,
        law=run.law,
        settings=dict(run.settings),
        conf=_conf(run),
        arguments=run.record.arguments,
    )


def _effects(run: RecordedRun) -> Effects:
    record = run.record
    other_core_s = (record.used_core_s or 0.0) - math.fsum(stage.work_core_s for stage in record.stages)
    launch_core_s = max(0.0, other_core_s) / run.executors
    return Effects(latency_s=LATENCY_S, launch_s=run.first_task_s, launch_core_s=launch_core_s)


def profile_before(run: RecordedRun) -> Profile | None:
    """Return the profile that the run had, with the signatures that stages have in the replay."""
    return profile(run.record.name, map(named_again, run.before)) if run.before else None


def closed_loop(run: RecordedRun, seed: int = 0, known: Profile | None = None) -> TrialResult:
    """Run the job again under the production code, with the profile that the run had, or with `known`."""
    what = known or profile_before(run)
    pacing = Pacing({run.record.name: what} if what else {})
    app = Engine(_cluster(run), [_submission(run, seed)], pacing, effects=_effects(run), seed=seed).run()[0]
    return outcome(app, pacing)


@dataclass(slots=True)
class _Given(Fixed):
    """A control that gives stages the cores that they had in the recorded run, shared by the executors that run them."""

    cores: Sequence[float] = ()

    def stage_submitted(self, app: App, stage: int) -> None:
        self._give(app)

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        self._give(app)

    def _give(self, app: App) -> None:
        assert self.engine
        last = list(app.stage_starts_s)[-1]
        busy = [executor for executor in app.live if executor.tasks]
        share = len(busy) or min(len(app.live), len(app.job.stages[last].works))
        for executor in busy or app.live:
            self.engine.set_quota(executor, self.cores[last] / share)


def _together(run: RecordedRun) -> list[float]:
    """Return, for each stage, the cores that it and the stages next to it had together, on average."""
    found = {}
    for group in overlapping(run.record.stages):
        lasted_s = max(stage.start_s + stage.duration_s for stage in group) - max(group[0].start_s, run.first_task_s)
        held = math.fsum(_cores(stage, run) * _lasted_s(stage, run) for stage in group)
        for stage in group:
            found[stage.signature] = min(run.record.cores, held / lasted_s) if lasted_s > 0 else run.record.cores
    return [found[stage.signature] for stage in run.record.stages]


def open_loop(run: RecordedRun, seed: int = 0) -> TrialResult:
    """Run the job again with the cores that each stage had."""
    control = _Given(lambda worker: worker.cores, cores=_together(run))
    effects = Effects(launch_s=run.first_task_s)
    return outcome(Engine(_cluster(run), [_submission(run, seed)], control, effects=effects, seed=seed).run()[0])

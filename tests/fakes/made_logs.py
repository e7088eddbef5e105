"""Event logs of made-up applications: what Spark writes of a program whose threads run jobs, on executors that come and go.

All tasks of a stage are alike (but for its last one, where that is `long_ms`), so how long a run takes with any number of
cores follows from simple arithmetic. Slots go to the earliest job's tasks first, of one job to the earliest stage's, as in
Spark's FIFO. Times are milliseconds after the submission.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

EPOCH_MS = 1_800_000_000_000
FIRST_JOB_MS = 10_000
TAIL_MS = 1_000
BIRTH_MS = 5_000


@dataclass(frozen=True)
class MadeStage:
    """A stage. `parents` are places in its job; a task computes for the share `cpu` of `task_ms`. `lost` (ended, again): when
    the first number of its tasks has ended, a fetch fails, and the second number of tasks of its first parent is done again
    before the others of its own. In a job at most one stage may lose its input. The first `failing` tasks fail once. A stage
    that is `skipped` was done before. Tasks run on executors of the stage's resource `profile`."""

    tasks: int
    task_ms: int
    parents: tuple[int, ...] = ()
    cpu: float = 1.0
    lost: tuple[int, int] | None = None
    long_ms: int | None = None
    failing: int = 0
    skipped: bool = False
    profile: int = 0
    operator: str = "made"


@dataclass(frozen=True)
class MadeJob:
    """A job. The driver waits for `pause_ms` before it. A job that `fails` does so with its first task, and the program goes
    on."""

    stages: tuple[MadeStage, ...]
    pause_ms: int = 0
    fails: bool = False


@dataclass(frozen=True)
class MadeExecutor:
    """An executor that leaves at `leaves_ms` or later, once it is idle and no task waits; at `dies_ms` it dies with its
    tasks, and, if `with_output`, with what tasks of stages under way wrote there. On a `broken` one each stage's first tasks
    fail, and no further ones run."""

    cores: int
    comes_ms: int = BIRTH_MS
    leaves_ms: int | None = None
    dies_ms: int | None = None
    with_output: bool = False
    broken: bool = False
    profile: int = 0


Threads = Sequence[Sequence[MadeJob]]


def made_log(
    threads: Threads, executors: Sequence[MadeExecutor], *, version: str = "3.5.3", task_cpus: int = 1, with_cpu: bool = True
) -> list[bytes]:
    """Return the lines of the log."""
    return _Driver(executors, version, task_cpus, with_cpu).run(threads)


def decoded(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def encoded(events: Sequence[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events]


@dataclass(eq=False)
class _Executor:
    name: str
    made: MadeExecutor
    slots: int
    running: dict[int, _Task] = field(default_factory=dict)


@dataclass(eq=False)
class _Job:
    number: int
    made: MadeJob
    thread: list[MadeJob]
    stages: list[_Stage] = field(default_factory=list)
    left: int = 0


@dataclass(eq=False)
class _Stage:
    number: int
    made: MadeStage
    job: _Job
    done: bool = False
    ended: int = 0
    attempts: int = 0
    again: _Stage | None = None
    """The stage that lost its input, and waits for a further attempt of this one."""


@dataclass(eq=False)
class _Attempt:
    stage: _Stage
    number: int
    tasks: int
    begun_ms: int
    waiting: list[int]
    ended: int = 0
    failing: int = 0
    on: dict[int, _Executor] = field(default_factory=dict)
    """Executors on which tasks ended well, by the task's index."""
    excluded: list[_Executor] = field(default_factory=list)


@dataclass(eq=False)
class _Task:
    number: int
    index: int
    attempt: _Attempt
    executor: _Executor
    launch_ms: int


class _Driver:
    def __init__(self, executors: Sequence[MadeExecutor], version: str, task_cpus: int, with_cpu: bool) -> None:
        self.ms = 0
        self.with_cpu = with_cpu
        self.events: list[dict[str, Any]] = []
        self.later: list[tuple[int, int, Callable[[], None]]] = []
        self.order, self.jobs, self.stages, self.tasks = (itertools.count() for _ in range(4))
        self.there: list[_Executor] = []
        self.active: list[_Attempt] = []
        self.threads = 0
        self._tell("LogStart", {"Spark Version": version})
        properties = {"spark.app.submitTime": str(EPOCH_MS), "spark.task.cpus": str(task_cpus)}
        command = {"sun.java.command": "org.apache.spark.deploy.SparkSubmit --master yarn /made/program.py"}
        self._tell("EnvironmentUpdate", {"Spark Properties": properties, "System Properties": command})
        start = {"App Name": "made", "App ID": "made-1", "Timestamp": EPOCH_MS + BIRTH_MS - 1000}
        self._tell("ApplicationStart", start)
        for number, made in enumerate(executors, 1):
            executor = _Executor(str(number), made, made.cores // task_cpus)
            self._at(made.comes_ms, partial(self._come, executor))
            if made.leaves_ms is not None:
                self._at(made.leaves_ms, lambda: None)
            if made.dies_ms is not None:
                self._at(made.dies_ms, partial(self._die, executor))

    def run(self, threads: Threads) -> list[bytes]:
        for jobs in threads:
            if jobs:
                self.threads += 1
                self._at(FIRST_JOB_MS + jobs[0].pause_ms, partial(self._begin, list(jobs)))
        while self.threads:
            self.ms, _, action = heapq.heappop(self.later)
            action()
            self._dispatch()
        self._tell("ApplicationEnd", {"Timestamp": EPOCH_MS + self.ms + TAIL_MS})
        return encoded(self.events)

    def _tell(self, kind: str, fields: dict[str, Any]) -> None:
        self.events.append({"Event": f"SparkListener{kind}", **fields})

    def _at(self, ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self.later, (ms, next(self.order), action))

    # ------------------------------------------------------------ executors

    def _come(self, executor: _Executor) -> None:
        self.there.append(executor)
        info = {"Host": "h", "Total Cores": executor.made.cores, "Resource Profile Id": executor.made.profile}
        fields = {"Timestamp": EPOCH_MS + self.ms, "Executor ID": executor.name, "Executor Info": info}
        self._tell("ExecutorAdded", fields)

    def _go(self, executor: _Executor) -> None:
        self.there.remove(executor)
        fields = {"Timestamp": EPOCH_MS + self.ms, "Executor ID": executor.name, "Removed Reason": "made"}
        self._tell("ExecutorRemoved", fields)

    def _die(self, executor: _Executor) -> None:
        if executor in self.there:
            for task in list(executor.running.values()):
                self._stop(task, "ExecutorLostFailure")
                task.attempt.waiting.append(task.index)
            for attempt in self.active if executor.made.with_output else ():
                self._resubmit(attempt, executor)
            self._go(executor)

    def _resubmit(self, attempt: _Attempt, died: _Executor) -> None:
        for index in [index for index, executor in attempt.on.items() if executor is died]:
            del attempt.on[index]
            attempt.ended -= 1
            attempt.stage.ended -= 1
            attempt.waiting.append(index)
            task = _Task(next(self.tasks), index, attempt, died, self.ms)
            self._tell("TaskEnd", self._task_end(task, "Resubmitted", None))

    def _dispatch(self) -> None:
        for attempt in sorted(self.active, key=lambda one: (one.stage.job.number, one.stage.number)):
            fit = [
                one for one in self.there if one.made.profile == attempt.stage.made.profile and one not in attempt.excluded
            ]
            for executor in fit:
                while attempt.waiting and len(executor.running) < executor.slots:
                    self._launch(attempt, executor)
        if any(attempt.waiting for attempt in self.active):
            return
        for executor in list(self.there):
            leaves_ms = executor.made.leaves_ms
            if leaves_ms is not None and leaves_ms <= self.ms and not executor.running:
                self._go(executor)

    # ------------------------------------------------------------ tasks

    def _launch(self, attempt: _Attempt, executor: _Executor) -> None:
        task = _Task(next(self.tasks), attempt.waiting.pop(0), attempt, executor, self.ms)
        executor.running[task.number] = task
        made = attempt.stage.made
        last = task.index == made.tasks - 1 and made.long_ms is not None
        self._at(self.ms + (made.long_ms or 0 if last else made.task_ms), partial(self._ended, task))

    def _stop(self, task: _Task, reason: str) -> None:
        """End a task with `reason` as Spark names it. A task that failed has no CPU time; a lost one has no metrics."""
        del task.executor.running[task.number]
        metrics: dict[str, Any] | None = None
        if reason in {"Success", "ExceptionFailure"}:
            run_ms = self.ms - task.launch_ms
            cpu_ns = round(1e6 * run_ms * task.attempt.stage.made.cpu) if reason == "Success" else 0
            metrics = {"Executor Run Time": run_ms, **({"Executor CPU Time": cpu_ns} if self.with_cpu else {})}
        self._tell("TaskEnd", self._task_end(task, reason, metrics))

    def _task_end(self, task: _Task, reason: str, metrics: dict[str, Any] | None) -> dict[str, Any]:
        info = {
            "Task ID": task.number,
            "Index": task.index,
            "Launch Time": EPOCH_MS + task.launch_ms,
            "Finish Time": EPOCH_MS + self.ms,
            "Executor ID": task.executor.name,
        }
        stage = {"Stage ID": task.attempt.stage.number, "Stage Attempt ID": task.attempt.number}
        return {**stage, "Task End Reason": {"Reason": reason}, "Task Info": info, "Task Metrics": metrics}

    def _ended(self, task: _Task) -> None:
        if task.number not in task.executor.running:
            return  # it was stopped before
        attempt, stage = task.attempt, task.attempt.stage
        if stage.job.made.fails:
            self._stop(task, "ExceptionFailure")
            self._complete(attempt, "made to fail")
            self._job_ended(stage.job, "made to fail")
            return
        if task.executor.made.broken or attempt.failing:
            attempt.failing = max(0, attempt.failing - 1)
            self._stop(task, "ExceptionFailure")
            attempt.waiting.append(task.index)
            if task.executor.made.broken and task.executor not in attempt.excluded:
                attempt.excluded.append(task.executor)
                fields = {"executorId": task.executor.name, "stageId": stage.number, "taskFailures": 1}
                self._tell("ExecutorExcludedForStage", fields)
            return
        self._stop(task, "Success")
        attempt.on[task.index] = task.executor
        attempt.ended += 1
        stage.ended += 1
        lost = stage.made.lost
        if lost is not None and attempt.number == 0 and attempt.ended == lost[0] < attempt.tasks:
            self._lose(attempt, lost[1])
        elif attempt.ended == attempt.tasks:
            self._complete(attempt)
            self._done(stage)

    # ------------------------------------------------------------ stages and jobs

    def _info(self, stage: _Stage, attempt: int, tasks: int) -> dict[str, Any]:
        parents = [stage.job.stages[place].number for place in stage.made.parents]
        scope = json.dumps({"id": "0", "name": stage.made.operator})
        return {
            "Stage ID": stage.number,
            "Stage Attempt ID": attempt,
            "Stage Name": f"step{stage.number} at program.py:{stage.number}",
            "Number of Tasks": tasks,
            "RDD Info": [{"RDD ID": stage.number, "Name": "made", "Scope": scope}],
            "Parent IDs": parents,
            "Resource Profile Id": stage.made.profile,
        }

    def _begin(self, thread: list[MadeJob]) -> None:
        job = _Job(next(self.jobs), thread.pop(0), thread)
        job.stages = [_Stage(next(self.stages), made, job) for made in job.made.stages]
        job.left = len(job.stages)
        infos = [self._info(stage, 0, stage.made.tasks) for stage in job.stages]
        self._tell("JobStart", {"Job ID": job.number, "Submission Time": EPOCH_MS + self.ms, "Stage Infos": infos})
        for stage in job.stages:
            if stage.made.skipped:
                stage.done, job.left = True, job.left - 1
        self._submit_ready(job)

    def _submit(self, stage: _Stage, tasks: int) -> None:
        failing = 0 if stage.attempts else stage.made.failing
        attempt = _Attempt(stage, stage.attempts, tasks, self.ms, list(range(tasks)), failing=failing)
        stage.attempts += 1
        self.active.append(attempt)
        self._tell("StageSubmitted", {"Stage Info": self._span(attempt)})

    def _span(self, attempt: _Attempt) -> dict[str, Any]:
        info = self._info(attempt.stage, attempt.number, attempt.tasks)
        return {**info, "Submission Time": EPOCH_MS + attempt.begun_ms}

    def _complete(self, attempt: _Attempt, failure: str | None = None) -> None:
        self.active.remove(attempt)
        ended = {"Completion Time": EPOCH_MS + self.ms, **({"Failure Reason": failure} if failure else {})}
        for executor in self.there:
            for task in [task for task in executor.running.values() if task.attempt is attempt]:
                self._stop(task, "TaskKilled")
        self._tell("StageCompleted", {"Stage Info": {**self._span(attempt), **ended}})

    def _lose(self, attempt: _Attempt, again: int) -> None:
        stage = attempt.stage
        self._complete(attempt, "a fetch failed")
        parent = stage.job.stages[stage.made.parents[0]]
        parent.again = stage
        self._submit(parent, again)

    def _done(self, stage: _Stage) -> None:
        """Go on after a stage that has all its output (again)."""
        job = stage.job
        if stage.again is not None:
            waits, stage.again = stage.again, None
            self._submit(waits, waits.made.tasks - waits.ended)
            return
        stage.done = True
        job.left -= 1
        self._submit_ready(job)
        if not job.left:
            self._job_ended(job)

    def _submit_ready(self, job: _Job) -> None:
        for stage in job.stages:
            ready = all(job.stages[place].done for place in stage.made.parents)
            if ready and not stage.done and not stage.attempts:
                self._submit(stage, stage.made.tasks)

    def _job_ended(self, job: _Job, failure: str | None = None) -> None:
        result: dict[str, Any] = {"Result": "JobSucceeded"}
        if failure is not None:
            result = {"Result": "JobFailed", "Exception": {"Message": failure, "Stack Trace": []}}
        self._tell("JobEnd", {"Job ID": job.number, "Completion Time": EPOCH_MS + self.ms, "Job Result": result})
        if job.thread:
            self._at(self.ms + job.thread[0].pause_ms, partial(self._begin, job.thread))
        else:
            self.threads -= 1

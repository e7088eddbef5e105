"""One stage attempt and one job of a run, as known from the driver's events so far.

Times are milliseconds of the driver's clock, as in events. Not covered: how events change them (`run`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stage_model.history.amounts import NOTHING, Amounts
from stage_model.history.events import StageInfo, TaskEnd, TaskWaits
from stage_model.history.signature import Names, of_python_rdds

StageKey = tuple[int, int]
"""(stage id, attempt)."""
NO_WAITS = TaskWaits()
CLOCKS_DIFFER_MS = 1000
"""Milliseconds: a task that ran longer than its stage by more shows that the driver's clock was set back; less is
rounding."""


def with_task(sums: TaskWaits | None, task: TaskEnd) -> TaskWaits | None:
    """Return the sums with a further task's metrics; None from the first task on whose metrics are not known. No task waits
    for longer than it runs; an amount below 0, which only a broken driver reports, counts as 0."""
    more = task.waits
    if sums is None or more is None:
        return None
    run_ms = max(0, task.run_ms)
    return TaskWaits(
        fetch_ms=sums.fetch_ms + min(max(0, more.fetch_ms), run_ms),
        remote_bytes=sums.remote_bytes + max(0, more.remote_bytes),
        write_ns=sums.write_ns + min(max(0, more.write_ns), 1_000_000 * run_ms),
        memory_spilled_bytes=sums.memory_spilled_bytes + max(0, more.memory_spilled_bytes),
        disk_spilled_bytes=sums.disk_spilled_bytes + max(0, more.disk_spilled_bytes),
    )


@dataclass(slots=True, eq=False)
class StageRun:
    """One stage attempt. Sums are over tasks that ended well; `all_run_ms` counts the others, too. `done` are the indices of
    those whose output is there; `ended` also counts those that were done once more, because their executor died with it.

    `waited_for` are ids of executed stages whose end it waited for, `ready_ms` the latest of these ends or of the previous
    job's (None: it waited for nothing but the application's start); of a later attempt it is the time since when no other
    stage was under way. `slots` were there when it was submitted, 0 where the driver does not say. `shown` is what the first
    `shown_tasks` to end read and wrote: it is taken again when their number has doubled, and when the last has ended, so that
    what follows from it is worked out seldom.
    """

    info: StageInfo
    signature: str
    structure: str
    job: int | None
    submitted_ms: int
    waited_for: tuple[int, ...] = ()
    ready_ms: int | None = None
    completed_ms: int | None = None
    failure: str | None = None
    done: set[int] = field(default_factory=set)
    ended: int = 0
    amounts: Amounts = NOTHING
    slots: int = 0
    shown_tasks: int = 0
    shown: Amounts = NOTHING
    run_ms: int = 0
    run_ms_squares: int = 0
    longest_run_ms: int = 0
    all_run_ms: int = 0
    cpu_ns: int = 0
    run_ms_without_cpu: int = 0
    """Run time of the tasks whose CPU time is missing or 0, because some platforms and vendors do not measure it."""
    waits: TaskWaits | None = NO_WAITS

    @property
    def key(self) -> StageKey:
        return (self.info.stage, self.info.attempt)

    @property
    def last_ms(self) -> int:
        """The end of the attempt, as far as it is known and not before its beginning."""
        return max(self.submitted_ms, self.completed_ms or 0)

    @property
    def active(self) -> bool:
        return self.completed_ms is None

    @property
    def teaches(self) -> bool:
        """True if a profile may learn from the attempt: a whole, first, successful attempt of which every task is known and
        was done once, and which lasted as long as its tasks say, by executors' clocks that no one sets."""
        if self.completed_ms is None or self.failure is not None or self.info.attempt:
            return False
        if not len(self.done) == self.ended == self.info.tasks:
            return False
        return self.completed_ms - self.submitted_ms >= max(0, self.longest_run_ms - CLOCKS_DIFFER_MS)

    def work_core_s(self, container_core_s: float | None) -> float:
        """Return the core-seconds of the tasks that ended well.

        With container CPU: its part that these tasks had, but at least their JVM threads' CPU (a stage shorter than the
        sampling period may show none). Without: the JVM threads' CPU. For stages with Python workers, whose CPU Spark does
        not count, and for tasks without a CPU time, the work is the run time, an upper bound.
        """
        threads_s = self.cpu_ns / 1e9
        if container_core_s is not None:
            share = self.run_ms / self.all_run_ms if self.all_run_ms else 1.0
            return max(container_core_s * share, threads_s)
        threads_s += self.run_ms_without_cpu / 1e3
        return max(threads_s, self.run_ms / 1e3) if self.python else threads_s

    def count(self, task: TaskEnd) -> None:
        """Add one of the attempt's tasks that has ended well."""
        self.done.add(task.index)
        self.ended += 1
        self.amounts = self.amounts.plus(task)
        self.waits = with_task(self.waits, task)
        if self.ended >= min(2 * self.shown_tasks, self.info.tasks) or not self.shown_tasks:
            self.shown_tasks, self.shown = self.ended, self.amounts
        self.run_ms += task.run_ms
        self.run_ms_squares += task.run_ms * task.run_ms
        self.longest_run_ms = max(self.longest_run_ms, task.run_ms)
        if task.cpu_ns > 0:
            self.cpu_ns += task.cpu_ns
        else:
            self.run_ms_without_cpu += max(0, task.run_ms)

    @property
    def python(self) -> bool:
        """True if Python workers run in the stage, by its operators' names."""
        return any(word in scope for scope in self.info.scopes for word in ("Python", "Pandas", "Arrow"))

    @property
    def batches(self) -> bool:
        """True if the stage's records may be batches of Python objects, like those of PySpark's RDDs: four times the data is
        then hardly more records. Data that Spark SQL hands to Python stays counted in rows."""
        return of_python_rdds(self.info.scopes)


@dataclass(slots=True)
class JobRun:
    """One job; `previous` is the job that had ended last when this one started, `sql` the ordinal of its SQL execution, if it
    has one, `submitted` are its stages that were submitted. `ok` stays None until the job has ended; a job that was
    `cancelled` is not ok. `result` is its result stage and `result_names` are the names of that stage, None for a job without
    stages. `alone`: no other job was open when this one started."""

    ordinal: int
    sql: int | None
    started_ms: int
    previous: int | None = None
    result: int | None = None
    result_names: Names | None = None
    alone: bool = True
    ended_ms: int | None = None
    ok: bool | None = None
    cancelled: bool = False
    submitted: list[int] = field(default_factory=list)
    last: frozenset[int] | None = None
    """Stages that nothing else of the job waited for, and the next job's first stages wait for; None: not worked out yet."""

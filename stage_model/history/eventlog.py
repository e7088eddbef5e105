"""The reader of the JSON lines of a Spark event log (3.5 and 4.x), or of one as Databricks writes it, into a run.

Field names are those of Spark's `JsonProtocol`, the same in 3.5 and 4.x. Not covered: opening files, rolling directories and
decompression (`controller.runs.eventlog_files`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import structs

from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput
from stage_model.history.driver_command import main_and_arguments
from stage_model.history.eventlog_schema import (
    KNOWN,
    ApplicationStart,
    DatabricksPart,
    EnvironmentUpdate,
    EventLine,
    Kind,
    LogLine,
    LogStart,
    SQLExecutionEndLine,
    SQLExecutionStartLine,
    StageSubmittedLine,
)
from stage_model.history.events import AnyEvent, ApplicationEnd, ExecutorAdded, ExecutorRemoved, JobStart, TaskEnd
from stage_model.history.profile import MOST_STEPS, CoresThere, RunRecord
from stage_model.history.run import Run
from stage_model.history.run_record import RunFacts, to_record

_LONGEST_QUEUE_MS = 24 * 3_600_000
"""Longest time from submission to start: an earlier submit time is a copied setting, not this application's."""


@dataclass(slots=True)
class EventLog:
    """The content of a log. `cores` = most executor cores at one time, `slots` = most tasks at once; `strangers` are
    executors that ran tasks, though the log has no event of their coming. `cores_at` are the cores of all executors from the
    first end of a task on: (milliseconds, cores) for each change. Executors that came before count as there from the
    beginning, because every run has to wait for its executors. `cores_held` are the same from the first executor on, each at
    its own time. `untimed` are stages without a submission time. `attempt` is the number of the application's attempt from
    1, where YARN makes several. `databricks_parts`: None for a log that Databricks did not write. `end_known` is false if the
    log has no end of the application, like those of Databricks."""

    run: Run = field(default_factory=Run)
    application_id: str = ""
    attempt: int = 1
    databricks_parts: int | None = None
    end_known: bool = True
    name: str = ""
    main: str | None = None
    arguments: tuple[str, ...] | None = None
    spark_version: str = ""
    started_ms: int | None = None
    cores: int = 0
    executors: int = 0
    cores_at: list[tuple[int, int]] = field(default_factory=list)
    cores_held: list[tuple[int, int]] = field(default_factory=list)
    untimed: int = 0
    strangers: set[str] = field(default_factory=set)
    spark: dict[str, str] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        return bool(self.spark_version) or self.databricks_parts is not None

    @property
    def slots(self) -> int:
        per_task = self.spark.get("spark.task.cpus", "1")
        return self.cores // max(1, int(per_task)) if _is_number(per_task) else self.cores

    def record(self) -> RunRecord:
        """Return the log's run record; container CPU is not in a log, so the executors' CPU counts."""
        starts = (job.started_ms for job in self.run.jobs.values())
        started_ms = min(starts, default=0) if self.started_ms is None else self.started_ms
        return to_record(
            self.run,
            RunFacts(
                id=f"{self.application_id or 'application'}.{started_ms}",
                name=self.name,
                main=self.main,
                when_ms=started_ms,
                spark_version=self.spark_version,
                cores=float(self.cores),
                cores_there=self._cores_there(started_ms),
                slots=self.slots,
                executors=self.executors,
                started_ms=started_ms,
                arguments=self.arguments,
            ),
            ended_well=self.run.seems_well,
        )

    def _cores_there(self, started_ms: int) -> tuple[CoresThere, ...]:
        last_ms = max((stage.last_ms for stage in self.run.attempts.values()), default=0)
        steps = [(ms, cores) for ms, cores in self.cores_at if ms < last_ms]
        if all(cores == self.cores for _, cores in steps):
            return ()
        kept = steps[:: math.ceil(len(steps) / MOST_STEPS)]
        return tuple(CoresThere(since_s=max(0, ms - started_ms) / 1e3, cores=float(cores)) for ms, cores in kept)


@dataclass(slots=True)
class _Living:
    """The state at one point of a log: the cores of each living executor, and of all executors; the executors that `came`
    until then; the ids of the `queries` (SQL executions) under way."""

    by_id: dict[str, int] = field(default_factory=dict)
    cores: int = 0
    came: set[str] = field(default_factory=set)
    queries: set[str] = field(default_factory=set)


def read_event_log(lines: Iterable[bytes], source: str) -> EventLog:
    """Return the run that `lines` describe; `source` names the log in refusals.

    Raise `BadInput`: no event log at all, a corrupt line (with its number), or no application end (truncated).
    """
    log = EventLog()
    living = _Living()
    broken: tuple[int, str] | None = None
    for number, line in enumerate(lines, 1):
        if broken is not None:
            raise BadInput(f"{source} is corrupt: line {broken[0]} is no Spark event ({broken[1]}); {_ACCEPTED}")
        if not line.strip():
            continue
        try:
            found = read_line(line)
        except UNREADABLE as error:
            if not log.begun:
                raise BadInput(f"{source} is no Spark event log (line {number}: {error}); {_ACCEPTED}") from error
            broken = (number, str(error))
            continue
        if isinstance(found, LogStart):
            log.spark_version = found.version
            _check_release(found.version, source)
        elif isinstance(found, DatabricksPart):
            _take_part(log, found, source)
        elif not log.begun:
            raise BadInput(f"{source} is no Spark event log: it does not begin with SparkListenerLogStart; {_ACCEPTED}")
        elif found is not None:
            _take(log, found, living)
    if log.databricks_parts is not None and not log.run.ended and not broken:
        _end_with_its_jobs(log)
    if not log.run.ended:
        where = f", line {broken[0]} is cut off" if broken else ""
        raise BadInput(f"{source} is truncated: no SparkListenerApplicationEnd{where}; give a finished log")
    return log


def _take_part(log: EventLog, part: DatabricksPart, source: str) -> None:
    """Take the next file of a log of Databricks, which begins a new file each hour and numbers the files. Raise `BadInput`
    where a file is missing."""
    expected = log.databricks_parts or 0
    if part.number != expected:
        raise BadInput(
            f"{source} is a log of Databricks without its file {expected} (Rollover Number {part.number} is there instead); "
            "give the folder of all its files, eventlog and eventlog-*"
        )
    log.databricks_parts = expected + 1


def _end_with_its_jobs(log: EventLog) -> None:
    """End the run, for which Databricks writes no end of the application. An application whose jobs have all ended is taken
    to have ended with them."""
    jobs = log.run.jobs.values()
    if jobs and all(job.ended_ms is not None for job in jobs):
        log.end_known = False
        log.run.apply(ApplicationEnd(time_ms=max(job.ended_ms or 0 for job in jobs)))


def _check_release(version: str, source: str) -> None:
    """Raise `BadInput` for a release that writes no submission times of stages (before 2.1 no CPU times either)."""
    release = re.match(r"(\d{1,9})\.(\d{1,9})", version)
    if release is not None and (int(release[1]), int(release[2])) < (2, 3):
        why = "event logs of Spark 2.2 and older do not tell when a stage began"
        raise BadInput(f"{source} is of Spark {version}, and {why}; {_ACCEPTED}")


_ACCEPTED = "give the event log of a finished Spark 3.5 or 4.x application"


def read_line(line: bytes) -> Kind | None:
    """Return the event in one line; None for an event that Sparkpace does not use. Raise `UNREADABLE` for a line that is no
    event."""
    # Spark writes the kind first: then the line, most of which are long, is looked through once
    known = KNOWN.get(line[len(_BEGIN) : line.find(b'"', len(_BEGIN))].decode("latin-1")) if line.startswith(_BEGIN) else None
    if known is None:
        known = KNOWN.get(msgspec.json.decode(line, type=LogLine).event)
    return None if known is None else known.decode(line)


_BEGIN = b'{"Event":"'


def _take(log: EventLog, found: Kind, living: _Living) -> None:
    if isinstance(found, ApplicationStart):
        log.name, log.application_id, log.attempt = found.name, found.id or "", _attempt(found)
        log.started_ms = _submitted_ms(log, found.time_ms)
    elif isinstance(found, EnvironmentUpdate):
        log.spark = found.spark
        log.main, log.arguments = main_and_arguments(found.system.get("sun.java.command", ""))
        if log.started_ms is not None:
            log.started_ms = _submitted_ms(log, log.started_ms)
    elif isinstance(found, SQLExecutionStartLine):
        living.queries.add(str(found.execution))
    elif isinstance(found, SQLExecutionEndLine):
        living.queries.discard(str(found.execution))
    elif isinstance(found, StageSubmittedLine) and found.event() is None:
        log.untimed += 1
    elif isinstance(found, EventLine) and (event := found.event()) is not None:
        _apply(log, event, living)


def _apply(log: EventLog, event: AnyEvent, living: _Living) -> None:
    if isinstance(event, ExecutorAdded | ExecutorRemoved):
        _take_executor(log, event, living)
    elif isinstance(event, TaskEnd):
        if not log.cores_at:
            log.cores_at.append((0, living.cores))
        if event.executor not in living.came:
            log.strangers.add(event.executor)
    elif isinstance(event, JobStart) and event.sql_execution not in living.queries:
        event = structs.replace(event, sql_execution=None)
    log.run.apply(event)


def _take_executor(log: EventLog, event: ExecutorAdded | ExecutorRemoved, living: _Living) -> None:
    living.cores -= living.by_id.pop(event.executor, 0)
    if isinstance(event, ExecutorAdded):
        living.cores += event.cores
        living.by_id[event.executor] = event.cores
        living.came.add(event.executor)
    log.cores = max(log.cores, living.cores)
    log.executors = max(log.executors, len(living.by_id))
    log.cores_held.append((event.time_ms, living.cores))
    if log.cores_at:
        log.cores_at.append((event.time_ms, living.cores))


def _attempt(start: ApplicationStart) -> int:
    return int(start.attempt) if start.attempt and _is_number(start.attempt) else 1


def _submitted_ms(log: EventLog, started_ms: int) -> int:
    """Return the call of spark-submit where the log has it, else the application's start (docs/concepts.md, The clock). A
    further attempt has the first attempt's call among its settings, and the first attempt's time before its own start."""
    submitted = "" if log.attempt > 1 else log.spark.get("spark.app.submitTime", "")
    if _is_number(submitted) and 0 <= started_ms - int(submitted) <= _LONGEST_QUEUE_MS:
        return int(submitted)
    return started_ms


def _is_number(text: str) -> bool:
    """Check that the text has no more digits than a `long` has."""
    return text.isdecimal() and len(text) < 20

"""Profiles: the lessons of pre-runs, as a versioned JSON file that is a set of run records (the last 20).

Everything else is derived from the records (`estimate`), so merging two profiles is set union. The schema is documented in
docs/profiles.md and docs/profile-schema.json. A profile has a key, by which a job finds it. Not covered: making records
(`run_record`), keeping files (`controller.runs.profile_store`).
"""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Iterable
from itertools import takewhile
from typing import Annotated, Literal

import msgspec

from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput
from stage_model.history.amounts import Amounts
from stage_model.history.driver_command import base_name

VERSION = 1
RUNS_KEPT = 20
_LONGEST_KEY = 120
_DIGEST = re.compile(r"-[0-9a-f]{8}$")
"""The end of a key in which characters had to be replaced (`profile_key`)."""
_CHANGING = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[a-f]*\d)[0-9a-f]{8,}|\d+", re.IGNORECASE)
"""UUIDs, other ids in hexadecimal, and numbers."""
MOST_STEPS = 500
"""Largest number of changes of the executors that a record keeps, so that the model's cost is bounded."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
"""Thirty thousand years of seconds; sums of such amounts stay far from what floats cannot hold."""
CpuSource = Literal["container", "executor"]


class StageWaits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sums over a stage's tasks by Spark's own metrics. Tasks waited for blocks of a shuffle for `fetch_s` seconds and wrote
    such blocks for `write_s`; `remote_bytes` came from other executors. What did not fit in memory had
    `memory_spilled_bytes` there and `disk_spilled_bytes` on disk."""

    fetch_s: Amount
    remote_bytes: Count
    write_s: Amount
    memory_spilled_bytes: Count
    disk_spilled_bytes: Count


class StageRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stage of one run. Times in seconds; sums are over the tasks that ended well.

    `structure`: the signature's part without call sites, of PySpark's RDDs only. `parents` are signatures of the stages whose
    end it waited for: its parents, and at a job's start the last stages of the job before; `job` and `sql` are the ordinals
    of its job and its SQL execution. `slots` were there when it was submitted (0: not known). `records` = input and shuffle
    records read, `input_records` the input part, `written_records` those written to a shuffle; then the same in bytes.
    `batches`: the records may be batches of Python objects, so bytes say more. `work_core_s` = CPU (see
    `RunRecord.cpu_source`), `run_s` = task run times, `task_s` and `task_cv` = mean and coefficient of variation of task run
    time, `skew` = longest task / mean. `duration_s` = submission to completion; `cores_s` = core-seconds allocated to it,
    `throttled_s` = seconds that its executors' quotas held its threads back, summed over CPUs; None: the number is not known.
    `start_s` counts from the application's start; `gap_s` = driver time between the end of the stages it waited for and its
    submission. `teaches` False: failed or retried, so it counts only if no other run has the stage. All attempts count
    together.
    """

    signature: str
    structure: str = ""
    name: str = ""
    job: Count
    sql: Count | None = None
    parents: tuple[str, ...] = ()
    tasks: Count
    slots: Count = 0
    records: Count
    input_records: Count
    written_records: Count = 0
    bytes: Count = 0
    input_bytes: Count = 0
    written_bytes: Count = 0
    batches: bool = False
    work_core_s: Amount
    run_s: Amount
    task_s: Amount
    task_cv: Amount
    skew: Amount
    duration_s: Amount
    cores_s: Amount | None = None
    throttled_s: Amount | None = None
    cold_core_s: Amount | None = None
    """Core-seconds that its first records used beyond what as many later ones did (`cold`); None: not known."""
    waits: StageWaits | None = None
    """Spark's own metrics of waiting; None in records of earlier releases, and if the driver's bridge is of one."""
    start_s: Amount
    gap_s: Amount
    teaches: bool = True

    @property
    def amounts(self) -> Amounts:
        return Amounts(
            self.records, self.input_records, self.written_records, self.bytes, self.input_bytes, self.written_bytes
        )


class CoresThere(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `cores` of all executors together from `since_s` on, in seconds after submission."""

    since_s: Amount
    cores: Amount


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run, its stages in order of submission. Times in seconds unless named otherwise.

    `id` tells runs apart wherever they ran. `when_ms` = epoch milliseconds of the start, only for order (a run of a
    clock that was set back is dated after those before it). `cores` = cores of the cluster that the run could get, `slots` =
    tasks at once over all executors. `cores_there` = how many of the cores were there from when on, in order; it is empty
    where all were there all the time, and where stages have `cores_s` of their own. `startup_s` = application start to first
    stage, `launch_s` = from there to the first task, without the time until there was room for an executor (None: not known),
    `tail_s` = last stage's end to the application's. `cpu_source`: "container" (counts Python workers) or "executor"
    (JVM task threads; task run time for stages with Python workers and for tasks without a CPU time). `used_core_s` =
    container CPU of all executors from their starts on, in stages and between these; None where no container was measured.
    `complete` False: nothing is learned from it.
    """

    id: Annotated[str, msgspec.Meta(min_length=1)]
    name: str
    main: str | None = None
    when_ms: int
    arguments: tuple[str, ...] | None = None
    spark_version: str = ""
    cores: Amount
    cores_there: Annotated[tuple[CoresThere, ...], msgspec.Meta(max_length=MOST_STEPS)] = ()
    slots: Count
    executors: Count
    startup_s: Amount
    launch_s: Amount | None = None
    tail_s: Amount
    duration_s: Amount
    input_records: Count
    cpu_source: CpuSource
    used_core_s: Amount | None = None
    complete: bool = True
    stages: tuple[StageRecord, ...] = ()

    @property
    def work_core_s(self) -> float:
        return math.fsum(stage.work_core_s for stage in self.stages)


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`runs` are in order of (`when_ms`, `id`), at most the last 20, each id once; `profile` makes them so."""

    version: Literal[1] = 1
    key: Annotated[str, msgspec.Meta(min_length=1)]
    runs: tuple[RunRecord, ...] = ()


class _Header(msgspec.Struct, frozen=True):
    version: int


def profile(key: str, runs: Iterable[RunRecord]) -> Profile:
    """Return a profile of these runs: each id once (of two records with one id, the greater by start and text), the last
    20."""
    best: dict[str, tuple[int, bytes, RunRecord]] = {}
    for run in runs:
        ranked = (run.when_ms, msgspec.json.encode(run), run)
        if run.id not in best or best[run.id][:2] < ranked[:2]:
            best[run.id] = ranked
    ordered = sorted((entry[2] for entry in best.values()), key=lambda run: (run.when_ms, run.id))
    return Profile(key=key, runs=tuple(ordered[-RUNS_KEPT:]))


def merge(left: Profile, right: Profile) -> Profile:
    """Return the set union by run id: order-free, associative, idempotent. Raise `BadInput` for two different keys."""
    if left.key != right.key:
        raise BadInput(f"profiles {left.key!r} and {right.key!r} are of different jobs; merge only profiles of one key")
    return profile(left.key, (*left.runs, *right.runs))


def profile_json(profile: Profile) -> bytes:
    """Return the file's content: readable, one field per line."""
    return msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n"


def parse_profile(
    content: bytes | str, expected_key: str | None = None, expected_main: str | None = None, source: str = "profile"
) -> Profile:
    """Return the profile in a file's content; `source` names the file in refusals.

    Raise `BadInput`: not JSON, of a future version, not of the schema, or of another job: its key is not `expected_key`, or
    none of its runs that name a main file ran `expected_main`.
    """
    accepted = f"give a profile of version {VERSION}, see docs/profiles.md"
    try:
        version = msgspec.json.decode(content, type=_Header).version
        if version != VERSION:
            raise BadInput(f"{source} is a profile of version {version}, this program knows version {VERSION}; {accepted}")
        read = msgspec.json.decode(content, type=Profile)
    except msgspec.ValidationError as error:
        raise BadInput(f"{source} is no profile: {error}; {accepted}") from error
    except UNREADABLE as error:
        raise BadInput(f"{source} is not JSON ({error}); {accepted}") from error
    for run in read.runs:
        _check_order(run, source)
    if expected_key is not None and read.key != expected_key:
        raise BadInput(f"{source} is of another job, {read.key!r}; a profile of {expected_key!r} is accepted")
    mains = {base_name(run.main) for run in read.runs if run.main}
    if expected_main is not None and mains and expected_main not in mains:
        others = ", ".join(sorted(mains))
        raise BadInput(f"{source} is of another job ({others}); a profile of {expected_main} is accepted")
    return profile(read.key, read.runs)


def _check_order(run: RunRecord, source: str) -> None:
    seen: set[str] = set()
    for stage in run.stages:
        unknown = set(stage.parents) - seen
        if unknown or stage.signature in seen:
            wrong = f"waits for {min(unknown)!r}, which is not before it" if unknown else "is there twice"
            raise BadInput(
                f"{source} is no profile: in run {run.id!r} stage {stage.signature!r} {wrong}; "
                "stages must be unique and in order of submission"
            )
        seen.add(stage.signature)


def profile_key(explicit: str | None, name: str, main: str | None) -> str:
    """Return the key under which runs are kept, fit for a file name: the given one, else "<application name>@<main>".

    `main` is a path or a class; of a path the base name counts. Replaced characters leave a short digest, so that different
    jobs keep different keys. Keys pass through unchanged. Raise `BadInput` for an empty explicit name.
    """
    if explicit is not None and not explicit.strip():
        raise BadInput("profile name '' is empty; give a name such as 'pagerank'")
    base = base_name(main) if main else ""
    wanted = explicit or (f"{name}@{base}" if base else name) or "application"
    safe = re.sub(r"[^A-Za-z0-9._@+$-]", "_", wanted)
    if safe[0] in ".-":
        safe = "_" + safe
    if safe == wanted and len(safe) <= _LONGEST_KEY:
        return safe
    return f"{safe[: _LONGEST_KEY - 9]}-{hashlib.blake2b(wanted.encode(), digest_size=4).hexdigest()}"


def like_named(key: str, known: Iterable[str]) -> str:
    """Return a clause that ends a sentence with the profile that may belong to the job, out of the `known` keys.

    A name that holds a date, a time or an id is another name in each run, and a log does not always hold the main file. So
    candidates have the same main file, or the same name except for numbers and ids. The candidate with the longest common
    beginning wins, and among equals the last in order. Empty without a candidate, or if the key is known."""
    keys = set(known)
    alike = [other for other in keys if _may_be(key, other)]
    if key in keys or not alike:
        return ""
    nearest = max(alike, key=lambda other: (_begin_in_common(key, other), other))
    return f"; if it is the job of profile {nearest!r} under another name, give --profile {shlex.quote(nearest)}"


def main_in(key: str) -> str:
    """Return the main file or class that a key holds, its unfit characters replaced; empty where it holds neither."""
    _, at, main = _DIGEST.sub("", key).rpartition("@")
    return main if at else ""


def _may_be(key: str, other: str) -> bool:
    return any(part(key) == part(other) != "" for part in (main_in, _name_in))


def _name_in(key: str) -> str:
    """Return the name without the parts that change from run to run."""
    name, at, rest = _DIGEST.sub("", key).rpartition("@")
    return _CHANGING.sub("", name if at else rest)


def _begin_in_common(left: str, right: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))

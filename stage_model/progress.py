"""The live progress of one executor, as its plugin writes it into `progress.json` several times a second.

This module has only the schema and its limits; `controller.agent.executors.known` reads such a file safely.
Counters are cumulative per stage attempt since the executor's start, so a lost or repeated file does no harm.
"""

from __future__ import annotations

import msgspec

SCHEMA = 1
MAX_BYTES = 65_536
"""A larger progress file is refused (docs/security.md, Details)."""
MAX_STAGES = 64
"""Most stages in a file; a file with more is refused, too: an executor's plugin writes no more."""
_LARGEST = 1 << 53


class StageProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One stage attempt on one executor.

    `records_done` are records read (input and shuffle) by tasks that ended well, `records_running` those read so far by
    running ones; a failed attempt's are in neither, because they will be read again. `cpu_ns` is the task threads' CPU time
    (done, failed and running): without Python workers.
    """

    stage: int
    attempt: int
    running: int
    done: int
    failed: int = 0
    records_done: int = 0
    records_running: int = 0
    cpu_ns: int = 0


class MemoryProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Off-heap memory, bytes: `order` is the number of the last order that was looked at, `budget` what Spark may use now
    (above the ordered size: it still shrinks), `execution` the part of it that running tasks hold, `storage` cached data."""

    order: int
    budget: int
    execution: int = 0
    storage: int = 0


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`sequence` grows by one with every write; `stages` holds stage attempts touched in the last minute, newest last;
    `memory`: None before the first order about off-heap memory was looked at; `cpu_s` is the CPU that its container has used,
    None where the agent counts that itself."""

    schema: int
    executor: str
    sequence: int
    stages: tuple[StageProgress, ...] = ()
    memory: MemoryProgress | None = None
    cpu_s: float | None = None


def what_is_wrong(progress: Progress, executor_id: str) -> str:
    """Return why the progress cannot be that of this executor, as the rest of a sentence; empty if it can."""
    if progress.schema != SCHEMA:
        return f"has schema {progress.schema}, not {SCHEMA}"
    if progress.executor != executor_id:
        return f"claims to be of {progress.executor[:40]!r}"
    if len(progress.stages) > MAX_STAGES:
        return f"has {len(progress.stages)} stages, more than {MAX_STAGES}"
    for s in progress.stages:
        numbers = (s.stage, s.attempt, s.running, s.done, s.failed, s.records_done, s.records_running, s.cpu_ns)
        if any(not 0 <= n < _LARGEST for n in numbers):
            return f"holds an impossible number in stage {s.stage}"
    if progress.cpu_s is not None and not 0 <= progress.cpu_s < _LARGEST:
        return "holds an impossible number for its CPU"
    memory = progress.memory
    sizes = (memory.order, memory.budget, memory.execution, memory.storage) if memory else ()
    return "holds an impossible number for its memory" if any(not 0 <= n < _LARGEST for n in sizes) else ""

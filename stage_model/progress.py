"""The live progress of one executor, as its plugin writes it into `progress.json` several times a second.

Only the schema; reading such a file safely is `controller.agent.progress_file`'s work. Counters are cumulative per stage
attempt since the executor's start, so a lost or repeated file does no harm.
"""

from __future__ import annotations

import msgspec

SCHEMA = 1
MAX_BYTES = 65_536
"""A larger progress file is refused (docs/operations.md, Security notes)."""


MAX_STAGES = 64
"""One with more is refused, too: an executor's plugin writes no more."""


class StageProgress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stage attempt on one executor.

    `records_done` are records read (input and shuffle) by tasks that ended well, `records_running` those read so far by
    running ones; a failed attempt's are in neither, as they will be read again. `cpu_ns` is the task threads' CPU time (done,
    failed and running): without Python workers.
    """

    stage: int
    attempt: int
    running: int
    done: int
    failed: int = 0
    records_done: int = 0
    records_running: int = 0
    cpu_ns: int = 0


class MemoryProgress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Off-heap memory, bytes: `order` is the number of the last order that was looked at, `budget` what Spark may use now
    (above the ordered size: it still shrinks), `execution` what running tasks hold of it, `storage` cached data."""

    order: int
    budget: int
    execution: int = 0
    storage: int = 0


class Progress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sequence` grows by one with every write; `stages` holds stage attempts touched in the last minute, newest last;
    `memory` is None before the first order about off-heap memory was looked at."""

    schema: int
    executor: str
    sequence: int
    stages: tuple[StageProgress, ...] = ()
    memory: MemoryProgress | None = None

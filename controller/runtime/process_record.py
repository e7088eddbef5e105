"""What the process runtime writes down about each executor (a 0600 JSON file), so that the next agent finds it again.

No environment in it: that holds a secret. Not here: processes (`process`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from controller.runtime.base import ExecutorKey
from controller.runtime.cgroup import Group
from controller.runtime.process_identity import Identity

log = logging.getLogger(__name__)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """`group` is None when the executor is paced by signals; `quota_cores` then is what it was last given."""

    cluster_id: str
    worker_id: str
    application_id: str
    executor_id: str
    process: Identity
    quota_cores: float
    group: Group | None = None

    @property
    def key(self) -> ExecutorKey:
        return ExecutorKey(self.application_id, self.executor_id)


def write(path: Path, record: Record) -> None:
    """Atomic: a reader sees the old record or the new one. Raises OSError."""
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(record, enc_hook=str))
    temporary.replace(path)


def read_all(directory: Path, cluster_id: str, worker_id: str) -> Iterator[tuple[Path, Record]]:
    """The records of one worker. A file that is no record is reported and left alone."""
    for path in sorted(directory.glob("*.json")):
        try:
            record = msgspec.json.decode(path.read_bytes(), type=Record, dec_hook=_path)
        except (OSError, msgspec.DecodeError) as error:
            log.warning("executor record %s is not readable (%s) and is left alone", path.name, error)
            continue
        if (record.cluster_id, record.worker_id) == (cluster_id, worker_id):
            yield path, record


def _path(kind: type, value: object) -> object:
    """`Group` holds paths; JSON holds their text."""
    if not issubclass(kind, Path) or not isinstance(value, str):
        raise TypeError(f"{value!r} is no path")
    return kind(value)

"""Records of executors (a 0600 JSON file each), by which the next agent finds them again.

A record holds no environment, which may have a secret. Files are hostile until they are checked: code that reads a record
checks that the process it names still is that process. Not here: processes (`process`), containers (`docker`).
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from controller.machine.files import write_whole
from controller.machine.process import Process
from controller.runtime.base import ExecutorKey
from controller.runtime.cgroup.group import Group
from stage_model.decoding import UNREADABLE

log = logging.getLogger(__name__)


class RecordedExecutor(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of an executor: the fields that every record has."""

    cluster_id: str
    worker_id: str
    application_id: str
    executor_id: str

    @property
    def key(self) -> ExecutorKey:
        return ExecutorKey(self.application_id, self.executor_id)


class Record(RecordedExecutor, frozen=True, kw_only=True):
    """A process. `group` None: the executor is paced by signals, and `quota_cores` is its last quota."""

    process: Process
    quota_cores: float
    group: Group | None = None


class ContainerRecord(RecordedExecutor, frozen=True, kw_only=True):
    """A container. `process` is its first one, None where that is not visible. Its control group is looked up and not
    recorded: a path in a file could lead anywhere."""

    container: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    process: Process | None = None


class AdoptedRecord(RecordedExecutor, frozen=True, kw_only=True):
    """A process that another service has started. `group` paces it (None: signals do): `own` is its own, whose quota was
    `before_cores`; another group was made for it below `outer`. `counted`: the group counts its CPU, since it had used
    `before_cpu_s`; else the CPU of its processes counts. `watched`: it is only seen, without group and signals."""

    process: Process
    quota_cores: float
    group: Group | None = None
    outer: Group | None = None
    own: bool = False
    counted: bool = True
    before_cores: float | None = None
    before_cpu_s: float = 0.0
    watched: bool = False


class PodRecord(RecordedExecutor, frozen=True, kw_only=True):
    """A pod that another service has started, with its CPU limit in thousandths of a core when it was first seen.
    `watched`: it is only seen, and never patched."""

    uid: str
    namespace: str
    slots: int
    limit_m: int | None
    watched: bool = False


R = TypeVar("R", bound=RecordedExecutor)


def write(path: Path, record: RecordedExecutor) -> None:
    """Write a record atomically: a reader sees the old record or the new one. Raise OSError."""
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    # a process or a container ends with this boot, a pod elsewhere does not
    write_whole(path, msgspec.json.encode(record, enc_hook=str), lasting=isinstance(record, PodRecord))


P = TypeVar("P", Record, AdoptedRecord)


def with_quota(path: Path, record: P, cores: float) -> P:
    """Return the record of an executor that signals pace, with its new quota. Where the record cannot be written, the
    executor is paced all the same, and the next agent begins with an older quota."""
    if cores == record.quota_cores:
        return record
    record = msgspec.structs.replace(record, quota_cores=cores)
    try:
        write(path, record)
    except OSError as error:
        log.warning("the record of executor %s cannot be changed: %s", record.key.text, error)
    return record


def read_all(directory: Path, kind: type[R], cluster_id: str, worker_id: str) -> Iterator[tuple[Path, R]]:
    """Yield the records of one worker of one cluster."""
    for path, record in read_everybodys(directory, kind):
        if (record.cluster_id, record.worker_id) == (cluster_id, worker_id):
            yield path, record


def read_everybodys(directory: Path, kind: type[R]) -> Iterator[tuple[Path, R]]:
    """Yield the records of any cluster and worker. A file that is no record, or that other users can write, is reported and
    left as it is."""
    for path in sorted(directory.glob("*.json")):
        try:
            record = msgspec.json.decode(_own_file(path), type=kind, dec_hook=_path)
        except (OSError, *UNREADABLE) as error:
            log.warning("executor record %s is not readable (%s) and is left as it is", path.name, error)
            continue
        yield path, record


def _own_file(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError("it is not a file that only this user can write")
        return file.read()


def _path(kind: type, value: object) -> object:
    """Turn JSON's text into a path: `Group` holds paths."""
    if not issubclass(kind, Path) or not isinstance(value, str):
        raise TypeError(f"{value!r} is no path")
    return kind(value)

"""The containers of one worker as they were last seen, and the records by which the next agent finds them.

An engine that answers lists its containers; records count while it does not.
"""

from __future__ import annotations

import logging
import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import docker
from docker.errors import NotFound

from controller.machine.process import Process, find_process
from controller.runtime import executor_record, launching
from controller.runtime.base import ExecutorKey, Observed
from controller.runtime.cgroup.group import Group, OpenFiles
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker import container
from controller.runtime.executor_record import ContainerRecord

log = logging.getLogger(__name__)


@dataclass(slots=True)
class KnownContainer:
    """A container. `process` and `group` are None when its files are not visible; `kill_at` is when `stop`'s grace is over,
    `gone_at` when its process was first seen to be gone. `lock` is held while files are written or compared with what is
    wanted: `quota_us` and `memory_bytes`, None until they are set here. `refused`: the files are another user's. `doubtful`:
    updates that were not answered."""

    id: str
    last: Observed
    process: Process | None = None
    group: Group | None = None
    files: OpenFiles = field(default_factory=OpenFiles)
    kill_at: float = math.inf
    gone_at: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    quota_us: int | None = None
    memory_bytes: int | None = None
    refused: bool = False
    doubtful: set[str] = field(default_factory=set)

    @property
    def key(self) -> ExecutorKey:
        return self.last.key

    def writable(self) -> Group | None:
        """Return the container's control group, where its files may be written."""
        return None if self.refused else self.group

    def lives(self) -> bool:
        """Return True if the container's process is there; False also where that is not visible."""
        return self.process is not None and self.process.is_alive()

    def may_live(self) -> bool:
        """Return False once the container has surely ended."""
        return self.last.running and (self.process is None or self.lives())

    def send(self, number: signal.Signals) -> bool:
        """Send a signal straight to the container's first process, as the engine does, too; return False where that is not
        possible."""
        return self.process is not None and self.process.send(number)

    def over(self, reason: str) -> None:
        """Note that the container has ended, its end unknown."""
        self.last = replace(self.last, running=False, quota_cores=None, reason=reason, pid=None, memory_limit_bytes=None)


class KnownContainers:
    """The containers by executor. `records` is a directory only for their records. `gone` is called for a
    container that was removed from outside. `labels` are those of all containers of the worker."""

    def __init__(
        self,
        cluster_id: str,
        worker_id: str,
        records: Path,
        cgroups: CgroupTree,
        gone: Callable[[ExecutorKey], None],
    ) -> None:
        self._cluster_id, self._worker_id, self._records = cluster_id, worker_id, records
        self._cgroups, self._gone = cgroups, gone
        self.labels = {container.CLUSTER: cluster_id, container.WORKER: worker_id}
        self.by_key: dict[ExecutorKey, KnownContainer] = {}
        self.starting: set[ExecutorKey] = set()
        self.touched: set[ExecutorKey] = set()
        """Executors that were started or removed since the engine was last asked for its list: its answer may be older than
        that."""
        self.removing: set[str] = set()
        self.listed = records.is_dir()
        """True if all containers are known. The directory of records is made with the first list."""
        if self.listed:
            self._recall()

    def _recall(self) -> None:
        """Take over the containers that an earlier runtime knew."""
        for _, record in executor_record.read_all(self._records, ContainerRecord, self._cluster_id, self._worker_id):
            pid = record.process.pid if record.process else None
            last = Observed(record.key, True, None, 0.0, 0, pid=pid)
            known = self.by_key[record.key] = KnownContainer(record.container, last, record.process)
            if known.lives() and pid is not None:
                known.group = self._cgroups.group_of(pid, must_contain=known.id)
                if known.group is None:  # the process may not be the container's
                    known.process, known.last = None, replace(last, pid=None)

    def name_of(self, key: ExecutorKey) -> str:
        """Return the name of the executor's container."""
        return launching.unique_name(self._cluster_id, self._worker_id, key)

    def labels_of(self, key: ExecutorKey) -> Mapping[str, str]:
        return {**self.labels, container.APPLICATION: key.application_id, container.EXECUTOR: key.executor_id}

    def has(self, known: KnownContainer) -> bool:
        """Return True if the container was neither removed nor replaced meanwhile."""
        return self.by_key.get(known.key) is known

    def take_list(self, client: docker.APIClient) -> None:
        """Bring what is known in line with the engine."""
        known_before = set(self.by_key)
        self.touched.clear()
        wanted = [f"{name}={value}" for name, value in self.labels.items()]
        found = {
            ExecutorKey(one["Labels"][container.APPLICATION], one["Labels"][container.EXECUTOR]): one["Id"]
            for one in client.containers(all=True, filters={"label": wanted})
            if {container.APPLICATION, container.EXECUTOR} <= one["Labels"].keys()
        }
        for key in known_before - found.keys() - self.starting - self.touched:
            if (known := self.by_key.get(key)) is not None:
                self.lost(known)
        for key, identity in found.items():
            known = self.by_key.get(key)
            if key in self.starting | self.touched or identity in self.removing:
                continue
            if known is None or known.id != identity:
                self.adopt(key, identity, client)
        with _logged("the directory of records"):
            self._records.mkdir(parents=True, mode=0o700, exist_ok=True)
        self.listed = True

    def adopt(self, key: ExecutorKey, identity: str, client: docker.APIClient) -> None:
        """Learn a container's process and where the kernel counts for it."""
        with suppress(NotFound):
            self.learn(key, identity, client.inspect_container(identity))

    def learn(self, key: ExecutorKey, identity: str, inspected: Mapping[str, Any]) -> None:
        """Take over the engine's description of a container."""
        known = KnownContainer(identity, container.observed(key, inspected))
        pid = inspected["State"]["Pid"]
        if inspected["State"]["Running"] and pid:
            known.group = self._cgroups.group_of(pid, must_contain=identity)
            known.process = find_process(pid) if known.group is not None else None
        self._record(known)
        self.by_key[key] = known

    def lost(self, known: KnownContainer) -> None:
        """Forget a container that was removed from outside."""
        self.drop(known)
        self._gone(known.key)

    def drop(self, known: KnownContainer) -> None:
        """Forget a container, unless another container of its key is known by now."""
        if self.has(known):
            del self.by_key[known.key]
            with _logged(f"the record of executor {known.key.text}"):
                self._record_path(known.key).unlink(missing_ok=True)

    def _record(self, known: KnownContainer) -> None:
        if not known.last.running:
            return
        record = ContainerRecord(
            cluster_id=self._cluster_id,
            worker_id=self._worker_id,
            application_id=known.key.application_id,
            executor_id=known.key.executor_id,
            container=known.id,
            process=known.process,
        )
        with _logged(f"the record of executor {known.key.text}"):
            executor_record.write(self._record_path(known.key), record)

    def _record_path(self, key: ExecutorKey) -> Path:
        return self._records / f"{self.name_of(key)}.json"


@contextmanager
def _logged(what: str) -> Iterator[None]:
    """Log a file that cannot be written (a full disk); such a file stops nothing."""
    try:
        yield
    except OSError as error:
        log.warning("%s cannot be changed: %s", what, error)

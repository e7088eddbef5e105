"""The docker runtime: every executor is a container of the local Docker engine, found again by its labels and by records.

Nothing that runs every control period waits for the engine, which may hang. Containers are read, paced and limited through
the kernel's files. The engine is informed afterwards, in the background (`chores`): so `docker inspect` shows the truth, and
no update of the engine's own puts an older value back for long. The list of containers, how a container ended and removals
are left to the background, too. Records (`executor_record`) let an agent find its containers while the engine does not
answer.

Where the files are not visible (agent in a container, Docker Desktop), `observe` shows the engine's last answer to the
background, and quotas wait for the engine. One thread may start and stop while another observes and removes. Not here:
building the image (`image`), container options (`docker_container`).
"""

from __future__ import annotations

import errno
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound

from controller.machine.files import cache_root
from controller.machine.process import Process, find_process
from controller.runtime import executor_record, launching
from controller.runtime.base import CPU_PERIOD_US, TMP_MB, ExecutorKey, JavaProgram, Launch, Observed, Program
from controller.runtime.cgroup.files import OpenFiles
from controller.runtime.cgroup.tree import CgroupTree, Group, quota_us
from controller.runtime.docker import container
from controller.runtime.docker import image as images
from controller.runtime.docker.chores import Chores, NoAnswer, NotYet
from controller.runtime.docker.client import EngineClients, for_callers, for_chores, there
from controller.runtime.docker.holding import Holding
from controller.runtime.docker.networks import DockerNetworks
from controller.runtime.docker.updates import Updates
from controller.runtime.docker.users_files import UsersFiles
from controller.runtime.executor_record import ContainerRecord
from stage_model.errors import RuntimeFailed, RuntimeRefused

LIST_EVERY_S = 10.0
EXIT_S, EXIT_LATE_S = 10.0, 60.0
"""Time in which an executor whose process is gone counts as running until the engine reports its exit code: while the engine
does not answer, and while it answers but has not noticed."""
NOTICED_S = 0.1
"""Time that an engine needs, roughly, to notice that a container's process is gone."""
AGAIN_S = 2.0
"""Delay of a second update after an unanswered first: the engine may carry the first out when it comes back, after a newer
update, so the newest is sent once more."""
RLIMIT = "setting rlimit"
"""Words of an engine that may not have as much of something as it was to allow."""
CLOSE_S = 3.0
"""Longest wait at the end for the updates that the engine is still to get."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """A container. `process` and `group` are None when its files are not visible; `kill_at` is when `stop`'s grace is over,
    `gone_at` when its process was first seen to be gone. `lock` is held while files are written or compared with what is
    wanted: `quota_us` and `memory_bytes`, None until they are set here. `refused`: the files are another user's. `doubtful`:
    updates that were not answered."""

    id: str
    last: Observed
    process: Process | None = None
    group: Group | None = None
    files: OpenFiles = field(default_factory=OpenFiles)
    kill_at: float | None = None
    gone_at: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    quota_us: int | None = None
    memory_bytes: int | None = None
    refused: bool = False
    doubtful: set[str] = field(default_factory=set)

    def writable(self) -> Group | None:
        """Return the container's control group, where its files may be written."""
        return None if self.refused else self.group

    def lives(self) -> bool:
        """Return True if the container's process is there; False also where that is not visible."""
        return self.process is not None and self.process.is_alive()


class DockerRuntime:
    """The runtime, see the module. `image` is for launches that name none (None: the executor image, built on `base_image`).
    `records` is a directory only for its records; `networks` are for launches that have one. `tmp_mb`: of /tmp in each
    container.

    `base_url` None means DOCKER_HOST and its kin, else the default socket. Raises `Unavailable` when no engine answers and
    there are no records of an earlier runtime to go on with.
    """

    name = "docker"

    def __init__(
        self,
        cluster_id: str,
        worker_id: str,
        *,
        image: str | None = None,
        base_image: str | None = None,
        lock_file: Path | None = None,
        records: Path | None = None,
        networks: DockerNetworks | None = None,
        tmp_mb: int = TMP_MB,
        base_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        cgroups: CgroupTree | None = None,
    ) -> None:
        self._cluster_id = cluster_id
        self._worker_id = worker_id
        self._image = image
        self._base_image = base_image
        self._lock_file = lock_file or cache_root() / "image.lock"
        self._records = records
        self._networks = networks
        self._limits = container.ContainerLimits(tmp_mb, container.most_files())
        self._users = UsersFiles(records, container.TMP)
        self._clock = clock
        self._cgroups = cgroups or CgroupTree()
        self._engine = EngineClients(base_url)
        self._updates = Updates(self._engine.quick)
        self.chores = Chores(self._engine.knock)
        self._known: dict[ExecutorKey, _Known] = {}
        self._starting: set[ExecutorKey] = set()
        self._touched: set[ExecutorKey] = set()
        """Executors that were started or removed since the engine was last asked for its list: its answer may be older than
        that."""
        self._removing: set[str] = set()
        self._list_at = -math.inf
        self._listed = records is not None and records.is_dir()
        """True if all containers are known. The directory of records is made with the first list."""
        self._program_labels = {container.CLUSTER: cluster_id, container.WORKER: worker_id, container.PROGRAM: "1"}
        self._holding = Holding(self._engine, self._program_labels)
        if self._listed:
            self._recall()
        else:
            with there(self._engine.settings):
                self._engine.quick()

    def _recall(self) -> None:
        """Take over what an earlier runtime knew."""
        assert self._records is not None
        for _, record in executor_record.read_all(self._records, ContainerRecord, self._cluster_id, self._worker_id):
            pid = record.process.pid if record.process else None
            last = Observed(record.key, True, None, 0.0, 0, pid=pid)
            known = self._known[record.key] = _Known(record.container, last, record.process)
            if known.lives() and pid is not None:
                known.group = self._cgroups.group_of(pid, must_contain=known.id)
                if known.group is None:  # nothing says that it is the container's process
                    known.process, known.last = None, replace(last, pid=None)

    # ---------------------------------------------------------------- images

    def prepare_image(self, image: str | None = None) -> str:
        """Return the image that executors will run in, built or pulled now if it is missing. Raise as `start` does."""
        image = image or self._image
        with for_callers(f"image {image or 'of executors'}"):
            if image is not None:
                return images.ensure_named_image(self._engine.patient(), image)
            return images.ensure_executor_image(self._engine.patient(), self._base_image, self._lock_file)

    def java(self, java_home: str, image: str | None) -> JavaProgram:  # noqa: ARG002 - the driver's Java is not in the image
        """Return the image's own `java`, by PATH: the default image and the usual public ones have it there."""
        name = self.prepare_image(image)
        with for_callers(f"image {name}"):
            return JavaProgram("java", images.image_id(self._engine.patient(), name) or name)

    def run_program(self, program: Program) -> str:
        name = self.prepare_image(program.image)
        with for_callers(f"program {program.argv[0]}"):
            client, hold = self._engine.patient(), self._holding.used_for(program.binds, name)
            return container.run_program(client, name, program, self._program_labels, hold=hold)

    # ---------------------------------------------------------------- starting and ending

    def start(self, launch: Launch) -> None:
        launching.checked_cores(launch.cores)
        known = self._find(launch.key)
        if known is not None and self._look(known).running:
            return
        # A list made meanwhile would show a container that is created but not started yet: an ended executor.
        self._starting.add(launch.key)
        try:
            self._start(launch)
        except BaseException:
            self._leave_network(launch.key)
            raise
        finally:
            self._touched.add(launch.key)
            self._starting.discard(launch.key)

    def _start(self, launch: Launch) -> None:
        image = self.prepare_image(launch.image)
        launching.ensure_log_dir(launch)
        name = launching.unique_name(self._cluster_id, self._worker_id, launch.key)
        labels = {**launch.labels, **self._labels(launch.key)}
        with for_callers(f"executor {'/'.join(launch.key)}"):
            client, network = self._engine.patient(), "host"
            if launch.network is not None:
                if self._networks is None:
                    raise RuntimeRefused(f"executor {'/'.join(launch.key)} is to have a network and this worker makes none")
                network = self._networks.ensure(client, launch.key.application_id, launch.network)
            users, hold = self._users.of(launch.uid, launch.gid), self._holding.used_for(launch.binds, image)
            setting = container.ContainerSetting(image, labels, network, self._limits, users, hold)
            try:
                created = container.create(client, name, launch, setting)
            except APIError as error:
                if error.status_code != 409:
                    raise container.refusal(launch, error) from error
                if not self._clear_name(name, launch.key):
                    return
                created = container.create(client, name, launch, setting)
            try:
                client.start(created)
            except APIError as error:
                client.remove_container(created, force=True, v=True)
                if self._limits.files is None or RLIMIT not in str(error.explanation):
                    raise container.refusal(launch, error) from error
                log.warning("the Docker engine may not allow %d open files: its own limit holds", self._limits.files)
                self._limits = replace(self._limits, files=None)
                self._start(launch)
                return
            self._adopt(launch.key, created, client)
            self._see_that_shown(launch, created, client)

    def _see_that_shown(self, launch: Launch, created: str, client: docker.APIClient) -> None:
        """End at once an executor that sees something else than what was checked. Raise `RuntimeRefused`."""
        known = self._known.get(launch.key)
        bind = container.changed(launch.binds, known.process.pid) if known is not None and known.process is not None else None
        if known is not None and bind is not None:
            client.remove_container(created, force=True, v=True)
            self._drop(launch.key, known)
            raise RuntimeRefused(
                f"mount {str(bind.path)!r} was changed while executor {'/'.join(launch.key)} started, which is ended; "
                f"mount a path that does not change"
            )

    def _clear_name(self, name: str, key: ExecutorKey) -> bool:
        """Free the container name that is taken: return False if this very executor has it and runs; else remove what is left
        of it."""
        client = self._engine.patient()
        try:
            found = client.inspect_container(name)
        except NotFound:
            return True
        labels = found["Config"]["Labels"] or {}
        if any(labels.get(label) != value for label, value in self._labels(key).items()):
            raise RuntimeRefused(f"container name {name} is taken by a foreign container; rename or remove that one")
        if found["State"]["Running"]:
            self._adopt(key, found["Id"], client)
            return False
        client.remove_container(found["Id"], force=True, v=True)
        return True

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:
        """Stop as the protocol says; return at once: SIGKILL after the grace is sent by `observe`."""
        known = self._find(key)
        if known is None or not self._look(known).running:
            return
        known.kill_at = min(known.kill_at or math.inf, self._clock() + grace_s)
        number = signal.SIGKILL if grace_s <= 0 else signal.SIGTERM
        if not _signal(known, number):
            with for_callers(f"executor {'/'.join(key)}"):
                self._have_signalled(known, number)

    def _kill(self, key: ExecutorKey, known: _Known) -> None:
        """Kill an executor whose grace is over."""
        if _signal(known, signal.SIGKILL):
            return
        kill = partial(self._have_signalled, known, signal.SIGKILL)
        self.chores.ask(("kill", known.id), for_chores(f"the end of executor {'/'.join(key)}")(kill))

    def _have_signalled(self, known: _Known, number: signal.Signals) -> None:
        """Send a signal by the engine. Raise its errors."""
        if self.chores.away:
            raise TimeoutError("it did not answer the last time")
        try:
            self._engine.quick().kill(known.id, number.name)
        except APIError as error:
            if error.status_code not in (404, 409):  # gone, or no longer running
                raise

    def remove(self, key: ExecutorKey) -> None:
        """Remove as the protocol says; the container itself goes in the background."""
        known = self._find(key)
        if known is None:
            return
        if self._look(known).running:
            raise launching.still_runs(key)
        self._removing.add(known.id)
        self._touched.add(key)
        self._drop(key, known)
        self.chores.ask(("remove", known.id), partial(self._have_removed, key, known))

    def _have_removed(self, key: ExecutorKey, known: _Known) -> None:
        with for_chores(f"the removal of executor {'/'.join(key)}"):
            try:
                # by force: an engine that was away may not know yet that it has ended
                self._engine.quick().remove_container(known.id, v=True, force=True)
            except APIError as error:
                if error.status_code not in (404, 409):  # gone, or its removal is in progress
                    raise
        self._removing.discard(known.id)
        self._leave_network(key)

    def _leave_network(self, key: ExecutorKey) -> None:
        """Remove the network of the executor's application in the background, if no container is in it any more."""
        if self._networks is not None:
            self.chores.ask(("network", key.application_id), partial(self._have_dropped, self._networks, key.application_id))

    def _have_dropped(self, networks: DockerNetworks, application_id: str) -> None:
        with for_chores(f"the removal of the network of {application_id}"):
            try:
                networks.drop(self._engine.quick(), application_id)
            except RuntimeRefused as error:
                log.warning("the network of %s is left: %s", application_id, error)
            except RuntimeFailed as error:
                raise NotYet(str(error)) from error

    def images(self) -> tuple[str, ...]:
        with for_callers("listing its images"):
            found = self._engine.quick().images()
        return tuple(sorted({tag for image in found for tag in image["RepoTags"] or ()}))

    def alive(self) -> bool:
        return self.chores.alive

    def close(self) -> None:
        """Close as the protocol says; a program that is under way ends. An engine that answers still gets the updates that
        are due."""
        self.chores.ask("clear", self._clear)
        self.chores.settle(CLOSE_S)
        self.chores.close(self._hang_up)

    def _hang_up(self) -> None:
        self._updates.close()
        self._engine.close()
        self._users.close()

    @for_chores("the end of programs")
    def _clear(self) -> None:
        container.clear(self._engine.quick(), self._program_labels)

    # ---------------------------------------------------------------- pacing

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        launching.checked_cores(cores)
        known = self._find(key)
        if known is None or not self._alive(known):
            return False
        with known.lock:
            known.quota_us = quota_us(cores)
            if not self._written(key, known, lambda group: self._cgroups.write_quota(group, cores)):
                return False
        self._tell(key, known, "quota")
        return True

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:
        """Set the limit as the protocol says. On cgroups v2 the kernel would kill rather than refuse, so use is looked at
        first."""
        launching.checked_memory(memory_bytes)
        known = self._find(key)
        if known is None or not self._alive(known):
            return False
        used = self._look(known).memory_bytes
        if used > memory_bytes:
            raise launching.in_use(key, used, memory_bytes)
        group = known.writable()
        if group is None or group.memory is None:
            return self._have_limited(key, known, memory_bytes)
        with known.lock:
            before, known.memory_bytes = known.memory_bytes, memory_bytes
            try:
                if not self._written(key, known, lambda group: self._cgroups.write_memory_limit(group, memory_bytes)):
                    return False
            except RuntimeFailed:
                known.memory_bytes = before
                raise
        if known.writable() is None:  # found out just now
            return self._have_limited(key, known, memory_bytes)
        self._tell(key, known, "memory")
        return True

    def _written(self, key: ExecutorKey, known: _Known, write: Callable[[Group], bool]) -> bool:
        """Write a file of the container's group, where there are files that may be written. Return False when the group is
        gone."""
        group = known.writable()
        if group is None:
            return True
        try:
            return write(group)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise RuntimeFailed(
                    f"the kernel refused the limit of executor {'/'.join(key)} ({error}); try later"
                ) from error
            known.refused = True  # the agent is another user: the engine does it, a little later
        return True

    def _have_limited(self, key: ExecutorKey, known: _Known, memory_bytes: int) -> bool:
        """Set a memory limit by the engine. The caller must know whether it holds before others get the memory, so this
        waits, but not for an engine that is known to be away."""
        with for_callers(f"the memory limit of executor {'/'.join(key)}"):
            if self.chores.away:
                raise TimeoutError("it did not answer the last time")
            try:
                self._updates.set_memory_limit(known.id, memory_bytes)
            except APIError:
                if self._alive(known):
                    raise
                return False
        known.last = replace(known.last, memory_limit_bytes=memory_bytes)
        return True

    def _tell(self, key: ExecutorKey, known: _Known, what: str, delay_s: float = 0.0) -> None:
        """Send the engine the newest value of `what`, "quota" or "memory"."""
        self.chores.ask((what, known.id), partial(self._have_told, key, known, what), delay_s=delay_s)

    def _have_told(self, key: ExecutorKey, known: _Known, what: str) -> None:
        if self._known.get(key) is not known:
            return
        try:
            with for_chores(f"the {what} of executor {'/'.join(key)}"):
                if what == "quota" and known.quota_us is not None:
                    self._updates.set_quota(known.id, known.quota_us)
                elif what == "memory" and known.memory_bytes is not None:
                    self._updates.set_memory_limit(known.id, known.memory_bytes)
        except NoAnswer:
            known.doubtful.add(what)
            raise
        except NotYet:
            if self._alive(known):
                raise
        finally:
            self._put_right(key, known)
        if what in known.doubtful:
            known.doubtful.discard(what)
            self._tell(key, known, what, AGAIN_S)

    def _put_right(self, key: ExecutorKey, known: _Known) -> None:
        """Write the newest values again where the engine has written older ones, also of what it was not asked to change."""
        with known.lock:
            group = known.writable()
            if group is None:
                return
            try:
                cores = None if known.quota_us is None else known.quota_us / CPU_PERIOD_US
                if cores is not None and self._cgroups.read_quota(group) != cores:
                    self._cgroups.write_quota(group, cores)
                limit = known.memory_bytes
                if limit is not None and self._cgroups.read_memory_limit(group) != limit:
                    self._cgroups.write_memory_limit(group, limit)
            except OSError as error:  # the control loop sees it at its next look
                log.warning("the limits of executor %s were not put right: %s", key.text, error)

    # ---------------------------------------------------------------- observing

    def observe(self) -> dict[ExecutorKey, Observed]:
        now = self._clock()
        self._see_that_known()
        if now >= self._list_at:
            self._list_at = now + LIST_EVERY_S
            self.chores.ask("list", for_chores("the list of containers")(self._list))
        seen: dict[ExecutorKey, Observed] = {}
        for key, known in list(self._known.items()):
            found = self._look(known)
            if key not in self._known:  # removed by somebody else
                continue
            seen[key] = found
            if found.running and known.process is None:
                self._inquire(known)
            if found.running and known.kill_at is not None and now >= known.kill_at:
                self._kill(key, known)
        return seen

    def _find(self, key: ExecutorKey) -> _Known | None:
        self._see_that_known()
        return self._known.get(key)

    def _see_that_known(self) -> None:
        """Wait for the engine, only before the first list or record: an empty answer would mean that nothing runs."""
        if not self._listed:
            with for_callers("the list of containers"):
                self._list()
            self._list_at = self._clock() + LIST_EVERY_S

    def _list(self) -> None:
        """Bring `_known` in line with the engine."""
        known_before = set(self._known)
        self._touched.clear()
        client = self._engine.quick()
        wanted = [f"{container.CLUSTER}={self._cluster_id}", f"{container.WORKER}={self._worker_id}"]
        found = {
            ExecutorKey(one["Labels"][container.APPLICATION], one["Labels"][container.EXECUTOR]): one["Id"]
            for one in client.containers(all=True, filters={"label": wanted})
            if {container.APPLICATION, container.EXECUTOR} <= one["Labels"].keys()
        }
        for key in known_before - found.keys() - self._starting - self._touched:
            if (known := self._known.get(key)) is not None:
                self._drop(key, known)
                self._leave_network(key)
        for key, identity in found.items():
            known = self._known.get(key)
            if key in self._starting | self._touched or identity in self._removing:
                continue
            if known is None or known.id != identity:
                self._adopt(key, identity, client)
        if self._records is not None:
            with _told("the directory of records"):
                self._records.mkdir(parents=True, mode=0o700, exist_ok=True)
        self._listed = True

    def _adopt(self, key: ExecutorKey, identity: str, client: docker.APIClient) -> None:
        """Learn a container's process and where the kernel counts for it."""
        with suppress(NotFound):
            self._learn(key, identity, client.inspect_container(identity))

    def _learn(self, key: ExecutorKey, identity: str, inspected: Mapping[str, Any]) -> None:
        known = _Known(identity, container.observed(key, inspected))
        pid = inspected["State"]["Pid"]
        if inspected["State"]["Running"] and pid:
            known.group = self._cgroups.group_of(pid, must_contain=identity)
            known.process = find_process(pid) if known.group is not None else None
        self._record(key, known)
        self._known[key] = known

    def _alive(self, known: _Known) -> bool:
        """Return False once the container has surely ended."""
        return known.last.running and (known.process is None or known.lives())

    def _look(self, known: _Known) -> Observed:
        """Return the state of one container now; where its files are not visible, the engine's last answer."""
        if not known.last.running or known.process is None:
            return known.last
        if not known.lives():
            return self._ended(known)
        usage = self._cgroups.read(known.group, known.files.text) if known.group is not None else None
        if usage is not None:
            known.last = replace(
                known.last,
                quota_cores=usage.quota_cores,
                cpu_s=usage.cpu_s,
                memory_bytes=usage.memory_bytes or 0,
                memory_limit_bytes=usage.memory_limit_bytes,
                throttled_s=usage.throttled_s,
            )
        return known.last

    def _ended(self, known: _Known) -> Observed:
        """Return the state of a container whose process is gone: the engine gets some time to say how it ended."""
        now = self._clock()
        known.gone_at = now if known.gone_at is None else known.gone_at
        self._inquire(known)
        away = self.chores.away
        if now - known.gone_at >= (EXIT_S if away else EXIT_LATE_S):
            why = "did not answer" if away else "did not notice"
            known.last = _over(known.last, f"it ended, but the Docker engine {why}, so its exit code is not known")
        return known.last

    def _inquire(self, known: _Known, delay_s: float = 0.0) -> None:
        self.chores.ask(("inquire", known.id), partial(self._have_inquired, known), delay_s=delay_s)

    def _have_inquired(self, known: _Known) -> None:
        """Take over the engine's answer: the process is gone, or its files are not visible here."""
        key = known.last.key
        if self._known.get(key) is not known:
            return
        with for_chores(f"executor {'/'.join(key)}"):
            client = self._engine.quick()
            try:
                inspected = client.inspect_container(known.id)
                found = container.observed(key, inspected)
                if found.running and known.process is None:
                    found = container.with_stats(found, client.stats(known.id, stream=False, one_shot=True))
            except NotFound:
                known.last = _over(known.last, "the container was removed from outside")
                self._drop(key, known)
                self._leave_network(key)
                return
        if not found.running:  # the kernel's counters went with the group: the last that were read are kept
            last = known.last
            known.last = replace(found, cpu_s=last.cpu_s, memory_bytes=last.memory_bytes, throttled_s=last.throttled_s)
        elif known.process is None:
            known.last = found
        elif found.pid != known.process.pid:
            self._learn(key, known.id, inspected)
        elif not known.lives():  # the engine has not noticed
            gone_s = 0.0 if known.gone_at is None else self._clock() - known.gone_at
            self._inquire(known, max(NOTICED_S, gone_s / 4))

    # ---------------------------------------------------------------- records

    def _record(self, key: ExecutorKey, known: _Known) -> None:
        """Write a record by which the next agent finds the executor while the engine does not answer; an engine that answers
        lists it anyway."""
        if self._records is None or not known.last.running:
            return
        record = ContainerRecord(
            cluster_id=self._cluster_id,
            worker_id=self._worker_id,
            application_id=key.application_id,
            executor_id=key.executor_id,
            container=known.id,
            process=known.process,
        )
        with _told(f"the record of executor {'/'.join(key)}"):
            executor_record.write(self._record_path(key), record)

    def _drop(self, key: ExecutorKey, known: _Known) -> None:
        """Forget a container, unless another container of its key is known by now."""
        if self._known.get(key) is known:
            del self._known[key]
            if self._records is not None:
                with _told(f"the record of executor {'/'.join(key)}"):
                    self._record_path(key).unlink(missing_ok=True)

    def _record_path(self, key: ExecutorKey) -> Path:
        assert self._records is not None
        return self._records / f"{launching.unique_name(self._cluster_id, self._worker_id, key)}.json"

    def _labels(self, key: ExecutorKey) -> Mapping[str, str]:
        return container.labels(self._cluster_id, self._worker_id, key)


def _over(last: Observed, reason: str) -> Observed:
    """Return the state of a container that has ended, its end unknown."""
    return replace(last, running=False, quota_cores=None, reason=reason, pid=None, memory_limit_bytes=None)


def _signal(known: _Known, number: signal.Signals) -> bool:
    """Send a signal straight to the container's first process, as the engine does, too; return False where that is not
    possible."""
    return known.process is not None and known.process.send(number)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Log a file that cannot be written (a full disk); such a file stops nothing."""
    try:
        yield
    except OSError as error:
        log.warning("%s cannot be changed: %s", what, error)

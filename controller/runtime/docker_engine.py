"""The docker runtime: every executor is a container of the local Docker engine, found again by its labels.

`observe` runs every control period, so it asks the engine for the list only at the start and every `LIST_EVERY_S`; else
it reads the kernel's files of the known containers. Where those are not visible (agent in a container, Docker Desktop)
each container costs one inspect and one stats request instead. Quotas go through the engine (`docker update`), so that
`docker inspect` tells the truth. One thread may start and stop while another observes and removes, and several pace. Not
here: building the image (`image`), container options (`docker_container`).
"""

from __future__ import annotations

import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import docker
import docker.utils
from docker.errors import APIError, DockerException, NotFound

from controller.runtime import docker_container as container
from controller.runtime import image as images
from controller.runtime import launching, process_identity
from controller.runtime.base import ExecutorKey, Java, Launch, Observed, Program
from controller.runtime.cgroup import CgroupTree, Group, OpenFiles, quota_us
from controller.runtime.engine_updates import Updates
from stage_model.errors import RuntimeFailed, RuntimeRefused, Unavailable

LIST_EVERY_S = 10.0
REQUEST_TIMEOUT_S = 30

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """One container. `group` is None when its files are not visible; `kill_at` is when `stop`'s grace is over."""

    id: str
    last: Observed
    process: process_identity.Identity | None = None
    group: Group | None = None
    files: OpenFiles = field(default_factory=OpenFiles)
    kill_at: float | None = None


class DockerRuntime:
    """See the module. `image` is for launches that name none (None: the executor image, built on `base_image`).

    `base_url` None means DOCKER_HOST and its kin, else the default socket. Raises `Unavailable` when no engine answers.
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
        base_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        cgroups: CgroupTree | None = None,
    ) -> None:
        self._cluster_id = cluster_id
        self._worker_id = worker_id
        self._image = image
        self._base_image = base_image
        self._lock_file = lock_file or Path(tempfile.gettempdir(), f"sparkpace-image-{os.getuid()}.lock")
        self._clock = clock
        self._cgroups = cgroups or CgroupTree()
        self._client = connect(base_url)
        self._updates = Updates(self._client)
        self._known: dict[ExecutorKey, _Known] = {}
        self._starting: set[ExecutorKey] = set()
        self._list_at = -math.inf
        self._program_labels = {container.CLUSTER: cluster_id, container.WORKER: worker_id, container.PROGRAM: "1"}

    # ---------------------------------------------------------------- images

    def prepare_image(self, image: str | None = None) -> str:
        """The image executors will run in, built or pulled now if it is missing. Raises as `start` does."""
        image = image or self._image
        with _engine(f"image {image or 'of executors'}"):
            if image is not None:
                return images.ensure_named_image(self._client, image)
            return images.ensure_executor_image(self._client, self._base_image, self._lock_file)

    def java(self, java_home: str, image: str | None) -> Java:  # noqa: ARG002 - the driver's Java is not in the image
        """The image's own `java`, by PATH: the default image and the usual public ones have it there."""
        name = self.prepare_image(image)
        with _engine(f"image {name}"):
            return Java("java", images.image_id(self._client, name) or name)

    def run_program(self, program: Program) -> str:
        name = self.prepare_image(program.image)
        with _engine(f"program {program.argv[0]}"):
            return container.run_program(self._client, name, program, self._program_labels)

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
        finally:
            self._starting.discard(launch.key)

    def _start(self, launch: Launch) -> None:
        image = self.prepare_image(launch.image)
        launching.ensure_log_dir(launch)
        name = launching.unique_name(self._cluster_id, self._worker_id, launch.key)
        labels = {**launch.labels, **self._labels(launch.key)}
        with _engine(f"executor {'/'.join(launch.key)}"):
            try:
                created = container.create(self._client, name, launch, image, labels)
            except APIError as error:
                if error.status_code != 409:
                    raise container.refusal(launch, error) from error
                if not self._clear_name(name, launch.key):
                    return
                created = container.create(self._client, name, launch, image, labels)
            try:
                self._client.start(created)
            except APIError as error:
                self._client.remove_container(created, force=True, v=True)
                raise container.refusal(launch, error) from error
            self._adopt(launch.key, created)

    def _clear_name(self, name: str, key: ExecutorKey) -> bool:
        """The name is taken: False if by this very executor, running; else what is left of it is removed."""
        try:
            found = self._client.inspect_container(name)
        except NotFound:
            return True
        labels = found["Config"]["Labels"] or {}
        if any(labels.get(label) != value for label, value in self._labels(key).items()):
            raise RuntimeRefused(f"container name {name} is taken by a foreign container; rename or remove that one")
        if found["State"]["Running"]:
            self._adopt(key, found["Id"])
            return False
        self._client.remove_container(found["Id"], force=True, v=True)
        return True

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:
        """As the protocol says; returns at once: SIGKILL after the grace is sent by `observe`."""
        known = self._find(key)
        if known is None or not self._look(known).running:
            return
        known.kill_at = min(known.kill_at or math.inf, self._clock() + grace_s)
        with _engine(f"executor {'/'.join(key)}"):
            if grace_s <= 0:
                self._signal(known, "SIGKILL")
            else:
                self._signal(known, "SIGTERM")

    def _signal(self, known: _Known, signal: str) -> None:
        try:
            self._client.kill(known.id, signal)
        except APIError as error:
            if error.status_code not in (404, 409):  # gone, or no longer running
                raise

    def remove(self, key: ExecutorKey) -> None:
        known = self._find(key)
        if known is None:
            return
        if self._look(known).running:
            raise launching.still_runs(key)
        with _engine(f"executor {'/'.join(key)}"):
            try:
                self._client.remove_container(known.id, v=True)
            except APIError as error:
                if error.status_code not in (404, 409):  # gone, or its removal is in progress
                    raise
        self._known.pop(key, None)

    def images(self) -> tuple[str, ...]:
        with _engine("listing its images"):
            found = self._client.images()
        return tuple(sorted({tag for image in found for tag in image["RepoTags"] or ()}))

    def close(self) -> None:
        """As the protocol says; a program that is under way ends."""
        with suppress(DockerException, OSError):
            container.clear(self._client, self._program_labels)
        self._updates.close()
        self._client.close()

    # ---------------------------------------------------------------- pacing

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        launching.checked_cores(cores)
        known = self._find(key)
        if known is None or not self._alive(known):
            return False
        with _engine(f"the quota of executor {'/'.join(key)}"):
            try:
                self._updates.set_quota(known.id, quota_us(cores))
            except APIError:
                if self._alive(known) and self._look(known).running:
                    raise
                return False
        return True

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:
        """As the protocol says. On cgroups v2 the kernel would kill rather than refuse, so use is looked at first."""
        launching.checked_memory(memory_bytes)
        known = self._find(key)
        if known is None or not self._alive(known):
            return False
        used = self._look(known).memory_bytes
        if used > memory_bytes:
            raise launching.in_use(key, used, memory_bytes)
        with _engine(f"the memory limit of executor {'/'.join(key)}"):
            try:
                self._client.update_container(known.id, mem_limit=memory_bytes, memswap_limit=memory_bytes)
            except APIError:
                if self._alive(known) and self._look(known).running:
                    raise
                return False
        return True

    # ---------------------------------------------------------------- observing

    def observe(self) -> dict[ExecutorKey, Observed]:
        now = self._clock()
        if now >= self._list_at:
            self._list(now)
        seen: dict[ExecutorKey, Observed] = {}
        for key, known in list(self._known.items()):
            found = self._look(known)
            if key not in self._known:  # removed by somebody else
                continue
            seen[key] = found
            if found.running and known.kill_at is not None and now >= known.kill_at:
                with _engine(f"executor {'/'.join(key)}"):
                    self._signal(known, "SIGKILL")
        return seen

    def _find(self, key: ExecutorKey) -> _Known | None:
        if self._list_at == -math.inf:
            self._list(self._clock())
        return self._known.get(key)

    def _list(self, now: float) -> None:
        """Brings `_known` in line with the engine. Failing is bearable once something is known: files still tell."""
        known_before = set(self._known)
        wanted = [f"{container.CLUSTER}={self._cluster_id}", f"{container.WORKER}={self._worker_id}"]
        try:
            with _engine("the list of containers"):
                found = {
                    ExecutorKey(one["Labels"][container.APPLICATION], one["Labels"][container.EXECUTOR]): one["Id"]
                    for one in self._client.containers(all=True, filters={"label": wanted})
                    if {container.APPLICATION, container.EXECUTOR} <= one["Labels"].keys()
                }
                for key in known_before - found.keys() - self._starting:
                    self._known.pop(key, None)
                for key, identity in found.items():
                    known = self._known.get(key)
                    if key not in self._starting and (known is None or known.id != identity):
                        self._adopt(key, identity)
        except RuntimeFailed as failure:
            if self._list_at == -math.inf:
                raise
            log.warning("%s; going on with the containers known so far", failure)
        self._list_at = now + LIST_EVERY_S

    def _adopt(self, key: ExecutorKey, identity: str) -> None:
        """Learns a container's process and where the kernel counts for it."""
        try:
            inspected = self._client.inspect_container(identity)
        except NotFound:
            return
        known = _Known(identity, container.observed(key, inspected))
        pid = inspected["State"]["Pid"]
        if inspected["State"]["Running"] and pid:
            known.group = self._cgroups.group_of(pid, must_contain=identity)
            known.process = process_identity.of(pid) if known.group is not None else None
        self._known[key] = known

    def _alive(self, known: _Known) -> bool:
        """False once it has surely ended."""
        if known.process is None:
            return self._look(known).running
        return known.last.running and process_identity.is_alive(known.process)

    def _look(self, known: _Known) -> Observed:
        """What is true of one container now."""
        if not known.last.running:
            return known.last
        if known.process is not None and known.group is not None and process_identity.is_alive(known.process):
            usage = self._cgroups.read(known.group, known.files.text)
            if usage is not None:
                known.last = replace(
                    known.last,
                    quota_cores=usage.quota_cores,
                    cpu_s=usage.cpu_s,
                    memory_bytes=usage.memory_bytes or 0,
                    memory_limit_bytes=usage.memory_limit_bytes,
                )
                return known.last
        return self._ask(known)

    def _ask(self, known: _Known) -> Observed:
        """The engine's word: the process is gone, or its files are not visible here."""
        key = known.last.key
        with _engine(f"executor {'/'.join(key)}"):
            try:
                inspected = self._client.inspect_container(known.id)
                found = container.observed(key, inspected)
                if found.running and known.group is None:
                    stats = self._client.stats(known.id, stream=False, one_shot=True)
                    found = container.with_stats(found, stats)
                else:  # the kernel's counters went with the group: keep the last that were read
                    found = replace(found, cpu_s=known.last.cpu_s, memory_bytes=known.last.memory_bytes)
            except NotFound:
                self._known.pop(key, None)
                found = replace(known.last, running=False, reason="the container was removed from outside", pid=None)
        known.last = found
        return found

    def _labels(self, key: ExecutorKey) -> Mapping[str, str]:
        return container.labels(self._cluster_id, self._worker_id, key)


def connect(base_url: str | None) -> docker.APIClient:
    """A client that speaks the engine's own API version. Raises `Unavailable` when no engine answers."""
    settings: dict[str, Any] = {"base_url": base_url} if base_url else dict(docker.utils.kwargs_from_env())
    try:
        return docker.APIClient(version="auto", timeout=REQUEST_TIMEOUT_S, **settings)
    except (DockerException, OSError) as error:
        raise Unavailable(
            f"no Docker engine answers at {settings.get('base_url', 'the default socket')} ({error}); "
            "start it (`make engine`) or choose --runtime process"
        ) from error


@contextmanager
def _engine(what: str) -> Iterator[None]:
    """Turns the client's errors into `RuntimeFailed`: the engine is away, slow, or in trouble; later it may work."""
    try:
        yield
    except (DockerException, OSError) as error:  # requests' errors are OSErrors
        raise RuntimeFailed(f"the Docker engine failed on {what} ({error}); is it running?") from error

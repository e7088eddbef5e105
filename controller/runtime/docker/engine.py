"""The docker runtime: every executor is a container of the local Docker engine, found again by its labels and by records.

Nothing that runs every control period waits for the engine, which may hang. Containers are read, paced and limited through
the kernel's files (`state`). The engine is informed afterwards, in the background (`chores`). The list of containers, how a
container ended and removals are left to the background, too. Records (`known`) let an agent find its containers while the
engine does not answer.

Where the files are not visible (agent in a container, Docker Desktop), `observe` shows the engine's last answer to the
background, and quotas wait for the engine. One thread may start and stop while another observes and removes. Not here:
building the image (`image`), container options (`container`).
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from docker.errors import APIError, NotFound

from controller.runtime import launching
from controller.runtime.base import TMP_MB, ExecutorKey, JavaProgram, Launch, Observed, Program, Starter, TrafficPlace
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker import container
from controller.runtime.docker import image as images
from controller.runtime.docker.chores import Chores, NotYet
from controller.runtime.docker.client import EngineClients, for_callers, for_chores, there
from controller.runtime.docker.known import KnownContainer, KnownContainers
from controller.runtime.docker.mounting import Holding, changed, users_file
from controller.runtime.docker.networks import DockerNetworks
from controller.runtime.docker.state import ContainerStates
from controller.runtime.networks import network_names
from stage_model.errors import RuntimeFailed, RuntimeRefused

LIST_EVERY_S = 10.0
RLIMIT = "setting rlimit"
"""Words of an engine that may not have as much of something as it should give a container."""
CLOSE_S = 3.0
"""Longest wait at the end for the updates that the engine is still to get."""

log = logging.getLogger(__name__)


class DockerRuntime(Starter):
    """The runtime, see the module. `records` is a directory only for its records. `image` is for launches that name none
    (None: the executor image, built on `base_image`). `networks` are for launches that have one. `tmp_mb`: of /tmp in each
    container.

    `base_url` None means DOCKER_HOST and its kin, else the default socket. Raises `Unavailable` when no engine answers and
    there are no records of an earlier runtime to go on with.
    """

    def __init__(
        self,
        cluster_id: str,
        worker_id: str,
        records: Path,
        *,
        image: str | None = None,
        base_image: str | None = None,
        networks: DockerNetworks | None = None,
        tmp_mb: int = TMP_MB,
        base_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        cgroups: CgroupTree | None = None,
    ) -> None:
        self._cluster_id = cluster_id
        self._image = image
        self._base_image = base_image
        self._records = records
        self._networks = networks
        self._tmp_mb = tmp_mb
        self._most_files: int | None = container.most_files()
        self._clock = clock
        self._engine = EngineClients(base_url)
        self.chores = Chores(self._engine.knock)
        cgroups = cgroups or CgroupTree()
        self._known = KnownContainers(cluster_id, worker_id, records, cgroups, self._leave_network)
        self._states = ContainerStates(self._known, self._engine, self.chores, cgroups, clock)
        self._list_at = 0.0
        self._program_labels = {**self._known.labels, container.PROGRAM: "1"}
        self._holding = Holding(self._engine, self._run)
        if not self._known.listed:
            with there(self._engine.settings):
                self._engine.quick()

    # ---------------------------------------------------------------- images

    def prepare_image(self, image: str | None = None) -> str:
        """Return the image that executors will run in, built or pulled now if it is missing. Raise as `start` does."""
        image = image or self._image
        with for_callers(f"image {image or 'of executors'}"):
            if image is not None:
                return images.ensure_named_image(self._engine.patient(), image)
            return images.ensure_executor_image(self._engine.patient(), self._base_image)

    def java(self, java_home: str, image: str | None) -> JavaProgram:  # noqa: ARG002 - the driver's Java is not in the image
        """Return the image's own `java`, by PATH: the default image and the usual public ones have it there."""
        name = self.prepare_image(image)
        with for_callers(f"image {name}"):
            return JavaProgram("java", images.image_id(self._engine.patient(), name) or name)

    def run_program(self, program: Program) -> str:
        name = self.prepare_image(program.image)
        with for_callers(f"program {program.argv[0]}"):
            return self._run(name, program, hold=self._holding.used_for(program.binds, name))

    def _run(self, image: str, program: Program, *, hold: bool = True) -> str:
        return container.run_program(self._engine.patient(), image, program, self._program_labels, hold=hold)

    # ---------------------------------------------------------------- starting and ending

    def start(self, launch: Launch) -> None:
        launching.checked_cores(launch.cores)
        known = self._find(launch.key)
        if known is not None and self._states.look(known).running:
            return
        # A list made meanwhile would show a container that is created but not started yet: an ended executor.
        self._known.starting.add(launch.key)
        try:
            self._start(launch)
        except BaseException:
            self._leave_network(launch.key)
            raise
        finally:
            self._known.touched.add(launch.key)
            self._known.starting.discard(launch.key)

    def _start(self, launch: Launch) -> None:
        image = self.prepare_image(launch.image)
        launching.ensure_log_dir(launch)
        name = self._known.name_of(launch.key)
        with for_callers(f"executor {launch.key.text}"):
            client, network = self._engine.patient(), "host"
            if launch.network is not None:
                if self._networks is None:
                    raise RuntimeRefused(f"executor {launch.key.text} is to have a network and this worker makes none")
                network = self._networks.ensure(client, launch.key.application_id, launch.network)
            setting = container.ContainerSetting(
                image,
                {**launch.labels, **self._known.labels_of(launch.key)},
                network,
                self._tmp_mb,
                self._most_files,
                users_file(self._records, launch.uid, launch.gid, container.TMP),
                hold=self._holding.used_for(launch.binds, image),
            )
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
                if self._most_files is None or RLIMIT not in str(error.explanation):
                    raise container.refusal(launch, error) from error
                log.warning("the Docker engine may not allow %d open files: its own limit holds", self._most_files)
                self._most_files = None
                self._start(launch)
                return
            self._known.adopt(launch.key, created, client)
            self._see_that_shown(launch)

    def _see_that_shown(self, launch: Launch) -> None:
        """End at once an executor that sees another file than the checked one. Raise `RuntimeRefused`."""
        known = self._known.by_key.get(launch.key)
        bind = changed(launch.binds, known.process.pid) if known is not None and known.process is not None else None
        if known is not None and bind is not None:
            self._engine.patient().remove_container(known.id, force=True, v=True)
            self._known.drop(known)
            raise RuntimeRefused(
                f"mount {str(bind.path)!r} was changed while executor {launch.key.text} started, which is ended; "
                f"mount a path that does not change"
            )

    def _clear_name(self, name: str, key: ExecutorKey) -> bool:
        """Free the container name that is taken: return False if this very executor has the name and runs; else remove the
        container that has it."""
        client = self._engine.patient()
        try:
            found = client.inspect_container(name)
        except NotFound:
            return True
        labels = found["Config"]["Labels"] or {}
        if any(labels.get(label) != value for label, value in self._known.labels_of(key).items()):
            raise RuntimeRefused(f"container name {name} is taken by a foreign container; rename or remove that one")
        if found["State"]["Running"]:
            self._known.adopt(key, found["Id"], client)
            return False
        client.remove_container(found["Id"], force=True, v=True)
        return True

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:
        """Stop as the protocol says; return at once: SIGKILL after the grace is sent by `observe`."""
        known = self._find(key)
        if known is None or not self._states.look(known).running:
            return
        known.kill_at = min(known.kill_at, self._clock() + grace_s)
        number = signal.SIGKILL if grace_s <= 0 else signal.SIGTERM
        if not known.send(number):
            with for_callers(f"executor {key.text}"):
                self._have_signalled(known, number)

    def _kill(self, known: KnownContainer) -> None:
        """Kill an executor whose grace is over."""
        if known.send(signal.SIGKILL):
            return
        kill = partial(self._have_signalled, known, signal.SIGKILL)
        self.chores.ask(("kill", known.id), for_chores(f"the end of executor {known.key.text}")(kill))

    def _have_signalled(self, known: KnownContainer, number: signal.Signals) -> None:
        """Send a signal by the engine. Raise its errors."""
        if self.chores.away:
            raise TimeoutError("it did not answer the last time")
        with container.unless_over():
            self._engine.quick().kill(known.id, number.name)

    def remove(self, key: ExecutorKey) -> None:
        """Remove as the protocol says; the container itself goes in the background."""
        known = self._find(key)
        if known is None:
            return
        if self._states.look(known).running:
            raise launching.still_runs(key)
        self._known.removing.add(known.id)
        self._known.touched.add(key)
        self._known.drop(known)
        self.chores.ask(("remove", known.id), partial(self._have_removed, known))

    def _have_removed(self, known: KnownContainer) -> None:
        with for_chores(f"the removal of executor {known.key.text}"), container.unless_over():
            # by force: an engine that was away may not know yet that it has ended
            self._engine.quick().remove_container(known.id, v=True, force=True)
        self._known.removing.discard(known.id)
        self._leave_network(known.key)

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
        self._states.close()
        self._engine.close()

    @for_chores("the end of programs")
    def _clear(self) -> None:
        container.clear(self._engine.quick(), self._program_labels)

    # ---------------------------------------------------------------- pacing

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        launching.checked_cores(cores)
        known = self._find(key)
        return known is not None and known.may_live() and self._states.set_quota(known, cores)

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:
        launching.checked_memory(memory_bytes)
        known = self._find(key)
        return known is not None and known.may_live() and self._states.set_memory_limit(known, memory_bytes)

    # ---------------------------------------------------------------- observing

    def place(self, key: ExecutorKey) -> TrafficPlace | None:
        known = self._known.by_key.get(key)
        if known is None or known.group is None or known.process is None or not known.lives():
            return None
        bridge = network_names(self._cluster_id, key.application_id).interface if self._networks is not None else ""
        return TrafficPlace(known.process.pid, known.group.io, bridge)

    def observe(self) -> dict[ExecutorKey, Observed]:
        now = self._clock()
        self._see_that_known()
        if now >= self._list_at:
            self._list_at = now + LIST_EVERY_S
            self.chores.ask("list", for_chores("the list of containers")(self._list))
        seen: dict[ExecutorKey, Observed] = {}
        for key, known in list(self._known.by_key.items()):
            found = self._states.look(known)
            if key not in self._known.by_key:  # removed by somebody else
                continue
            seen[key] = found
            if found.running and known.process is None:
                self._states.inquire(known)
            if found.running and now >= known.kill_at:
                self._kill(known)
        return seen

    def _find(self, key: ExecutorKey) -> KnownContainer | None:
        self._see_that_known()
        return self._known.by_key.get(key)

    def _see_that_known(self) -> None:
        """Wait for the engine, only before the first list or record: an empty answer would mean that nothing runs."""
        if not self._known.listed:
            with for_callers("the list of containers"):
                self._list()
            self._list_at = self._clock() + LIST_EVERY_S

    def _list(self) -> None:
        self._known.take_list(self._engine.quick())

"""The state of a container now, from the kernel's files. The engine says how the container ended.

Where the files are not visible, the state is the engine's last answer to the background.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from docker.errors import NotFound

from controller.runtime.base import Observed
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker import container
from controller.runtime.docker.chores import Chores
from controller.runtime.docker.client import EngineClients, for_chores
from controller.runtime.docker.known import KnownContainer, KnownContainers

EXIT_S, EXIT_LATE_S = 10.0, 60.0
"""Time in which an executor whose process is gone counts as running until the engine reports its exit code: while the engine
does not answer, and while it answers but has not noticed."""
NOTICED_S = 0.1
"""Time that an engine needs, roughly, to notice that a container's process is gone."""


class Observer:
    """The states of known containers. `clock` gives monotonic seconds."""

    def __init__(
        self,
        known: KnownContainers,
        engine: EngineClients,
        chores: Chores,
        cgroups: CgroupTree,
        clock: Callable[[], float],
    ) -> None:
        self._known, self._engine, self._chores, self._cgroups = known, engine, chores, cgroups
        self._clock = clock

    def look(self, known: KnownContainer) -> Observed:
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

    def _ended(self, known: KnownContainer) -> Observed:
        """Return the state of a container whose process is gone: the engine gets some time to say how it ended."""
        now = self._clock()
        known.gone_at = now if known.gone_at is None else known.gone_at
        self.inquire(known)
        away = self._chores.away
        if now - known.gone_at >= (EXIT_S if away else EXIT_LATE_S):
            why = "did not answer" if away else "did not notice"
            known.over(f"it ended, but the Docker engine {why}, so its exit code is not known")
        return known.last

    def inquire(self, known: KnownContainer, delay_s: float = 0.0) -> None:
        """Ask the engine about a container in the background."""
        self._chores.ask(("inquire", known.id), partial(self._have_inquired, known), delay_s=delay_s)

    def _have_inquired(self, known: KnownContainer) -> None:
        """Take over the engine's answer: the process is gone, or its files are not visible here."""
        key = known.last.key
        if self._known.by_key.get(key) is not known:
            return
        with for_chores(f"executor {key.text}"):
            client = self._engine.quick()
            try:
                inspected = client.inspect_container(known.id)
                found = container.observed(key, inspected)
                if found.running and known.process is None:
                    found = container.with_stats(found, client.stats(known.id, stream=False, one_shot=True))
            except NotFound:
                known.over("the container was removed from outside")
                self._known.lost(key, known)
                return
        if not found.running:  # the kernel's counters went with the group: the last that were read are kept
            last = known.last
            known.last = replace(found, cpu_s=last.cpu_s, memory_bytes=last.memory_bytes, throttled_s=last.throttled_s)
        elif known.process is None:
            known.last = found
        elif found.pid != known.process.pid:
            self._known.learn(key, known.id, inspected)
        elif not known.lives():  # the engine has not noticed
            gone_s = 0.0 if known.gone_at is None else self._clock() - known.gone_at
            self.inquire(known, max(NOTICED_S, gone_s / 4))

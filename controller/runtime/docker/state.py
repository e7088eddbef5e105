"""The state of a container now, its quota and its memory limit, by the kernel's files.

Files are written at once, and the engine is informed afterwards. So `docker inspect` shows the truth, and no update of the
engine's own puts an older value back for long. The engine says how a container ended. Where the files are not visible, the
state is the engine's last answer to the background. Where the files are not visible, or another user's, the engine sets the
values: quotas in the background, memory limits while the caller waits.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from docker.errors import APIError, NotFound

from controller.runtime import launching
from controller.runtime.base import CPU_PERIOD_US, Observed
from controller.runtime.cgroup.group import Group, quota_us, with_usage
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker import container
from controller.runtime.docker.chores import Chores, NoAnswer, NotYet
from controller.runtime.docker.client import EngineClients, for_callers, for_chores
from controller.runtime.docker.known import KnownContainer, KnownContainers
from controller.runtime.docker.updates import Updates
from stage_model.errors import RuntimeFailed

EXIT_S, EXIT_LATE_S = 10.0, 60.0
"""Time in which an executor whose process is gone counts as running until the engine reports its exit code: while the engine
does not answer, and while it answers but has not noticed."""
NOTICED_S = 0.1
"""Time that an engine needs, roughly, to notice that a container's process is gone."""
AGAIN_S = 2.0
"""Delay of a second update after an unanswered first: the engine may carry the first out when it comes back, after a newer
update, so the newest is sent once more."""

log = logging.getLogger(__name__)


class ContainerStates:
    """The states and limits of known containers. `clock` gives monotonic seconds."""

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
        self._updates = Updates(engine.quick)

    # ---------------------------------------------------------------- observing

    def look(self, known: KnownContainer) -> Observed:
        """Return the state of one container now; where its files are not visible, the engine's last answer."""
        if not known.last.running or known.process is None:
            return known.last
        if not known.lives():
            return self._ended(known)
        usage = self._cgroups.read(known.group, known.files.text) if known.group is not None else None
        if usage is not None:
            known.last = with_usage(known.last, usage)
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
        if not self._known.has(known):
            return
        with for_chores(f"executor {known.key.text}"):
            client = self._engine.quick()
            try:
                inspected = client.inspect_container(known.id)
                found = container.observed(known.key, inspected)
                if found.running and known.process is None:
                    found = container.with_stats(found, client.stats(known.id, stream=False, one_shot=True))
            except NotFound:
                known.over("the container was removed from outside")
                self._known.lost(known)
                return
        if not found.running:  # the kernel's counters went with the group: the last readings are kept
            last = known.last
            known.last = replace(found, cpu_s=last.cpu_s, memory_bytes=last.memory_bytes, throttled_s=last.throttled_s)
        elif known.process is None:
            known.last = found
        elif found.pid != known.process.pid:
            self._known.learn(known.key, known.id, inspected)
        elif not known.lives():  # the engine has not noticed
            gone_s = 0.0 if known.gone_at is None else self._clock() - known.gone_at
            self.inquire(known, max(NOTICED_S, gone_s / 4))

    # ---------------------------------------------------------------- limiting

    def set_quota(self, known: KnownContainer, cores: float) -> bool:
        """Set the quota as `Runtime.set_quota` says."""
        with known.lock:
            known.quota_us = quota_us(cores)
            if not self._written(known, lambda group: self._cgroups.write_quota(group, cores)):
                return False
        self.inform(known, "quota")
        return True

    def set_memory_limit(self, known: KnownContainer, memory_bytes: int) -> bool:
        """Set the limit as `Runtime.set_memory_limit` says. On cgroups v2 the kernel would kill rather than refuse."""
        used = self.look(known).memory_bytes
        if used > memory_bytes:
            raise launching.in_use(known.key, used, memory_bytes)
        group = known.writable()
        if group is None or group.memory is None:
            return self._have_limited(known, memory_bytes)
        with known.lock:
            before, known.memory_bytes = known.memory_bytes, memory_bytes
            try:
                if not self._written(known, lambda group: self._cgroups.write_memory_limit(group, memory_bytes)):
                    return False
            except RuntimeFailed:
                known.memory_bytes = before
                raise
        if known.writable() is None:  # the engine's answer may have shown that just now
            return self._have_limited(known, memory_bytes)
        self.inform(known, "memory")
        return True

    def _written(self, known: KnownContainer, write: Callable[[Group], bool]) -> bool:
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
                    f"the kernel refused the limit of executor {known.key.text} ({error}); try later"
                ) from error
            known.refused = True  # the agent is another user: the engine does it, a little later
        return True

    def _have_limited(self, known: KnownContainer, memory_bytes: int) -> bool:
        """Set a memory limit by the engine. The caller must know whether it holds before others get the memory, so this
        waits, but not for an engine that is known to be away."""
        with for_callers(f"the memory limit of executor {known.key.text}"):
            if self._chores.away:
                raise TimeoutError("it did not answer the last time")
            try:
                self._updates.set_memory_limit(known.id, memory_bytes)
            except APIError:
                if known.may_live():
                    raise
                return False
        known.last = replace(known.last, memory_limit_bytes=memory_bytes)
        return True

    def inform(self, known: KnownContainer, what: str, delay_s: float = 0.0) -> None:
        """Send the engine the newest value of `what`, "quota" or "memory", in the background."""
        self._chores.ask((what, known.id), partial(self._have_informed, known, what), delay_s=delay_s)

    def _have_informed(self, known: KnownContainer, what: str) -> None:
        if not self._known.has(known):
            return
        try:
            with for_chores(f"the {what} of executor {known.key.text}"):
                if what == "quota" and known.quota_us is not None:
                    self._updates.set_quota(known.id, known.quota_us)
                elif what == "memory" and known.memory_bytes is not None:
                    self._updates.set_memory_limit(known.id, known.memory_bytes)
        except NoAnswer:
            known.doubtful.add(what)
            raise
        except NotYet:
            if known.may_live():
                raise
        finally:
            self._put_right(known)
        if what in known.doubtful:
            known.doubtful.discard(what)
            self.inform(known, what, AGAIN_S)

    def _put_right(self, known: KnownContainer) -> None:
        """Write the newest values again where the engine has written older ones, also values that it was not asked to
        change."""
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
                log.warning("the limits of executor %s were not put right: %s", known.key.text, error)

    def close(self) -> None:
        self._updates.close()

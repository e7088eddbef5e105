"""Quotas and memory limits of containers: the kernel's files are written at once, and the engine is informed afterwards.

So `docker inspect` shows the truth, and no update of the engine's own puts an older value back for long. Where the files are
not visible, or another user's, the engine sets the values: quotas in the background, memory limits while the caller waits.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from docker.errors import APIError

from controller.runtime import launching
from controller.runtime.base import CPU_PERIOD_US, ExecutorKey
from controller.runtime.cgroup.group import Group, quota_us
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker.chores import Chores, NoAnswer, NotYet
from controller.runtime.docker.client import EngineClients, for_callers, for_chores
from controller.runtime.docker.known import KnownContainer, KnownContainers
from controller.runtime.docker.updates import Updates
from stage_model.errors import RuntimeFailed

AGAIN_S = 2.0
"""Delay of a second update after an unanswered first: the engine may carry the first out when it comes back, after a newer
update, so the newest is sent once more."""

log = logging.getLogger(__name__)


class Limiter:
    """The limits of known containers."""

    def __init__(self, known: KnownContainers, engine: EngineClients, chores: Chores, cgroups: CgroupTree) -> None:
        self._known, self._chores, self._cgroups = known, chores, cgroups
        self._updates = Updates(engine.quick)

    def set_quota(self, key: ExecutorKey, known: KnownContainer, cores: float) -> bool:
        """Set the quota as `Runtime.set_quota` says."""
        with known.lock:
            known.quota_us = quota_us(cores)
            if not self._written(key, known, lambda group: self._cgroups.write_quota(group, cores)):
                return False
        self.inform(key, known, "quota")
        return True

    def set_memory_limit(self, key: ExecutorKey, known: KnownContainer, memory_bytes: int, used: int) -> bool:
        """Set the limit as `Runtime.set_memory_limit` says; the container uses `used` bytes. On cgroups v2 the kernel would
        kill rather than refuse."""
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
        self.inform(key, known, "memory")
        return True

    def _written(self, key: ExecutorKey, known: KnownContainer, write: Callable[[Group], bool]) -> bool:
        """Write a file of the container's group, where there are files that may be written. Return False when the group is
        gone."""
        group = known.writable()
        if group is None:
            return True
        try:
            return write(group)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise RuntimeFailed(f"the kernel refused the limit of executor {key.text} ({error}); try later") from error
            known.refused = True  # the agent is another user: the engine does it, a little later
        return True

    def _have_limited(self, key: ExecutorKey, known: KnownContainer, memory_bytes: int) -> bool:
        """Set a memory limit by the engine. The caller must know whether it holds before others get the memory, so this
        waits, but not for an engine that is known to be away."""
        with for_callers(f"the memory limit of executor {key.text}"):
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

    def inform(self, key: ExecutorKey, known: KnownContainer, what: str, delay_s: float = 0.0) -> None:
        """Send the engine the newest value of `what`, "quota" or "memory", in the background."""
        self._chores.ask((what, known.id), partial(self._have_told, key, known, what), delay_s=delay_s)

    def _have_told(self, key: ExecutorKey, known: KnownContainer, what: str) -> None:
        if self._known.by_key.get(key) is not known:
            return
        try:
            with for_chores(f"the {what} of executor {key.text}"):
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
            self._put_right(key, known)
        if what in known.doubtful:
            known.doubtful.discard(what)
            self.inform(key, known, what, AGAIN_S)

    def _put_right(self, key: ExecutorKey, known: KnownContainer) -> None:
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

    def close(self) -> None:
        self._updates.close()

"""Versions that say which agents should look again at once: every worker's desired state has one that grows with each such
change."""

from __future__ import annotations

from collections.abc import Callable, Collection

from controller.master.application import Application
from controller.master.registry import Registry


class Versions:
    """The versions of all workers; `changed` is called with the ids of workers whose agents should look again."""

    def __init__(self, registry: Registry, changed: Callable[[Collection[str]], None]) -> None:
        self.registry, self._changed = registry, changed
        self.last = 1
        self._of: dict[str, int] = {}

    def bump(self, application: Application) -> None:
        """Note that the desired state of the application's workers has changed."""
        self.last += 1
        where = {e.record.worker_id for e in application.executors.values() if not e.cleaned}
        self.registry.touched |= where
        self._of.update(dict.fromkeys(where, self.last))
        self._changed(where)

    def of(self, worker_id: str) -> int:
        """Return the version of a worker's desired state: it grows whenever its agent should look again before the period is
        over."""
        return self._of.get(worker_id, 1)

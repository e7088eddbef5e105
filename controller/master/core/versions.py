"""Versions that say which agents should look again at once: every worker's desired state has one that grows with each such
change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from controller.master.core.application import Application


class Versions:
    """The versions of all workers; `changed` is called with the ids of workers whose agents should look again."""

    def __init__(self, changed: Callable[[Collection[str]], None]) -> None:
        self._changed = changed
        self._of: dict[str, int] = {}

    def wake_agents(self, applications: Iterable[Application]) -> None:
        """Have the agents of these applications' workers look again: the desired state of each has changed."""
        where = set[str]().union(*(application.worker_ids() for application in applications))
        self._of.update({worker_id: self.of(worker_id) + 1 for worker_id in where})
        if where:
            self._changed(where)

    def of(self, worker_id: str) -> int:
        """Return the version of a worker's desired state: it grows whenever its agent should look again before the period is
        over."""
        return self._of.get(worker_id, 1)

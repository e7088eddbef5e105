"""Applications that wait for a worker, in order, and the workers that they want: kept up to date, so that no application is
counted again for each of the others.

Higher priority comes first, then earlier submission; no one overtakes (docs/decisions/0012-elastic-memory.md). A change of
what counts here is noted in `Changes.dirty_applications`, and looked at with the next question."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from controller.master.core.application import Application
from controller.master.core.guard import guarded
from controller.master.core.needs import counts
from controller.master.core.registry import Registry

Workers = frozenset[str]
Rank = tuple[int, float, str]
"""A smaller rank comes first; the last part is the application's id."""


def by_rank(applications: Iterable[Application]) -> list[Application]:
    """Return the applications in the order in which they are served."""
    return sorted(applications, key=rank_of)


def rank_of(application: Application) -> Rank:
    return -application.priority(), application.started_s, application.id


def waits(application: Application) -> bool:
    """Return True if the application wants executors and has none."""
    if application.ended or not application.placement.wants_any:
        return False
    return not any(counts(application, executor) for executor in application.executors.values())


@dataclass(frozen=True, slots=True)
class _Entry:
    """One application that waits. `wants` None: it waits for another application to end, or for its user to have less, and
    keeps no one out."""

    rank: Rank
    wants: Workers | None


class Queue:
    """The line of applications; `wants` says to which workers an application may go sooner or later."""

    def __init__(self, registry: Registry, wants: Callable[[Application], Workers]) -> None:
        self.registry, self._wants = registry, wants
        self._entries: dict[str, _Entry] = {}
        self._waiting: list[Rank] = []
        self._in_line: list[Rank] = []
        """The ranks that wait, without those of applications that keep no one out."""
        self._wanting: dict[Workers, list[Rank]] = {}
        """Ranks in line, by the workers that they want: many want the same."""
        self._together: dict[tuple[Workers, ...], Workers] = {}

    def position(self, application: Application) -> int | None:
        """Return the place, from 1, among the applications that wait; None for an application that does not."""
        self._refresh()
        entry = self._entries.get(application.id)
        return None if entry is None else 1 + bisect_left(self._waiting, entry.rank)

    def ahead(self, application: Application) -> int:
        """Return the number of applications in line before this one."""
        self._refresh()
        return bisect_left(self._in_line, self._rank(application))

    def before(self, application: Application) -> list[str]:
        """Return the ids of the applications in line before this one."""
        return [key for _, _, key in self._in_line[: self.ahead(application)]]

    def kept(self, application: Application) -> Workers:
        """Return the workers that applications in line before this one want: it gets none of them."""
        self._refresh()
        rank = self._rank(application)
        wanted = tuple(workers for workers, ranks in self._wanting.items() if ranks[0] < rank)
        if wanted not in self._together:
            self._together[wanted] = Workers().union(*wanted)
        return self._together[wanted]

    def leaves_none_of(self, workers: Workers, application: Application) -> bool:
        """Return True if the applications in line before this one want every one of these workers."""
        self._refresh()
        alike = self._wanting.get(workers)
        return (alike is not None and alike[0] < self._rank(application)) or workers <= self.kept(application)

    def workers_changed(self) -> None:
        """Have all the wanted workers worked out again."""
        self.registry.changes.dirty_applications.update(self._entries)

    def _rank(self, application: Application) -> Rank:
        entry = self._entries.get(application.id)
        return rank_of(application) if entry is None else entry.rank

    def _refresh(self) -> None:
        changed = self.registry.changes.dirty_applications
        while changed:
            self._put(changed.pop())

    def _put(self, application_id: str) -> None:
        application, before = self.registry.applications.get(application_id), self._entries.get(application_id)
        now = None
        if application is not None:
            with guarded(application, "finding its place in the queue"):
                now = self._entry(application)
        if now == before:
            return
        self._together.clear()
        if before is not None:
            del self._entries[application_id]
            for ranks in self._lines(before):
                del ranks[bisect_left(ranks, before.rank)]
            if before.wants is not None and not self._wanting[before.wants]:
                del self._wanting[before.wants]
        if now is not None:
            self._entries[application_id] = now
            for ranks in self._lines(now):
                insort(ranks, now.rank)

    def _entry(self, application: Application) -> _Entry | None:
        if not waits(application):
            return None
        keeps_no_one_out = application.held_back or application.placement.over_share
        return _Entry(rank_of(application), None if keeps_no_one_out else self._wants(application))

    def _lines(self, entry: _Entry) -> Sequence[list[Rank]]:
        if entry.wants is None:
            return [self._waiting]
        return [self._waiting, self._in_line, self._wanting.setdefault(entry.wants, [])]

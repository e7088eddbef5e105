"""Looks at the master, once a second for all viewers together, and the state that viewers are shown.

Viewers wait for the next look and take the news in it, so a slow viewer leaves out looks and holds up no other. A master that
does not answer is shown as trouble, and the last look stays. Not covered: HTTP (`server`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from controller.client import LastingClient
from controller.ui.course_points import CoursePoints
from controller.wire.command import ApplicationView, WorkerView
from controller.wire.course import Course
from stage_model.errors import PaceError, Unavailable

log = logging.getLogger("sparkpace.ui")

PERIOD_S = 1.0
KEPT_LOOKS = 900
"""Looks of grants over time: a quarter of an hour."""
MOST_WATCHED = 50
"""Most applications watched at once."""
KEPT_UNWATCHED = 10
"""Courses that are kept without viewers, for viewers who come back."""
MOST_ASKED = 5
"""Most calls for the past of a course in one look; the next look goes on."""


class Picture(msgspec.Struct, frozen=True):
    """One look, in the master's own words; `at` is epoch seconds, for people. `trouble`: the reason if the look is an old
    one."""

    at: float = 0.0
    trouble: str = ""
    applications: tuple[ApplicationView, ...] = ()
    workers: tuple[WorkerView, ...] = ()


class PastGrants(msgspec.Struct, frozen=True):
    """Cores granted at each look, for the applications that had any."""

    times: list[float]
    grants: dict[str, list[float]]


@dataclass(slots=True)
class _Watched:
    points: CoursePoints
    viewers: int = 0


@dataclass(slots=True)
class Poller:
    """The looks and their viewers. `clock` is epoch seconds. All methods but `look`'s calls run on one event loop."""

    client: LastingClient
    clock: Callable[[], float]
    picture: Picture = field(default_factory=Picture)
    looks: int = 0
    _past: deque[tuple[float, dict[str, float]]] = field(default_factory=lambda: deque(maxlen=KEPT_LOOKS))
    _watched: dict[str, _Watched] = field(default_factory=dict)
    _new: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Look every period until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            try:
                await self.look()
            except Exception:
                log.exception("a look at the master failed and is tried again")
            await asyncio.sleep(max(PERIOD_S / 4, PERIOD_S - (loop.time() - begun_s)))

    async def look(self) -> None:
        all_points = [watched.points for watched in self._watched.values() if watched.viewers]
        self.picture, followed = await asyncio.to_thread(self._look, all_points)
        for points, (courses, problem) in zip(all_points, followed, strict=False):  # none, where the master does not answer
            for course in courses:
                points.take(course)
            points.problem = problem
        granted = {view.application_id: view.granted_cores for view in self.picture.applications if view.granted_cores}
        if not self.picture.trouble:
            self._past.append((self.picture.at, granted))
        self.looks += 1
        new, self._new = self._new, asyncio.Event()
        new.set()

    async def next_look(self, seen: int) -> int:
        """Wait for a look that is not `seen`; return its number."""
        while self.looks == seen:
            await self._new.wait()
        return self.looks

    def past(self) -> PastGrants:
        ids = sorted({application_id for _, granted in self._past for application_id in granted})
        return PastGrants(
            times=[at for at, _ in self._past],
            grants={id_: [granted.get(id_, 0.0) for _, granted in self._past] for id_ in ids},
        )

    @contextmanager
    def watching(self, application_id: str) -> Iterator[CoursePoints]:
        """Hold a viewer of the application: its course is asked for from the next look on, as long as there are viewers.
        Raise `Unavailable`."""
        watched = self._watched.get(application_id)
        if watched is None:
            if sum(kept.viewers > 0 for kept in self._watched.values()) >= MOST_WATCHED:
                raise Unavailable(f"{MOST_WATCHED} applications are watched here already; close one of the pages")
            watched = self._watched[application_id] = _Watched(CoursePoints(application_id))
        watched.viewers += 1
        try:
            yield watched.points
        finally:
            watched.viewers -= 1
            unwatched = [id_ for id_, kept in self._watched.items() if not kept.viewers]
            for id_ in unwatched[:-KEPT_UNWATCHED]:
                del self._watched[id_]

    # ------------------------------------------------------------------ on a thread, one look at a time

    def _look(self, all_points: list[CoursePoints]) -> tuple[Picture, list[tuple[list[Course], str]]]:
        try:
            applications, workers = self.client.applications(), self.client.workers()
        except PaceError as error:
            return msgspec.structs.replace(self.picture, trouble=str(error)), []
        return Picture(self.clock(), "", applications, workers), [self._follow(points) for points in all_points]

    def _follow(self, points: CoursePoints) -> tuple[list[Course], str]:
        """Return the new parts of the course, and the reason if more cannot be read."""
        found: list[Course] = []
        samples, quotas = points.samples_next, points.quotas_next
        try:
            for _ in range(MOST_ASKED):
                found.append(self.client.course(points.application_id, samples, quotas, points.since_s))
                samples, quotas = found[-1].samples_next, found[-1].quotas_next
                if not found[-1].more:
                    break
        except PaceError as error:  # no such run, a damaged one, or no master
            return found, str(error)
        return found, ""

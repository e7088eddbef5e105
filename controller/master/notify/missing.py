"""Jobs that usually are submitted by now and were not: the shell around `stage_model.history.habit`.

Habits follow from the runs of the stored profiles, which are read once a day, off the master's loop; the master itself knows
the last submissions, also of runs that taught nothing.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from controller.master.notify.events import HookEvent, missing_event
from controller.runs.profile_store import ProfileStore
from stage_model.errors import PaceError
from stage_model.history.habit import DAYS, Habit, missing_today

log = logging.getLogger("sparkpace.notify")

LOOK_S = 60.0
"""Time between two looks."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The name that a job's last run had, and the submissions of its runs."""

    name: str
    submitted: tuple[datetime, ...]


class MissingJobs:
    """The jobs of these profiles. `zone` is that of the clock on the wall; profiles are read on a thread of `pool`."""

    def __init__(self, profiles: ProfileStore, zone: tzinfo, pool: Pool) -> None:
        self._profiles, self._zone, self._pool = profiles, zone, pool
        self._known: dict[str, _Known] = {}
        self._reading: Future[dict[str, _Known]] | None = None
        self._read_on: date | None = None
        self._looked_s: float | None = None
        self._reported: dict[str, datetime] = {}

    def events(self, submitted: Mapping[str, float], epoch_s: float) -> list[HookEvent]:
        """Return the events of jobs that did not come, each once on its day. `submitted` are the last submissions by profile,
        in seconds since the epoch, as `epoch_s` is. Raise what the reading of the profiles raised."""
        if self._looked_s is not None and abs(epoch_s - self._looked_s) < LOOK_S:
            return []
        self._looked_s, now = epoch_s, datetime.fromtimestamp(epoch_s, self._zone)
        self._read(now.date())
        found = []
        for key, known in self._known.items():
            last = (datetime.fromtimestamp(submitted[key], self._zone),) if key in submitted else ()
            missing = missing_today((*known.submitted, *last), now)
            reported = self._reported.get(key)
            if missing is not None and (reported is None or reported < missing.since):
                self._reported[key] = now
                found.append(_event(key, known.name, missing))
        return found

    def _read(self, today: date) -> None:
        """Read the profiles once a day: the habit of a day follows from the days before it."""
        if self._reading is None and self._read_on != today:
            self._read_on, self._reading = today, self._pool.submit(_known_jobs, self._profiles, self._zone)
        if self._reading is not None and self._reading.done():
            over, self._reading = self._reading, None
            if over.exception() is not None:
                self._read_on = None  # it is tried again with the next look
            self._known = over.result()


def _event(key: str, name: str, missing: Habit) -> HookEvent:
    latest, by = f"{missing.latest:%H:%M}", f"{missing.by:%H:%M}"
    days = f"{missing.came} of the last {DAYS} days on which it comes"
    reason = f"on {days} it was submitted by {latest}, and today it was not by {by}"
    return missing_event(name, reason, missing.by.timestamp(), f"sparkpace profile show {shlex.quote(key)}")


def _known_jobs(profiles: ProfileStore, zone: tzinfo) -> dict[str, _Known]:
    """Return the jobs of all profiles that can be read, by key."""
    found = {}
    for key in profiles.list():
        try:
            known = profiles.load(key)
            if known is not None and known.runs:
                times = tuple(datetime.fromtimestamp(run.when_ms / 1000, zone) for run in known.runs)
                found[key] = _Known(known.runs[-1].name, times)
        except (PaceError, OSError, ValueError, ArithmeticError) as error:
            log.warning("the job of profile %s is not watched, because its runs cannot be read: %s", key, error)
    return found

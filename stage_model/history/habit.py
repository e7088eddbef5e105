"""The habit of a job that comes daily: by when its run usually was there, from the submissions of earlier days. Pure.

All times are of one zone and count by its clock on the wall, as schedulers count: a job at 02:00 comes at 02:00 in summer,
too. Only the margin counts in real time: a time of the hour that is left out in spring comes an hour later, and of an hour
that comes twice the second one counts. Not covered: the source of the submissions (`controller.master.notify.missing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

DAYS = 7
"""Days that a habit is learned from: the last ones on whose weekday the job comes."""
LEAST_CAME = 5
"""Least number of these days on which the job has come, and least number of the weekdays on which it comes."""
LEAST_MARGIN = timedelta(minutes=15)
_DAY = timedelta(days=1)
_TWO_WEEKS = 14
"""Days in which a job has come on each weekday of its own: a weekday that it misses twice is no longer one."""


@dataclass(frozen=True, slots=True)
class Habit:
    """The habit of a job on its present day, which begins at `since`. On `came` of `DAYS` days its first run was there by
    `latest`; `by` is later than that by the spread of these days, `LEAST_MARGIN` at least."""

    since: datetime
    latest: datetime
    by: datetime
    came: int


def missing_today(submitted: Sequence[datetime], now: datetime) -> Habit | None:
    """Return the habit of a job that usually was there by now and was not submitted today; None for any other job."""
    found = habit(submitted, now)
    # in UTC: two times of one zone would be compared as wall clocks
    if found is None or now.astimezone(UTC) <= found.by.astimezone(UTC) or any(at >= found.since for at in submitted):
        return None
    return found


def habit(submitted: Sequence[datetime], now: datetime) -> Habit | None:
    """Return the habit of a job with these submissions; None for a job without a habit, and on a weekday on which it does not
    come."""
    if len(submitted) < LEAST_CAME:
        return None
    begins = _day_begins(submitted)
    firsts: dict[date, timedelta] = {}
    for at in sorted(submitted):
        firsts.setdefault((at - begins).date(), _of_day(at - begins))
    today = (now - begins).date()
    before = [today - number * _DAY for number in range(1, _TWO_WEEKS + 1)]
    weekdays = {day.weekday() for day in before if day in firsts}
    if len(weekdays) < LEAST_CAME or today.weekday() not in weekdays:
        return None
    days = [day for day in before if day.weekday() in weekdays][:DAYS]
    came = [firsts[day] for day in days if day in firsts]
    if len(came) < LEAST_CAME:
        return None
    since = datetime.combine(today, time.min, now.tzinfo) + begins
    latest = since + max(came)
    real = max(latest.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    by = (real + max(LEAST_MARGIN, max(came) - min(came))).astimezone(now.tzinfo)
    return Habit(since, latest, by, len(came))


def _day_begins(submitted: Sequence[datetime]) -> timedelta:
    """Return the time of day at which the job's day begins: the one farthest from all submissions, so that a job around
    midnight comes once a day."""
    times = sorted(_of_day(at) for at in submitted)
    gaps = zip(times, [*times[1:], times[0] + _DAY], strict=True)
    before, after = max(gaps, key=lambda gap: gap[1] - gap[0])
    return (before + (after - before) / 2) % _DAY


def _of_day(at: datetime) -> timedelta:
    return timedelta(hours=at.hour, minutes=at.minute, seconds=at.second, microseconds=at.microsecond)

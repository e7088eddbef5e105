"""Deadlines as people say them: "by 07:00", "saturday 6:30", "weekdays 07:00 Europe/Berlin". Each is the next such moment.

The clocks of the zone count: where summer time skips a time, the time shown an hour later is meant; of a time that comes
twice, the first. Not covered: durations and ISO times (`stage_model.units`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from stage_model.errors import BadInput

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SETS = {
    "daily": frozenset(range(7)),
    "weekdays": frozenset(range(5)),
    "weekends": frozenset((5, 6)),
    **{day: frozenset((number,)) for number, day in enumerate(_DAYS)},
}
_ZONE = r"[a-z][\w+-]*(?:/[\w+-]+)*"
_SAID = re.compile(rf"(?:by\s+)?(?:([a-z]+)\s+)?(\d{{1,2}}):(\d{{2}})(?:\s+({_ZONE}))?", re.ASCII | re.IGNORECASE)
_LONGEST_TEXT = 100
ACCEPTED = "a time like 'by 07:00' or 'weekdays 07:00 Europe/Berlin'"


def is_clock_time(text: str) -> bool:
    return _parts(text) is not None


def next_time(text: str, now: datetime, *, option: str) -> datetime | None:
    """Return the next such moment after `now` (aware), in UTC; None for a text of another kind. Without a zone that of `now`
    is meant. Raise `BadInput` for a day, time or zone that does not exist."""
    if (parts := _parts(text)) is None:
        return None
    day, hour, minute, zone_name = parts
    if day.lower() not in _SETS:
        raise BadInput(f"{option} {text!r} names a day {day!r}; accepted: {', '.join(_SETS)}")
    if not (hour < 24 and minute < 60):
        raise BadInput(f"{option} {text!r} is no time of a day; accepted: 00:00 to 23:59")
    zone = now.tzinfo if not zone_name else _zone(zone_name, f"{option} {text!r}")
    today = now.astimezone(zone).date()
    # A week and a day: today's time may have passed.
    for date in (today + timedelta(days=number) for number in range(9)):
        at = datetime.combine(date, time(hour, minute), zone).astimezone(UTC)
        if date.weekday() in _SETS[day.lower()] and at > now:
            return at
    raise AssertionError("each day comes once a week")


def _parts(text: str) -> tuple[str, int, int, str] | None:
    """Return the day, hour, minute and zone."""
    said = _SAID.fullmatch(text.strip()) if len(text) <= _LONGEST_TEXT else None
    return (said[1] or "daily", int(said[2]), int(said[3]), said[4] or "") if said else None


def _zone(name: str, given: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # the last for "Europe", which is a folder
        raise BadInput(f"{given} names a zone {name!r} that is not known here; give one like Europe/Berlin") from error

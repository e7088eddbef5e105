"""Values that people type and read: durations, deadlines, priorities, memory and cores, to and from our own units.

The program counts in seconds, cores and MiB; only this module knows how people write them. Every refusal is a `BadInput` that
names the option, the value and what would be accepted. Not covered: settings (`stage_model.settings`).

A deadline may be a clock time, as people say it: "by 07:00", "saturday 6:30", "weekdays 07:00 Europe/Berlin". It is the next
such moment. The clocks of the zone count: where summer time skips a time, the time shown an hour later is meant; of a time
that comes twice, the first.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from stage_model.errors import BadInput

PRIORITIES = {"backfill": -1, "low": 0, "normal": 50, "high": 100}
NORMAL_PRIORITY = PRIORITIES["normal"]
"""The named priorities; a larger number wins."""

_UNIT_WORDS = {
    "d day days": 86_400.0,
    "h hour hours": 3_600.0,
    "m min mins minute minutes": 60.0,
    "s sec secs second seconds": 1.0,
    "ms": 0.001,
}
_UNIT_S = {word: seconds for words, seconds in _UNIT_WORDS.items() for word in words.split()}
_MEMORY_MB = {"": 1.0, "b": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20}
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_PART = re.compile(rf"({_NUMBER})\s*([a-z]+)\s*", re.ASCII)
_PLAIN = re.compile(_NUMBER, re.ASCII)
_MEMORY = re.compile(rf"({_NUMBER})\s*([bkmgt]?)(?:i?b)?", re.ASCII)
_LONGEST_S = 366 * 86_400.0
_LONGEST_TEXT = 100
"""Longest input that is taken: longer input is no duration, and refusals quote what they refuse."""
_DURATIONS = "a duration like 90s, 10min or 1h30m"
_CLOCK_TIMES = "a time like 'by 07:00' or 'weekdays 07:00 Europe/Berlin'"
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SETS = {
    "daily": frozenset(range(7)),
    "weekdays": frozenset(range(5)),
    "weekends": frozenset((5, 6)),
    **{day: frozenset((number,)) for number, day in enumerate(_DAYS)},
}
_ZONE = r"[a-z][\w+-]*(?:/[\w+-]+)*"
_SAID = re.compile(rf"(?:by\s+)?(?:([a-z]+)\s+)?(\d{{1,2}}):(\d{{2}})(?:\s+({_ZONE}))?", re.ASCII | re.IGNORECASE)


def comma_separated(text: str) -> list[str]:
    """Return the words of a list as people type it; empty ones are left out."""
    return [word for word in (part.strip() for part in text.split(",")) if word]


def parse_duration(text: str, *, option: str = "duration") -> float:
    """Return the seconds of "90s", "10min", "1h30m", "2h", "500ms"; a bare number counts seconds.

    Raise `BadInput` unless the result is more than 0 and at most 366 days.
    """
    return _positive_duration(text, option, _DURATIONS)


def parse_deadline(text: str, now: datetime, *, option: str = "--deadline") -> float:
    """Return the seconds from `now` to the deadline: `text` is a duration, an ISO time or a clock time.

    `now` must be aware; a time without a zone is taken in that of `now` (the user's, with its rules of summer time). Raise
    `BadInput` for anything that is not a moment after `now`, at most 366 days away.
    """
    if now.tzinfo is None:
        raise ValueError("now must be an aware datetime")
    accepted = f"{_DURATIONS}, {_CLOCK_TIMES}, or {now + timedelta(days=1):%Y-%m-%d}T18:00"
    at = next_time(text, now, option=option) or _iso_time(text)
    if at is None:
        return _positive_duration(text, option, accepted, "is neither a duration nor a time")
    if at.tzinfo is None:
        at = at.replace(tzinfo=now.tzinfo)
    # In UTC: two times of one zone would be subtracted as wall clocks, an hour wrong over a change of summer time.
    try:
        left_s = (at.astimezone(UTC) - now.astimezone(UTC)).total_seconds()
    except OverflowError as error:
        # the time is within a day of the first or the last possible year
        raise BadInput(f"{option} {_quoted(text)} is not a usable time; give {accepted}.") from error
    if left_s <= 0:
        raise BadInput(
            f"{option} {_quoted(text)} is in the past (it is {now.isoformat(timespec='seconds')}); give {accepted}."
        )
    if left_s > _LONGEST_S:
        raise BadInput(f"{option} {_quoted(text)} is more than 366 days away; give {accepted}.")
    return left_s


class NewDeadline(NamedTuple):
    """A new deadline of an application that runs: `seconds` after its submission, or `from_now` on."""

    seconds: float
    from_now: bool

    def since_submission(self, elapsed_s: float) -> float:
        """Return the seconds from the submission of an application that has run for `elapsed_s` seconds."""
        return self.seconds + (elapsed_s if self.from_now else 0.0)


def parse_new_deadline(text: str, now: datetime, *, option: str = "--deadline") -> NewDeadline | None:
    """Parse as `parse_deadline` does, for an application that runs: a duration counts from its submission. Return None for
    "none": the application no longer has a deadline."""
    if text.strip().lower() == "none":
        return None
    return NewDeadline(parse_deadline(text, now, option=option), from_now=is_time(text))


def is_time(text: str) -> bool:
    """Check that a deadline is a moment rather than a duration."""
    return is_clock_time(text) or _iso_time(text) is not None


def is_clock_time(text: str) -> bool:
    return _clock_parts(text) is not None


def next_time(text: str, now: datetime, *, option: str) -> datetime | None:
    """Return the next moment after `now` (aware) of a clock time, in UTC; None for a text of another kind. Without a zone
    that of `now` is meant. Raise `BadInput` for a day, time or zone that does not exist."""
    if (parts := _clock_parts(text)) is None:
        return None
    day, hour, minute, zone_name = parts
    if day.lower() not in _SETS:
        raise BadInput(f"{option} {text!r} names a day {day!r}; accepted: {', '.join(_SETS)}")
    if not (hour < 24 and minute < 60):
        raise BadInput(f"{option} {text!r} is not a time of day; accepted: 00:00 to 23:59")
    zone = now.tzinfo if not zone_name else _zone(zone_name, f"{option} {text!r}")
    today = now.astimezone(zone).date()
    # A week and a day: today's time may have passed.
    for date in (today + timedelta(days=number) for number in range(9)):
        at = datetime.combine(date, time(hour, minute), zone).astimezone(UTC)
        if date.weekday() in _SETS[day.lower()] and at > now:
            return at
    raise AssertionError("each day comes once a week")


def format_duration(seconds: float) -> str:
    """Return a short, readable duration: "0.4s", "12.5s", "1m30s", "2h5m", "1d2h"; a negative duration carries its sign.

    `parse_duration` reads it back to within half of the smallest part shown.
    """
    if math.isnan(seconds):
        return "?"
    if math.isinf(seconds):
        return "forever" if seconds > 0 else "-forever"
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if round(seconds, 1) < 60:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + "s"
    total = round(seconds)
    if total < 3_600:
        return _two_parts(total, 60, "m", 1, "s")
    if round(total / 60) * 60 < 86_400:
        return _two_parts(round(total / 60) * 60, 3_600, "h", 60, "m")
    return _two_parts(round(total / 3_600) * 3_600, 86_400, "d", 3_600, "h")


def format_distance(error_pct: float) -> str:
    """Return the distance of an end from its deadline, in percent of the deadline."""
    return f"{abs(error_pct):.1f}% {'late' if error_pct > 0 else 'early'}"


def priority_name(priority: int) -> str:
    """Return the name of a priority, or its number if it has no name."""
    return next((name for name, number in PRIORITIES.items() if number == priority), str(priority))


def parse_priority(text: str, *, option: str = "--priority") -> int:
    """Return the number of a name or number from "backfill" (-1) to "high" (100); a larger one wins. Raise `BadInput`."""
    word = text.strip().lower()
    if word in PRIORITIES:
        return PRIORITIES[word]
    if re.fullmatch(r"-1|\d{1,3}", word, re.ASCII) and int(word) <= 100:
        return int(word)
    raise BadInput(
        f"{option} {_quoted(text)} is not a priority; give low (0), normal (50), high (100) or a whole number, 0 to 100; or "
        "backfill (-1)."
    )


def parse_memory_mb(text: str, *, option: str = "memory") -> int:
    """Return the whole MiB of "2g", "512m", "2048" (MiB, as Spark's memory options), rounded up. Raise `BadInput`."""
    match = _MEMORY.fullmatch(text.strip().lower()) if len(text) <= _LONGEST_TEXT else None
    if match is not None:
        mb = math.ceil(float(match[1]) * _MEMORY_MB[match[2]])
        if 0 < mb <= 2**30:
            return mb
    raise BadInput(f"{option} {_quoted(text)} is not an amount of memory; give one like 512m or 2g.")


def parse_cores(text: str, *, option: str = "cores") -> float:
    """Return the cores, a hundredth to 4096, which is as fine as they are shown. Raise `BadInput`."""
    word = text.strip()
    if _PLAIN.fullmatch(word) and 0.01 <= float(word) <= 4096:
        return float(word)
    raise BadInput(f"{option} {_quoted(text)} is not a number of cores; give one of 0.01 to 4096, like 2 or 1.5.")


# ---------------------------------------------------------------- parts of the above


def _positive_duration(text: str, option: str, accepted: str, unlike: str = "is not a duration") -> float:
    word = text.strip().lower()
    if not word:
        raise BadInput(f"{option} is empty; give {accepted}.")
    seconds = _seconds(word) if len(word) <= _LONGEST_TEXT else None
    if seconds is None:
        # A sign is the commonest slip, and "not a duration" would not explain it.
        negative = word.startswith("-") and _seconds(word[1:]) is not None
        problem = "is negative" if negative else unlike
        raise BadInput(f"{option} {_quoted(text)} {problem}; give {accepted}.")
    if seconds <= 0:
        raise BadInput(f"{option} {_quoted(text)} leaves no time; give {accepted}.")
    if seconds > _LONGEST_S:
        raise BadInput(f"{option} {_quoted(text)} is more than 366 days; give {accepted}.")
    return seconds


def _seconds(word: str) -> float | None:
    """Return the seconds of a duration: every part once and in falling order ("1h30m", not "30m1h"), or one bare number."""
    if _PLAIN.fullmatch(word):
        return float(word)
    total, position, last_unit_s = 0.0, 0, math.inf
    while position < len(word):
        part = _PART.match(word, position)
        unit_s = _UNIT_S.get(part[2]) if part else None
        if part is None or unit_s is None or unit_s >= last_unit_s:
            return None
        total += float(part[1]) * unit_s
        position, last_unit_s = part.end(), unit_s
    return total if position else None


def _iso_time(text: str) -> datetime | None:
    """Return the time of an ISO date and time; None for other text. A bare number is never an ISO time, although ISO's basic
    format would allow eight digits."""
    word = text.strip()
    if "-" not in word[1:] or len(word) > _LONGEST_TEXT:
        return None
    try:
        return datetime.fromisoformat(word)
    except ValueError:
        return None


def _clock_parts(text: str) -> tuple[str, int, int, str] | None:
    """Return the day, hour, minute and zone."""
    said = _SAID.fullmatch(text.strip()) if len(text) <= _LONGEST_TEXT else None
    return (said[1] or "daily", int(said[2]), int(said[3]), said[4] or "") if said else None


def _zone(name: str, given: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # the last for "Europe", which is a folder
        raise BadInput(f"{given} names a zone {name!r} that is not known here; give one like Europe/Berlin") from error


def _two_parts(total: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = total % large // small
    return f"{total // large}{large_name}" + (f"{rest}{small_name}" if rest else "")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "...")

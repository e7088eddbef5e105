"""Deadlines as people say them, by wall clocks that are changed twice a year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.errors import BadInput
from stage_model.units import is_clock_time, next_time

BERLIN = ZoneInfo("Europe/Berlin")
# A Thursday.
NOW = datetime(2030, 1, 31, 12, 0, tzinfo=BERLIN)


def in_berlin(text: str, now: datetime = NOW) -> str:
    """Return the moment by the clocks of Berlin."""
    at = next_time(text, now, option="--deadline")
    assert at is not None
    return f"{at.astimezone(BERLIN):%a %d %b %H:%M %z}"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("by 12:01", "Thu 31 Jan 12:01 +0100"),
        ("by 07:00", "Fri 01 Feb 07:00 +0100"),
        ("7:00", "Fri 01 Feb 07:00 +0100"),
        ("12:00", "Fri 01 Feb 12:00 +0100"),
        ("By Weekdays 07:00", "Fri 01 Feb 07:00 +0100"),
        ("weekends 07:00", "Sat 02 Feb 07:00 +0100"),
        ("thursday 11:59", "Thu 07 Feb 11:59 +0100"),
        ("thursday 12:01", "Thu 31 Jan 12:01 +0100"),
        ("daily 07:00 Europe/Berlin", "Fri 01 Feb 07:00 +0100"),
        ("12:00 UTC", "Thu 31 Jan 13:00 +0100"),
        # 23:30 of Thursday in Kiritimati (UTC+14) has passed there, as it is Friday, 01:00.
        ("thursday 23:30 Pacific/Kiritimati", "Thu 07 Feb 10:30 +0100"),
    ],
)
def test_the_next_such_moment_is_meant(text: str, moment: str) -> None:
    assert in_berlin(text) == moment


def test_weekdays_wait_for_monday() -> None:
    assert in_berlin("weekdays 07:00", datetime(2030, 2, 1, 7, 0, tzinfo=BERLIN)) == "Mon 04 Feb 07:00 +0100"


def test_summer_time_counts_by_the_clock_on_the_wall() -> None:
    # Clocks go from 2:00 to 3:00 on Sunday, 31 March 2030, and from 3:00 to 2:00 on Sunday, 27 October.
    spring, autumn = datetime(2030, 3, 30, 22, 0, tzinfo=BERLIN), datetime(2030, 10, 26, 22, 0, tzinfo=BERLIN)
    for evening, hours in ((spring, 8), (autumn, 10)):
        at = next_time("by 07:00", evening, option="--deadline")
        assert at is not None
        assert at - evening.astimezone(UTC) == timedelta(hours=hours)
    assert in_berlin("by 02:30", spring) == "Sun 31 Mar 03:30 +0200", "no clock shows 2:30, so the time an hour later counts"
    assert in_berlin("by 02:30", autumn) == "Sun 27 Oct 02:30 +0200", "the first of two"
    between = datetime(2030, 10, 27, 2, 45, tzinfo=BERLIN)
    assert in_berlin("by 02:30", between) == "Mon 28 Oct 02:30 +0100"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("by 24:00", "23:59"),
        ("by 07:60", "07:60"),
        ("workdays 07:00", "weekdays"),
        ("by 07:00 Europe/Berlim", "Europe/Berlin"),
        ("by 07:00 Europe", "'Europe'"),
    ],
)
def test_what_does_not_exist_is_refused(text: str, part: str) -> None:
    with pytest.raises(BadInput) as caught:
        next_time(text, NOW, option="--deadline")
    assert str(caught.value).startswith(f"--deadline '{text}' ")
    assert part in str(caught.value)


@pytest.mark.parametrize("text", ["90s", "1h30m", "2030-01-31T18:00", "07:00:00", "by", "by 7", "7.30", "", "x" * 200])
def test_other_texts_are_left_to_others(text: str) -> None:
    assert not is_clock_time(text)
    assert next_time(text, NOW, option="--deadline") is None


@given(
    since_2020=st.integers(0, 15 * 366 * 1440),
    minutes=st.integers(0, 24 * 60 - 1),
    day=st.sampled_from(["daily", "weekdays", "weekends", "sunday"]),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
)
def test_it_is_after_now_within_eight_days_and_shows_that_time_or_an_hour_that_is_skipped(
    since_2020: int, minutes: int, day: str, zone: str
) -> None:
    now = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=since_2020)
    at = next_time(f"{day} {minutes // 60:02}:{minutes % 60:02} {zone}", now, option="--deadline")
    assert at is not None
    # Seven days at most; clocks that are put back an hour add one.
    assert timedelta(0) < at - now <= timedelta(days=7, hours=1)
    shown = at.astimezone(ZoneInfo(zone))
    shift = (shown.hour * 60 + shown.minute - minutes) % (24 * 60)
    assert shift in (0, 30, 60)
    if shift:
        earlier = (shown - timedelta(minutes=shift)).astimezone(UTC).astimezone(ZoneInfo(zone))
        assert earlier.utcoffset() != shown.utcoffset(), "the clock skips the time that was said"

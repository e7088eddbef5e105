"""The habit of a job that comes daily: by examples, and as properties of jobs that keep to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.history.habit import LEAST_MARGIN, habit, missing_today

MONDAY = datetime(2030, 1, 7, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


def daily(*minutes: int, hour: int = 1, first: datetime = MONDAY) -> list[datetime]:
    """Return submissions of days that follow each other, these minutes after that hour."""
    return [first + number * DAY + hour * HOUR + one * MINUTE for number, one in enumerate(minutes)]


STEADY = daily(50, 52, 58, 50, 50, 50, 54)
"""Seven days from Monday to Sunday, 01:50 to 01:58."""
NEXT = MONDAY + 7 * DAY


def test_a_job_is_missing_after_the_latest_time_and_a_margin() -> None:
    # at 01:58 at the latest; the spread of 8 minutes is less than a quarter of an hour
    by = NEXT + 2 * HOUR + 13 * MINUTE
    assert missing_today(STEADY, by) is None
    found = missing_today(STEADY, by + MINUTE)
    assert found is not None
    assert (found.latest, found.by, found.came) == (NEXT + HOUR + 58 * MINUTE, by, 7)
    assert missing_today([*STEADY, NEXT + HOUR + 50 * MINUTE], by + MINUTE) is None, "it came"


def test_the_margin_is_the_spread_where_that_is_larger() -> None:
    found = habit(daily(0, 40, 0, 0, 0, 0, 0), NEXT)
    assert found is not None
    assert found.by - found.latest == 40 * MINUTE


def test_only_the_last_seven_days_count() -> None:
    late_once = daily(59, *[0] * 7)
    found = habit(late_once, MONDAY + 8 * DAY)
    assert found is not None
    assert found.latest == MONDAY + 8 * DAY + HOUR


@pytest.mark.parametrize(("missed", "known"), [((), True), ((1,), True), ((1, 3), True), ((1, 3, 4), False)])
def test_a_habit_needs_five_of_seven_days(missed: tuple[int, ...], known: bool) -> None:
    week_before = daily(*[0] * 7, first=MONDAY - 7 * DAY)
    this_week = [at for number, at in enumerate(daily(*[0] * 7)) if number not in missed]
    assert (habit(week_before + this_week, NEXT + HOUR) is not None) is known


def test_a_job_of_weekdays_is_not_missed_on_the_weekend_and_is_on_monday() -> None:
    weekdays = [at for at in daily(*[0] * 14) if at.weekday() < 5]
    monday = MONDAY + 14 * DAY
    for hours in range(48):
        assert missing_today(weekdays, monday - 2 * DAY + hours * HOUR) is None
    found = missing_today(weekdays, monday + 2 * HOUR)
    assert found is not None
    assert (found.by, found.came) == (monday + HOUR + LEAST_MARGIN, 7)


@pytest.mark.parametrize(
    ("month", "day", "minute", "by"),
    [
        # from 02:00 on it is an hour later: 01:58 and a quarter of an hour is 03:13, and 02:30, which is left out, is 03:30
        (3, 31, 118, "03:13+02:00"),
        (3, 31, 150, "03:45+02:00"),
        # from 03:00 on it is an hour earlier: 02:30 comes twice, and 01:58 once
        (10, 27, 150, "02:45+01:00"),
        (10, 27, 118, "02:13+02:00"),
    ],
)
def test_the_margin_is_real_time_when_clocks_change(month: int, day: int, minute: int, by: str) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    today = datetime(2030, month, day, tzinfo=berlin)
    came = [today - number * DAY + minute * MINUTE for number in range(1, 8)]
    at = datetime.fromisoformat(f"{today:%Y-%m-%d}T{by}")
    assert missing_today(came, at.astimezone(berlin)) is None
    found = missing_today(came, (at + MINUTE).astimezone(berlin))
    assert found is not None
    assert found.by.timestamp() == at.timestamp()


def test_a_job_around_midnight_comes_once_a_day() -> None:
    around = [MONDAY + number * DAY + minutes * MINUTE for number, minutes in enumerate((-5, 5, -3, 4, -5, 5, 0))]
    found = habit(around, NEXT - HOUR)
    assert found is not None
    assert (found.latest, found.came) == (NEXT + 5 * MINUTE, 7)
    assert missing_today([*around, NEXT - 5 * MINUTE], NEXT + 2 * HOUR) is None


def test_of_several_runs_a_day_the_first_counts() -> None:
    twice = sorted(daily(*[0] * 7, hour=2) + daily(*[0] * 7, hour=9))
    found = missing_today(twice, NEXT + 3 * HOUR)
    assert found is not None
    assert found.latest == NEXT + 2 * HOUR


def test_a_job_without_runs_or_that_is_no_daily_one_has_no_habit() -> None:
    assert habit([], NEXT) is None
    assert habit(STEADY[:4], NEXT) is None
    weekly = [MONDAY - number * 7 * DAY for number in range(10)]
    assert habit(weekly, NEXT) is None
    hourly = [NEXT - number * HOUR for number in range(20)]
    assert habit(hourly, NEXT) is None


def test_a_job_that_never_comes_again_is_forgotten_after_three_days() -> None:
    missed = [day for day in range(20) if missing_today(STEADY, NEXT + day * DAY + 3 * HOUR)]
    assert missed == [0, 1, 2]


@given(
    st.integers(0, 24 * 60 - 1),
    st.lists(st.integers(0, 359), min_size=10, max_size=20),
    st.booleans(),
    st.integers(0, 600),
)
def test_a_job_that_comes_within_its_usual_time_is_never_missed(
    start: int, offsets: list[int], weekdays: bool, later: int
) -> None:
    """Its usual time begins at any time of day and is up to six hours long."""
    days = [MONDAY + number * DAY for number in range(40)]
    days = [day for day in days if not weekdays or day.weekday() < 5][: len(offsets)]
    *known, last = offsets
    last = min(last, max(known[-7:]))
    came = [day + (start + offset) * MINUTE for day, offset in zip(days, [*known, last], strict=True)]
    for number in range(1, len(came)):
        if number < 7 and came[number] - days[number] > (start + max(known[:number])) * MINUTE:
            continue  # later than ever, while little is known
        if number >= 7 and came[number] - days[number] > (start + max(known[number - 7 : number])) * MINUTE:
            continue  # later than in the last seven days
        assert missing_today(came[:number], came[number]) is None
    assert missing_today(came, came[-1] + later * MINUTE) is None

"""Values that people type: every form that is accepted, every refusal one sentence with option, value and remedy."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.errors import BadInput
from stage_model.units import (
    format_duration,
    is_time,
    parse_cores,
    parse_deadline,
    parse_duration,
    parse_memory_mb,
    parse_priority,
    priority_name,
)
from tests.fakes.refusals import assert_names

NOW = datetime(2030, 1, 31, 12, 0, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10min", 600),
        ("10m", 600),
        ("1h30m", 5400),
        ("1h 30min", 5400),
        ("2h", 7200),
        ("2H", 7200),
        ("1d", 86_400),
        ("1.5h", 5400),
        ("500ms", 0.5),
        ("45", 45),
        (" 45 ", 45),
        ("0.5", 0.5),
    ],
)
def test_a_duration_is_read_in_every_usual_form(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
    assert parse_deadline(text, NOW) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        *("0", "0s", "-5s", "-1", "", " ", "abc", "nan", "inf", "-inf", "1e3", "1e999s", "5 parsecs", "30m1h",),
        *("1h1h", "s", "1h-5m", "10m30", "９s", "1" * 400, "400d", "2030-13-01", "10,5s", "+5s", "0x10", "1_000"),
        *("7am", "by 7", "soon"),
    ],
)  # fmt: skip
def test_what_is_no_deadline_is_refused_with_option_value_and_remedy(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_deadline(text, NOW)
    refusal = str(caught.value)
    assert_names(refusal, "--deadline ", text.strip()[:90], "90s", "'by 07:00'", "2030-02-01T18:00")
    assert len(refusal) < 350


def test_the_example_in_a_refusal_is_accepted() -> None:
    with pytest.raises(BadInput, match="366 days") as caught:
        parse_deadline("2040-01-31T18:00", NOW)
    assert parse_deadline(str(caught.value).rpartition(" or ")[2].rstrip("."), NOW) == 30 * 3600


def test_a_time_without_a_zone_is_the_users() -> None:
    assert parse_deadline("2030-01-31T12:30", NOW) == 1800
    assert parse_deadline("2030-01-31 12:00:01", NOW) == 1
    # 10:30 UTC is 12:30 where it is 12:00 now.
    assert parse_deadline("2030-01-31T10:30:00Z", NOW) == 1800
    assert parse_deadline("2030-02-01", NOW) == 12 * 3600


def test_a_deadline_over_a_change_of_summer_time_counts_real_hours() -> None:
    # In Berlin clocks go from 2:00 to 3:00 on 2030-03-31, so 1:30 to 3:30 is one hour.
    now = datetime(2030, 3, 31, 1, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert parse_deadline("2030-03-31T03:30", now) == 3600


@pytest.mark.parametrize("text", ["2030-01-31T12:00", "2030-01-31T11:59", "1999-12-31", "2030-01-31T09:59:59Z"])
def test_a_deadline_in_the_past_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=f"--deadline '{text}' .*past"):
        parse_deadline(text, NOW)


def test_a_deadline_may_be_a_time_of_the_day() -> None:
    assert parse_deadline("by 12:30", NOW) == 1800
    assert parse_deadline("12:00", NOW) == 86_400, "the next one"
    assert is_time("by 12:30")
    assert not is_time("12min30s")


def test_a_clock_without_a_zone_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="aware"):
        parse_deadline("90s", datetime(2030, 1, 1))  # noqa: DTZ001 - the point of the test


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.04, "0s"),
        (0.4, "0.4s"),
        (12.5, "12.5s"),
        (59.94, "59.9s"),
        (59.96, "1m"),
        (60, "1m"),
        (90, "1m30s"),
        (3599.6, "1h"),
        (7500, "2h5m"),
        (93_600, "1d2h"),
        (86_399, "1d"),
        (-90, "-1m30s"),
        (float("inf"), "forever"),
        (float("nan"), "?"),
    ],
)
def test_a_duration_is_shown_in_two_parts_at_most(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(min_value=0.1, max_value=3e7))
def test_what_is_shown_reads_back_to_half_of_its_smallest_part(seconds: float) -> None:
    half_s = 0.05 if seconds < 60 else 0.5 if seconds < 3600 else 30 if seconds < 86_400 else 1800
    # 1% more, as just under a border the next larger part may already round.
    assert abs(parse_duration(format_duration(seconds)) - seconds) <= half_s * 1.01


@given(st.text(max_size=30))
def test_any_text_is_either_a_positive_time_or_bad_input(text: str) -> None:
    with suppress(BadInput):
        assert 0 < parse_deadline(text, datetime(2030, 1, 1, tzinfo=UTC)) <= 366 * 86_400


@pytest.mark.parametrize(
    ("text", "number"),
    [("low", 0), ("normal", 50), ("HIGH", 100), ("0", 0), ("100", 100), (" 7 ", 7), ("backfill", -1), ("-1", -1)],
)
def test_a_priority_is_a_name_or_a_number(text: str, number: int) -> None:
    assert parse_priority(text) == number


@pytest.mark.parametrize(
    ("number", "name"), [(-1, "backfill"), (0, "low"), (50, "normal"), (100, "high"), (1, "1"), (99, "99")]
)
def test_a_priority_is_shown_by_its_name_or_number(number: int, name: str) -> None:
    assert priority_name(number) == name
    assert parse_priority(name) == number


@pytest.mark.parametrize("text", ["", "urgent", "-2", "101", "5.5", "nan", "٣"])
def test_what_is_no_priority_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"--priority '.*low \(0\), normal.*backfill"):
        parse_priority(text)


@pytest.mark.parametrize(
    ("text", "mb"),
    [
        *((text, 2048) for text in ("2g", "2048", "2gb", "2GiB")),
        ("512m", 512),
        ("1.5G", 1536),
        ("1t", 1_048_576),
        ("512k", 1),
    ],
)
def test_memory_is_read_as_spark_does(text: str, mb: int) -> None:
    assert parse_memory_mb(text) == mb


@pytest.mark.parametrize("text", ["", "0", "0g", "-1g", "2x", "g", "nan", "1e3", "9999999t"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"--executor-memory '.*512m"):
        parse_memory_mb(text, option="--executor-memory")


def test_cores_are_positive_numbers() -> None:
    assert parse_cores("2") == 2
    assert parse_cores("1.5") == 1.5
    for text in ("", "0", "0.001", "-1", "two", "inf", "nan", "5000"):
        with pytest.raises(BadInput, match=f"'{text}'"):
            parse_cores(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_at_the_edge_of_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=text[:10]):
        parse_deadline(text, datetime(2030, 1, 31, tzinfo=UTC))

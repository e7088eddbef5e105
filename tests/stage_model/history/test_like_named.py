"""The known profile that is named where a job's own does not exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.history.like_named import like_named
from stage_model.history.profile import profile_key


@pytest.mark.parametrize(
    ("key", "known", "nearest"),
    [
        # dates, times and ids in names
        (
            "load-2026-11-26@load.py",
            ("load-2026-11-24@load.py", "load-2026-11-25@load.py", "other@o.py"),
            "load-2026-11-25@load.py",
        ),
        ("taxi-1699999999", ("taxi-1699990000", "bus-1"), "taxi-1699990000"),
        ("job-123e4567-e89b-12d3-a456-426614174000", ("job-00000000-e89b-12d3-a456-426614174abc",), None),
        (profile_key(None, "load 2026-11-26", "load.py"), (profile_key(None, "load 2026-11-25", "load.py"),), None),
        # the main file of a log, or the name of a program, is not always known
        ("load@load.py", ("load", "store@store.py"), "load"),
        ("load", ("load@load.py",), "load@load.py"),
        ("load@org.x.Main", ("load@a.jar",), "load@a.jar"),
        ("@load.py", ("one@load.py", "two@load.py"), "two@load.py"),
        # nothing is like it, or it is there
        ("load@load.py", ("store@store.py", "feed"), ""),
        ("7", ("8", "9@x.py"), ""),
        ("load@load.py", ("load@load.py", "load-1@load.py"), ""),
        ("", ("a@a.py",), ""),
        ("load@load.py", (), ""),
    ],
)
def test_the_profile_that_may_be_meant_is_the_one_of_the_same_main_file_or_name(
    key: str, known: tuple[str, ...], nearest: str | None
) -> None:
    nearest = known[0] if nearest is None else nearest
    told = f"; if it is the job of profile {nearest!r} under another name, give --profile {nearest}"
    assert like_named(key, known) == (told if nearest else "")


def test_a_name_that_a_shell_would_read_is_quoted() -> None:
    assert like_named("a@Main$", ["b@Main$"]).endswith("--profile 'b@Main$'")


@given(st.dates(), st.dates(), st.sampled_from(["load-{}", "{}_load", "load {} again", "{}"]))
def test_two_days_of_one_job_are_alike(one: object, other: object, name: str) -> None:
    keys = [profile_key(None, name.format(day), "load.py") for day in (one, other)]
    assert bool(like_named(keys[0], [keys[1]])) is (one != other)

"""The application that comes first in the queue."""

from __future__ import annotations

from master_memory.queue import ahead, rank

LOW, EARLY, LATE = rank(10, 1.0, "low"), rank(50, 2.0, "early"), rank(50, 3.0, "late")
LINE = sorted([LATE, LOW, EARLY])


def test_higher_priority_comes_first_then_who_was_submitted_first() -> None:
    assert [ahead(one, LINE) for one in (EARLY, LATE, LOW)] == [0, 1, 2]
    # one that runs and wants more has a rank, too
    assert ahead(rank(50, 2.5, "runs"), LINE) == 1


def test_of_one_moment_the_name_decides() -> None:
    assert [ahead(rank(50, 2.0, key), LINE) for key in "df"] == [0, 1]

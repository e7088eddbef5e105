"""The savings of the newest watched runs, as the live page shows them."""

from __future__ import annotations

import os
from pathlib import Path

from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import SAMPLES, SUMMARY, samples_size
from controller.runs.watched_runs import SAVINGS_BYTES, NewestSavings, savings_of
from controller.wire.course import SavingsReply
from tests.fakes.watched import ended, learned

NAMES = ("pace-1", "pace-2", "pace-3")


def newest(home: Path, most_bytes: int = SAVINGS_BYTES) -> NewestSavings:
    return NewestSavings(home / "runs", ProfileStore(home / "profiles"), most_bytes)


def watched(home: Path) -> None:
    """Record watched runs, each a second after the one before."""
    learned(home, *NAMES)
    for number, name in enumerate(NAMES):
        ended(home, name)
        os.utime(home / "runs" / name / SUMMARY, (number, number))


def shown(reply: SavingsReply) -> list[str]:
    return [run.application_id for run in reply.savings.applications]


def test_they_are_those_of_the_command(tmp_path: Path) -> None:
    watched(tmp_path)
    ended(tmp_path, "pace-4", observed=False)
    found = newest(tmp_path).find()
    assert found == SavingsReply(savings=savings_of(tmp_path / "runs", ProfileStore(tmp_path / "profiles"), (), None))
    assert shown(found) == list(NAMES)


def test_without_a_watched_run_there_is_nothing_to_show(tmp_path: Path) -> None:
    assert shown(newest(tmp_path).find()) == []
    ended(tmp_path, "pace-4", observed=False)
    assert newest(tmp_path).find().savings.held_core_s == 0.0


def test_samples_that_are_too_many_are_not_read_and_newer_runs_come_first(tmp_path: Path) -> None:
    watched(tmp_path)
    size = samples_size(tmp_path / "runs" / "pace-1")
    found = newest(tmp_path, 3 * size - 1).find()
    assert (shown(found), found.left_out) == (["pace-2", "pace-3"], 1)
    with (tmp_path / "runs" / "pace-3" / SAMPLES).open("ab") as samples:
        samples.write(3 * size * b"x")
    found = newest(tmp_path, 3 * size - 1).find()
    assert (shown(found), found.left_out) == (["pace-1", "pace-2"], 1)


def test_they_are_worked_out_again_only_when_another_run_has_ended(tmp_path: Path) -> None:
    watched(tmp_path)
    savings = newest(tmp_path)
    first = savings.find()
    assert savings.find() is first
    ended(tmp_path, "pace-4")
    assert shown(savings.find()) == [*NAMES, "pace-4"]


def test_a_damaged_run_is_left_out_and_counted(tmp_path: Path) -> None:
    watched(tmp_path)
    (tmp_path / "runs" / "pace-1" / SUMMARY).write_text("{")
    (tmp_path / "runs" / "pace-2" / SAMPLES).write_text("no,heading\n")
    found = newest(tmp_path).find()
    assert (shown(found), found.left_out) == (["pace-3"], 2)

"""The run on disk that a word names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller.runs.run_folder import SUMMARY, write_summary
from controller.runs.run_folders import find_ended_run, find_run
from stage_model.errors import BadInput


def ended(runs: Path, name: str, at_s: int, submitted: str | None = None) -> None:
    (runs / f"pace-{at_s}").mkdir()
    write_summary(runs / f"pace-{at_s}", {"name": name, "submitted_name": submitted})
    os.utime(runs / f"pace-{at_s}" / SUMMARY, (at_s, at_s))


def test_the_last_run_may_go_on_and_the_last_ended_one_has_a_summary(tmp_path: Path) -> None:
    ended(tmp_path, "old", 1000)
    ended(tmp_path, "new", 2000)
    (tmp_path / "pace-running").mkdir()
    assert find_run(tmp_path, "last").application_id == "pace-running"
    assert find_run(tmp_path, "last", ended=True).application_id == "pace-2000"
    with pytest.raises(BadInput, match=r"pace-running .*summary.json"):
        find_ended_run(tmp_path, "pace-running")


def test_without_an_ended_run_the_sentence_says_that_the_last_one_goes_on(tmp_path: Path) -> None:
    (tmp_path / "pace-running").mkdir()
    with pytest.raises(BadInput):
        find_run(tmp_path, "last", ended=True)


def test_an_unknown_name_is_answered_with_the_nearest_ones(tmp_path: Path) -> None:
    ended(tmp_path, "pagerank", 1000)
    ended(tmp_path, "sort", 2000)
    with pytest.raises(BadInput, match=r"'pagerang' .* pagerank, sort"):
        find_run(tmp_path, "pagerang")


def test_the_name_that_a_run_was_submitted_with_finds_the_newest(tmp_path: Path) -> None:
    ended(tmp_path, "own", 1000, "load")
    ended(tmp_path, "own", 2000, "load")
    ended(tmp_path, "own", 3000)
    assert find_run(tmp_path, "load").application_id == "pace-2000"
    assert find_run(tmp_path, "own").application_id == "pace-3000"
    with pytest.raises(BadInput, match=r"'lod' .* load, own"):
        find_run(tmp_path, "lod")

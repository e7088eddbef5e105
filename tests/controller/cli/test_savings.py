"""`sparkpace savings`: one row for each watched run, and the sum in core-seconds and money."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.commands import assert_refused
from tests.fakes.commands import run as invoke
from tests.fakes.watched import ended, learned


def shown(home: Path, *words: str) -> dict[str, Any]:
    done = invoke("savings", *words, "--home", str(home), "--output", "json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_watched_runs_are_summed_up_and_paced_ones_left_out(tmp_path: Path) -> None:
    learned(tmp_path, "pace-1", "pace-2", "pace-3")
    ended(tmp_path, "pace-2", deadline_s=30.0, violated=False)
    ended(tmp_path, "pace-3", deadline_s=19.0, violated=True)
    ended(tmp_path, "pace-1", observed=False)
    found = shown(tmp_path, "--price", "3.6")
    rows = {row["application_id"]: row for row in found["applications"]}
    assert {name: row["on_time"] for name, row in rows.items()} == {"pace-2": True, "pace-3": False}
    for row in rows.values():
        assert (row["held_core_s"], row["used_core_s"]) == (pytest.approx(36.0), pytest.approx(20.0))
        assert 0 < row["least_core_s"] <= row["saved_core_s"] <= row["most_core_s"] < 36.0
    for key in ("saved_core_s", "least_core_s", "most_core_s", "held_core_s", "used_core_s"):
        assert found[key] == pytest.approx(sum(row[key] for row in rows.values()))
    # 3.6 for 3600 core-seconds
    assert found["money"]["saved"] == pytest.approx(found["saved_core_s"] / 1000)
    assert found["money"]["least"] == pytest.approx(found["least_core_s"] / 1000)


def test_one_run_has_no_interval_and_neither_has_a_sum_with_it(tmp_path: Path) -> None:
    learned(tmp_path, "pace-1", "pace-2")
    ended(tmp_path, "pace-1")
    ended(tmp_path, "pace-2")
    found = shown(tmp_path)
    alone, second = sorted(found["applications"], key=lambda row: row["application_id"])
    assert (alone["on_time"], alone["least_core_s"], alone["most_core_s"]) == (None, None, None)
    assert alone["remark"] == "one run gives no interval"
    assert second["least_core_s"] is not None
    assert (found["least_core_s"], found["most_core_s"], found["money"]) == (None, None, None)
    said = invoke("savings", "--home", str(tmp_path), "--price", "1").stdout
    assert "pace-1: one run gives no interval" in said
    assert "in total: 72 core-s held" in said
    assert "saved (interval: not known)" in said


def test_a_run_that_taught_nothing_or_whose_profile_is_gone_has_a_reason_in_place_of_a_saving(tmp_path: Path) -> None:
    ended(tmp_path, "pace-1", untaught={"reason": "no_job", "sentence": "it ran no job"})
    ended(tmp_path, "pace-2")
    rows = {row["application_id"]: row for row in shown(tmp_path)["applications"]}
    assert rows["pace-1"]["remark"] == "it ran no job"
    assert "'job@app.py'" in rows["pace-2"]["remark"]
    assert [row["saved_core_s"] for row in rows.values()] == [None, None]


def test_a_run_that_was_paced_and_a_home_without_watched_runs_are_refused(tmp_path: Path) -> None:
    ended(tmp_path, "pace-1", observed=False)
    words = ("savings", "--home", str(tmp_path))
    assert_refused(invoke(*words, "pace-1"), 2, "pace-1", "--observe")
    assert_refused(invoke(*words), 2, tmp_path / "runs", "--observe")
    assert_refused(invoke(*words, "--price", "-1"), 2, "-1")

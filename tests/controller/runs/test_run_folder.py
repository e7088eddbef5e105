"""The run folder: what was written is read back, whole or not at all, and damage is a sentence."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from controller.runs.run_folder import (
    SAMPLE_COLUMNS,
    append_samples,
    read_samples,
    read_stages,
    read_summary,
    write_stages,
    write_summary,
)
from controller.wire.course import StageCourse
from controller.wire.worker import Sample
from stage_model.errors import BadInput
from tests.fakes import views


def sample(time_s: float, **changed: Any) -> Sample:
    plain = {"stage": 3, "progress": 0.25, "usage": 1.2345, "demand": 1.5, "grant": 1.45, "quota": 1.45, "cpu_core_s": 12.5}
    return views.sample(time_s, **{**plain, **changed})


def test_samples_are_appended_and_read_back_in_order(tmp_path: Path) -> None:
    first, second = [sample(1.0), sample(2.0, stage=None, progress=None)], [sample(3.0)]
    append_samples(tmp_path, first)
    append_samples(tmp_path, second)
    assert read_samples(tmp_path) == first + second
    lines = (tmp_path / "samples.csv").read_text().splitlines()
    assert lines[:2] == [",".join(SAMPLE_COLUMNS), "1,1,3,,0.25,1.5,1.45,1.45,1.2345,12.5,0,"]


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    append_samples(tmp_path, [sample(1.0)])
    write_summary(tmp_path, {"app_id": "a"})
    write_stages(tmp_path, [])
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["samples.csv", "stages.csv", "summary.json"]


def test_a_half_row_is_not_read_and_the_next_append_cuts_it_off(tmp_path: Path) -> None:
    append_samples(tmp_path, [sample(1.0)])
    with (tmp_path / "samples.csv").open("a") as file:
        file.write("2,1,3,,0.")
    assert read_samples(tmp_path) == [sample(1.0)]
    append_samples(tmp_path, [sample(3.0)])
    assert read_samples(tmp_path) == [sample(1.0), sample(3.0)]


def test_an_empty_folder_has_no_samples_and_no_stages(tmp_path: Path) -> None:
    assert read_samples(tmp_path) == []
    assert read_stages(tmp_path) == []
    append_samples(tmp_path, [])
    assert read_samples(tmp_path) == []


def test_samples_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        append_samples(tmp_path, [sample(1.0)])
    assert not (tmp_path / "elsewhere").exists()


def test_stages_are_read_back_whatever_their_names_hold(tmp_path: Path) -> None:
    stages = [
        StageCourse(stage=0, attempt=0, name='reduceByKey at "app, v2".py:12', start_s=1.5, end_s=4.25, tasks=8),
        StageCourse(stage=1, attempt=1, name="=a, b", start_s=4.25, end_s=None, tasks=2),
    ]
    write_stages(tmp_path, stages)
    assert read_stages(tmp_path) == stages
    write_stages(tmp_path, [StageCourse(stage=0, attempt=0, name="two\nlines", start_s=0, end_s=1, tasks=1)])
    assert read_stages(tmp_path)[0].name == "two lines"


def test_a_summary_is_read_back_and_replaced(tmp_path: Path) -> None:
    write_summary(tmp_path, {"app_id": "a", "deadline_s": None})
    write_summary(tmp_path, {"app_id": "b", "deadline_s": 90.0, "violated": False})
    assert read_summary(tmp_path) == {"app_id": "b", "deadline_s": 90.0, "violated": False}
    with pytest.raises(ValueError, match="error_pct"):
        write_summary(tmp_path, {"error_pct": float("nan")})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("summary.json", b"{", "summary"),
        ("summary.json", b"[1]", "summary"),
        ("summary.json", b"\xff\xfe", "text"),
        ("samples.csv", b"time,x\n", "'time,x'"),
        ("samples.csv", b",".join(c.encode() for c in SAMPLE_COLUMNS) + b"\n1,2\n", "line 2 .*2 cells.* 12"),
        ("samples.csv", b",".join(c.encode() for c in SAMPLE_COLUMNS) + b"\nx,1,,,,0,0,0,0,0,0,\n", "damaged"),
        ("stages.csv", b"stage,attempt,name,start_s,end_s,tasks\n0,0,n,now,,3\n", "damaged"),
    ],
)
def test_damage_is_refused_with_the_files_name(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    read = {"summary.json": read_summary, "samples.csv": read_samples, "stages.csv": read_stages}[name]
    with pytest.raises(BadInput, match=sentence) as caught:
        read(tmp_path)
    assert name in str(caught.value)


def test_a_cell_that_is_too_long_is_damage_and_no_stage_has_such_a_name(tmp_path: Path) -> None:
    write_stages(tmp_path, [StageCourse(stage=0, attempt=0, name="x" * 200_000, start_s=0.0, end_s=1.0, tasks=1)])
    assert read_stages(tmp_path)[0].name == "x" * 1000
    (tmp_path / "stages.csv").write_text("x" * 200_000)
    with pytest.raises(BadInput, match=r"stages\.csv"):
        read_stages(tmp_path)


def test_a_missing_summary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"summary.json.*No such file"):
        read_summary(tmp_path)

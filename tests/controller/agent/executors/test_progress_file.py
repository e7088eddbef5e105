"""A progress file comes from a container: everything odd about it is refused, with the reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from controller.agent.executors.known import PROGRESS_FILE, ProgressRefused, read_progress
from stage_model.progress import MAX_BYTES, MAX_STAGES, MemoryProgress
from tests.fakes.refusals import assert_names

STAGE = {"stage": 1, "attempt": 0, "running": 1, "done": 2}
GOOD = {"schema": 1, "executor": "7", "sequence": 3, "stages": [STAGE]}


def write(directory: Path, content: object) -> None:
    (directory / PROGRESS_FILE).write_bytes(content if isinstance(content, bytes) else msgspec.json.encode(content))


def refusal(directory: Path) -> str:
    with pytest.raises(ProgressRefused) as problem:
        read_progress(directory, "7", os.getuid())
    return str(problem.value)


def test_a_good_file_is_read(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    progress = read_progress(tmp_path, "7", os.getuid())
    assert progress is not None
    assert (progress.sequence, progress.stages[0].done) == (3, 2)


def test_no_file_is_no_progress_yet(tmp_path: Path) -> None:
    assert read_progress(tmp_path, "7", os.getuid()) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / PROGRESS_FILE).rename(tmp_path / "elsewhere")
    (tmp_path / PROGRESS_FILE).symlink_to(tmp_path / "elsewhere")
    assert refusal(tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_a_directory_neither_hangs_nor_counts(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / PROGRESS_FILE)
    assert refusal(tmp_path)


def test_a_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    write(tmp_path, msgspec.json.encode(GOOD).ljust(MAX_BYTES))
    assert read_progress(tmp_path, "7", os.getuid()) is not None
    write(tmp_path, msgspec.json.encode(GOOD).ljust(MAX_BYTES + 1))
    assert str(MAX_BYTES + 1) in refusal(tmp_path)


def test_another_owner_is_refused(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    with pytest.raises(ProgressRefused, match=f"uid {os.getuid()}"):
        read_progress(tmp_path, "7", os.getuid() + 1)
    if os.geteuid() == 0:
        os.chown(tmp_path / PROGRESS_FILE, 12345, 12345)
        assert "uid 12345" in refusal(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"stages":' * 6_000,
        {**GOOD, "sequence": "3"},
        {**GOOD, "stages": [{**STAGE, "running": 1.5}]},
        {**GOOD, "stages": [{**STAGE, "done": True}]},
        {**GOOD, "stages": [{"stage": 1}]},
        b'{"schema":1,"executor":"7","sequence":1,"stages":[{"stage":1,"attempt":0,"running":NaN,"done":1}]}',
        b'{"schema":1,"executor":"7","sequence":1,"stages":[{"stage":1,"attempt":0,"running":1,"done":1e400}]}',
        b'{"schema":1,"executor":"7","sequence":1,"stages":[{"stage":1,"attempt":0,"running":1,"done":'
        + b"9" * 5000
        + b"}]}",
    ],
    ids=range(13),
)
def test_what_does_not_fit_the_schema_is_refused(tmp_path: Path, content: object) -> None:
    write(tmp_path, content)
    assert "schema" in refusal(tmp_path)


def test_a_field_of_a_newer_plugin_is_ignored(tmp_path: Path) -> None:
    write(tmp_path, {**GOOD, "extra": 1, "stages": [{**STAGE, "mood": 2}]})
    found = read_progress(tmp_path, "7", os.getuid())
    assert found is not None
    assert len(found.stages) == 1


@pytest.mark.parametrize("name", ["order", "budget", "execution", "storage"])
@pytest.mark.parametrize("number", [-1, 1 << 53])
def test_impossible_sizes_are_refused(tmp_path: Path, name: str, number: int) -> None:
    good = {"order": 1, "budget": 1 << 30, "execution": 0, "storage": 5}
    write(tmp_path, {**GOOD, "memory": good})
    progress = read_progress(tmp_path, "7", os.getuid())
    assert progress is not None
    assert progress.memory == MemoryProgress(order=1, budget=1 << 30, storage=5)
    write(tmp_path, {**GOOD, "memory": {**good, name: number}})
    assert "memory" in refusal(tmp_path)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {**GOOD, "schema": 2})
    assert "schema 2" in refusal(tmp_path)


def test_the_file_of_another_executor_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {**GOOD, "executor": "8" * 1000})
    assert 0 < len(refusal(tmp_path)) < 200


@pytest.mark.parametrize(
    "name", ["stage", "attempt", "running", "done", "failed", "records_done", "records_running", "cpu_ns"]
)
@pytest.mark.parametrize("number", [-1, 1 << 53, 1 << 62])
def test_impossible_numbers_are_refused(tmp_path: Path, name: str, number: int) -> None:
    write(tmp_path, {**GOOD, "stages": [{**STAGE, name: number}]})
    assert "impossible" in refusal(tmp_path)


def test_more_stages_than_an_executor_writes_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {**GOOD, "stages": [{**STAGE, "stage": stage} for stage in range(MAX_STAGES + 1)]})
    assert_names(refusal(tmp_path), MAX_STAGES + 1, MAX_STAGES)

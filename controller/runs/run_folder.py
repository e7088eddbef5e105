"""The folder of one run: `summary.json`, `samples.csv`, `quotas.csv`, `stages.csv`. The master writes it; `report`, `plot`
and the live page read it.

Times are seconds since submission, cores are cores; an empty cell means unknown. `summary.json` and `stages.csv` are replaced
as a whole (a reader never sees half of one), samples and quotas are appended. Not covered: what is in the summary
(`controller.master`) and the picture (`controller.runs.plot`).
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from controller.machine.files import write_whole
from controller.wire.course import StageCourse
from controller.wire.worker import OrderedQuota, Sample
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput

SUMMARY = "summary.json"
SAMPLES = "samples.csv"
QUOTAS = "quotas.csv"
STAGES = "stages.csv"
SAMPLE_COLUMNS = (
    *("time_s", "executor", "stage", "set_point", "progress", "demand", "grant", "quota", "usage"),
    *("cpu_core_s", "debt_core_s", "forecast_end_s"),
)
QUOTA_COLUMNS = ("time_s", "executor", "before", "cores", "reason")
STAGE_COLUMNS = ("stage", "attempt", "name", "start_s", "end_s", "tasks")
MODE = 0o600
LONGEST_NAME = 1000
"""Length of the name of a stage, which its driver chooses, and of a reason; a cell may not be longer than 128 KB to be read
again."""
R = TypeVar("R")


def write_summary(run_dir: Path, summary: Mapping[str, Any]) -> None:
    """Replace `summary.json`, keys in the order given. Numbers must be finite: JSON has no others."""
    for key, value in summary.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"summary field {key} is {value}; unknown is None")
    write_whole(run_dir / SUMMARY, msgspec.json.format(msgspec.json.encode(dict(summary)), indent=2) + b"\n")


def read_summary(run_dir: Path) -> dict[str, Any]:
    """Return the summary. Raise `BadInput` without a file, or if it is not a JSON object."""
    path = run_dir / SUMMARY
    try:
        return msgspec.json.decode(_read(path).encode(), type=dict[str, Any])
    except UNREADABLE as problem:
        raise BadInput(f"{path} is not a run summary ({problem}); name the folder of a finished run.") from problem


def append_samples(run_dir: Path, samples: Sequence[Sample]) -> None:
    """Add rows, all or none of them; the first call writes the heading. A half row that a crash left behind is cut off. Raise
    `OSError`."""
    _append(run_dir / SAMPLES, SAMPLE_COLUMNS, [_sample_row(sample) for sample in samples])


def append_quotas(run_dir: Path, quotas: Sequence[OrderedQuota]) -> None:
    """Add rows like `append_samples`."""
    rows = [[_cell(q.time_s), q.executor_id, _cell(q.before), _cell(q.cores), q.reason[:LONGEST_NAME]] for q in quotas]
    _append(run_dir / QUOTAS, QUOTA_COLUMNS, rows)


def _append(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        whole = _end_of_last_line(file, end)
        if whole < end:
            file.truncate(whole)
        file.seek(whole)
        left = memoryview(_csv([columns, *rows] if whole == 0 else rows))
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(whole)
            raise


def samples_size(run_dir: Path) -> int:
    """Return the bytes of the tables of samples and quotas, 0 before the first row."""
    return sum(path.stat().st_size for path in (run_dir / SAMPLES, run_dir / QUOTAS) if path.exists())


def read_samples(run_dir: Path) -> list[Sample]:
    """Return all samples in the order written, [] without any; an unfinished last row is left out. Raise `BadInput`."""
    return samples_from(run_dir, 0, -1)[0]


def samples_from(run_dir: Path, offset: int, most: int) -> tuple[list[Sample], int]:
    """Return the samples that begin at byte `offset` of the table (0: its begin), of `most` bytes at most (-1: all), and the
    offset behind them. Raise `BadInput`."""
    path = run_dir / SAMPLES
    rows, end = _rows_from(path, SAMPLE_COLUMNS, offset, most)
    return [_read_row(row, path, Sample, application_id="", executor_id=row["executor"]) for row in rows], end


def quotas_from(run_dir: Path, offset: int, most: int) -> tuple[list[OrderedQuota], int]:
    """Return quotas like `samples_from`."""
    path = run_dir / QUOTAS
    rows, end = _rows_from(path, QUOTA_COLUMNS, offset, most)
    return [_read_row(row, path, OrderedQuota, executor_id=row["executor"], reason=row["reason"]) for row in rows], end


def write_stages(run_dir: Path, stages: Iterable[StageCourse]) -> None:
    rows = [(s.stage, s.attempt, s.name[:LONGEST_NAME], _cell(s.start_s), _cell(s.end_s), s.tasks) for s in stages]
    write_whole(run_dir / STAGES, _csv([STAGE_COLUMNS, *rows]))


def read_stages(run_dir: Path) -> list[StageCourse]:
    """Return all stage attempts in the order written, [] without any. Raise `BadInput`."""
    path = run_dir / STAGES
    if not path.exists():
        return []
    return [_read_row(row, path, StageCourse, name=row["name"]) for row in _rows(_read(path), STAGE_COLUMNS, path)]


# ---------------------------------------------------------------- rows


def _sample_row(sample: Sample) -> list[str]:
    return [sample.executor_id if name == "executor" else _cell(getattr(sample, name)) for name in SAMPLE_COLUMNS]


def _read_row(row: dict[str, str], path: Path, kind: type[R], **texts: str) -> R:
    """Convert a row; `texts` are its fields that are no numbers."""
    try:
        return msgspec.convert({name: cell or None for name, cell in row.items()} | texts, kind, strict=False)
    except msgspec.ValidationError as problem:
        raise _bad_row(path, problem) from problem


def _rows(text: str, columns: Sequence[str], path: Path) -> Iterable[dict[str, str]]:
    reader = csv.reader(io.StringIO(text))
    try:
        heading = next(reader, None)
        if heading is None:
            return
        if tuple(heading) != tuple(columns):
            raise BadInput(f"{path} starts with {','.join(heading)[:100]!r}; its columns are {','.join(columns)}.")
        for cells in reader:
            if len(cells) != len(columns):
                raise _bad_row(path, f"line {reader.line_num} has {len(cells)} cells, not {len(columns)}")
            yield dict(zip(columns, cells, strict=True))
    except csv.Error as problem:
        raise _bad_row(path, f"line {reader.line_num}: {problem}") from problem


def _rows_from(path: Path, columns: Sequence[str], offset: int, most: int) -> tuple[Iterable[dict[str, str]], int]:
    """Return only whole rows, and the offset behind them. An offset at which no row begins, because the table has been
    written again, counts as 0."""
    with _readable(path):
        try:
            with path.open("rb") as file:
                offset = min(max(0, offset), path.stat().st_size)
                if offset > 0:
                    file.seek(offset - 1)
                    if file.read(1) != b"\n":
                        offset = 0
                file.seek(offset)
                data = file.read(most)
        except FileNotFoundError:
            return [], 0
        whole = data[: data.rfind(b"\n") + 1]
        text = whole.decode()
    heading = "" if offset == 0 else ",".join(columns) + "\n"
    return _rows(heading + text, columns, path), offset + len(whole)


def _bad_row(path: Path, problem: object) -> BadInput:
    return BadInput(f"{path} is damaged ({problem}); name the folder of a run that Sparkpace recorded.")


def _cell(value: float | None) -> str:
    """Return a number with four decimals: a tenth of a millisecond or of a thousandth of a core is finer than anything
    measured."""
    return "" if value is None or not math.isfinite(value) else f"{value:.4f}".rstrip("0").rstrip(".")


# ---------------------------------------------------------------- files


def _csv(rows: Iterable[Sequence[str | int]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    # A stage's name comes from the user's program and may hold line ends; one row is one line here.
    writer.writerows([" ".join(c.split()) if isinstance(c, str) else c for c in row] for row in rows)
    return text.getvalue().encode()


def _end_of_last_line(file: io.FileIO, end: int) -> int:
    """Return the offset after the last line end; rows are far shorter than a block, so one look back is enough."""
    start = max(0, end - 4096)
    file.seek(start)
    position = file.read(end - start).rfind(b"\n")
    return start + position + 1 if position >= 0 else 0


def _read(path: Path) -> str:
    with _readable(path):
        return path.read_text(encoding="utf-8")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Read a file in the block. Raise `BadInput` for a file that cannot be read, or is no text."""
    try:
        yield
    except OSError as problem:
        raise BadInput(f"{path} cannot be read ({problem.strerror}); name the folder of a run.") from problem
    except UnicodeDecodeError as problem:
        raise BadInput(f"{path} is not a text file; name the folder of a run.") from problem

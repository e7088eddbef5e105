"""Opening of Spark event logs: a file, an archive with one, or a folder with one, which may be in parts (`eventlog_v2_*`).

The content decides how a file is packed, and its name does not. Logs are other people's files, so they are read as a stream
with bounded lines, and no log fills the memory. Not covered: unpacking (`log_archives`), the names of a log's files in a
folder (`log_names`), the meaning of the lines (`stage_model.history.eventlog`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from controller.runs.log_archives import HEAD, UNPACKABLE, is_log_like, log_streams
from controller.runs.log_names import ACCEPTED, is_log_part, one_log
from stage_model.errors import BadInput
from stage_model.history.eventlog import EventLog, read_event_log

LONGEST_LINE = 64 * 1024 * 1024
"""Size in bytes of the longest line. The longest real lines are SQL plans, below some MB."""
LARGEST_RATIO = 1000
"""Largest ratio of an unpacked log to its file; a longest line more is allowed. Real logs are 10 to 100 times as large."""


def read_event_log_file(path: Path) -> EventLog:
    """Return the run in the log at `path`. Raise `BadInput`: not readable, no event log, several of them, corrupt, truncated,
    other compression."""
    return read_event_log(event_log_lines(path), str(path))


def event_log_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a log, parts of one in order. Raise `BadInput` as above."""
    if path.is_dir():
        for name in one_log(_logs_in(path), f"directory {path}"):
            yield from _lines(path / name)
    elif path.is_file():
        yield from _lines(path)
    else:
        what = "is not a file" if path.exists() else "does not exist"
        raise BadInput(f"event log {path} {what}; {ACCEPTED}")


def _logs_in(folder: Path) -> Iterator[str]:
    """Yield the names of files that may be logs or parts of logs, in a folder and in the folders in it."""
    try:
        for path in sorted(folder.iterdir()):
            for file in sorted(path.iterdir()) if path.is_dir() else (path,):
                if file.is_file() and (is_log_part(file.name) or is_log_like(_head(file))):
                    yield file.relative_to(folder).as_posix()
    except OSError as error:
        raise BadInput(f"{error.filename or folder} cannot be read ({error.strerror or error}); {ACCEPTED}") from error


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(HEAD)


def _lines(path: Path) -> Iterator[bytes]:
    where = f"event log {path}"
    try:
        with path.open("rb") as file:
            left = most = LONGEST_LINE + LARGEST_RATIO * path.stat().st_size
            for stream in log_streams(file, str(path), most):
                number = 0
                while line := stream.readline(LONGEST_LINE + 1):
                    number += 1
                    left -= len(line)
                    if len(line) > LONGEST_LINE:
                        raise BadInput(f"{where} is corrupt: line {number} is over {LONGEST_LINE >> 20} MB; {ACCEPTED}")
                    if left < 0:
                        raise BadInput(f"{where} is corrupt: it is {LARGEST_RATIO} times as large unpacked; {ACCEPTED}")
                    yield line
    except EOFError:
        return  # a cut-off stream: the reader says what is missing
    except UNPACKABLE as error:
        raise BadInput(f"{where} is corrupt: it cannot be decompressed ({error}); {ACCEPTED}") from error
    except OSError as error:
        raise BadInput(f"{where} cannot be read ({error.strerror or error}); {ACCEPTED}") from error

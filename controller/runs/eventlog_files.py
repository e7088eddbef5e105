"""Opens Spark event logs: a plain or compressed file, or a rolling directory (`eventlog_v2_*`).

Accepted: plain, zstd, gzip; by content, not by name. Logs are other people's files: read as a stream, with bounded
lines, so that none fills the memory. Not covered: what the lines mean (`stage_model.history.eventlog`).
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from stage_model.errors import BadInput
from stage_model.history.eventlog import EventLog, read_event_log

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes. The longest real lines are SQL plans, below some MB."""

ACCEPTED = "accepted: a plain, zstd or gzip event log, or a rolling directory eventlog_v2_*"
_PART = re.compile(r"^events_(?P<number>\d+)_(?P<application>.+?)(?:\.(?!compact)[a-z0-9]+)?(?P<compact>\.compact)?$")
_MAGICS = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x1f\x8b": "gzip",
    b"LZ4Block": "lz4",
    b"\x82SNAPPY\x00": "snappy",
    b"ZV": "lzf",
}


def read_event_log_file(path: Path) -> EventLog:
    """The run in the log at `path`. Raises `BadInput`: not readable, no event log, corrupt, truncated, other
    compression."""
    return read_event_log(event_log_lines(path), str(path))


def event_log_lines(path: Path) -> Iterator[bytes]:
    """The lines of a log, parts of a rolling one in order. Raises `BadInput` as above."""
    if path.is_dir():
        for part in _parts(path):
            yield from _lines(part)
    elif path.is_file():
        yield from _lines(path)
    else:
        what = "is not a file" if path.exists() else "does not exist"
        raise BadInput(f"event log {path} {what}; {ACCEPTED}")


def _parts(folder: Path) -> list[Path]:
    """Parts in order; a compacted one stands for all before it."""
    found: dict[int, Path] = {}
    compacted = 0
    applications: set[str] = set()
    for path in sorted(folder.iterdir()):
        part = _PART.match(path.name)
        if part is None or not path.is_file():
            continue
        number = int(part["number"])
        applications.add(part["application"])
        if part["compact"]:
            compacted = max(compacted, number)
        if part["compact"] or number not in found:
            found[number] = path
    kept = sorted(number for number in found if number >= compacted)
    if not kept:
        raise BadInput(f"directory {folder} holds no event log parts (events_1_...); {ACCEPTED}")
    if len(applications) > 1:
        raise BadInput(f"directory {folder} holds logs of several applications; {ACCEPTED}")
    # the first number that is not there; numbers may be as large as names are long
    missing = next((number for number, there in enumerate(kept, kept[0]) if number != there), None)
    if missing is not None or kept[0] != (compacted or 1):
        number = 1 if missing is None else missing
        raise BadInput(f"event log {folder} is incomplete: part {number} is missing; accepted: a log with all its parts")
    return [found[number] for number in kept]


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with _open(path) as stream:
            number = 0
            while True:
                line = stream.readline(LONGEST_LINE + 1)
                if not line:
                    return
                number += 1
                if len(line) > LONGEST_LINE:
                    raise BadInput(f"event log {path} is corrupt: line {number} is over {LONGEST_LINE >> 20} MB; {ACCEPTED}")
                yield line
    except EOFError:
        return  # a cut-off stream: the reader says what is missing
    except (zstd.ZstdError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"event log {path} is corrupt: it cannot be decompressed ({error}); {ACCEPTED}") from error
    except OSError as error:
        raise BadInput(f"event log {path} cannot be read ({error.strerror or error}); {ACCEPTED}") from error


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        head = file.read(8)
    kind = next((name for magic, name in _MAGICS.items() if head.startswith(magic)), "plain")
    if kind == "zstd":
        return cast("BinaryIO", zstd.open(path, "rb"))
    if kind == "gzip":
        return cast("BinaryIO", gzip.open(path, "rb"))
    if kind != "plain":
        raise BadInput(
            f"event log {path} is compressed with {kind}, which is not read here; {ACCEPTED} "
            "(spark.eventLog.compression.codec=zstd)"
        )
    return path.open("rb")

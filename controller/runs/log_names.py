"""The rule that finds the files of one event log in a folder or an archive, and their order, by names only. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from stage_model.errors import BadInput

MOST_FILES = 10_000
"""Largest number of files in a folder or an archive."""
ACCEPTED = "give an event log, plain or in zstd, gzip, zip or tar, or the folder of one in parts (eventlog_v2_*)"
_SHOWN = 5
_OTHERS = (".", "appstatus_", "__MACOSX")
"""Beginnings of names that are no part of a log: hidden files, a mark of Spark's, a file that Macs add to archives."""
_PART = re.compile(r"^events_(?P<number>\d+)_(?P<application>.+?)(?:\.(?!compact)[a-z0-9]+)?(?P<compact>\.compact)?$")
_DATABRICKS_PART = re.compile(r"^eventlog(?P<date>-\d{4}-\d\d-\d\d--\d\d-\d\d)?(?:\.[a-z0-9]+)?$")
"""Names of Databricks, which appends to `eventlog`, and adds a date to that name when it begins the next file."""
_ATTEMPT = re.compile(r"(?P<application>application_\d+_\d+)_(?P<attempt>\d{1,9})\b")
"""The name of a log in YARN's cluster mode, which starts a driver that died again."""


def is_log_part(file: str) -> bool:
    """Return True if a file with this name is a part of a log, without a look into it."""
    return bool(_PART.match(file) or _DATABRICKS_PART.match(file))


def one_log(names: Iterable[str], source: str, *, how: str = "name one of them") -> list[str]:
    """Return the names that make up a log, in order; of several attempts of one application the last attempt. `names` are
    relative, with "/" between folders; `source` names the folder or archive, and `how` is the remedy where it holds several
    logs.

    Raises `BadInput`: no log, several of them, too many names, a part is missing.
    """
    logs: defaultdict[str, list[str]] = defaultdict(list)
    for count, name in enumerate(names):
        if count >= MOST_FILES:
            raise BadInput(f"{source} holds more than {MOST_FILES} files; {how}, the event log")
        if not any(part.startswith(_OTHERS) and part.strip(".") for part in name.split("/")):
            logs[_log_of(name)].append(name)
    last = _last_attempts(logs)
    if not last:
        raise BadInput(f"{source} holds no event log; {ACCEPTED}")
    if len(last) > 1:
        more = f" and {len(last) - _SHOWN} more" if len(last) > _SHOWN else ""
        raise BadInput(f"{source} holds {len(last)} event logs ({', '.join(sorted(last)[:_SHOWN])}{more}); {how}")
    return _in_order({name.rpartition("/")[2]: name for name in logs[last[0]]}, source)


def _log_of(name: str) -> str:
    """Return the name of the log that a file belongs to: of a file, of a folder, or of the parts of one application."""
    folder, _, file = name.rpartition("/")
    if (part := _PART.match(file)) is None:
        return f"{folder}/eventlog".lstrip("/") if _DATABRICKS_PART.match(file) else name
    return folder if folder.endswith(part["application"]) else f"{folder}/events_*_{part['application']}".lstrip("/")


def _last_attempts(logs: Iterable[str]) -> list[str]:
    last: dict[str, tuple[int, str]] = {}
    for log in logs:
        found = _ATTEMPT.search(log)
        application = _ATTEMPT.sub(r"\g<application>", log)
        numbered = (int(found["attempt"]) if found else 0, log)
        last[application] = max(numbered, last.get(application, numbered))
    return [log for _, log in last.values()]


def _in_order(files: Mapping[str, str], source: str) -> list[str]:
    """Return the values, by the files' own names."""
    parts = [(part, name) for file, name in files.items() if (part := _PART.match(file))]
    return _numbered(parts, source) if parts else [files[file] for file in sorted(files, key=_dated)]


def _dated(file: str) -> tuple[bool, str]:
    found = _DATABRICKS_PART.match(file)
    return (found is not None and found["date"] is None, file)


def _numbered(parts: Iterable[tuple[re.Match[str], str]], source: str) -> list[str]:
    """Return the parts of a rolling log of Spark in order. A compacted part stands for all parts before it."""
    found: dict[int, str] = {}
    compacted = 0
    for part, name in sorted(parts, key=lambda pair: pair[1]):
        number = int(part["number"])
        if part["compact"]:
            compacted = max(compacted, number)
        if part["compact"] or number not in found:
            found[number] = name
    kept = sorted(number for number in found if number >= compacted)
    # the first number that is not there; numbers may be as large as names are long
    missing = next((number for number, there in enumerate(kept, kept[0]) if number != there), None)
    if missing is not None or kept[0] != (compacted or 1):
        number = 1 if missing is None else missing
        raise BadInput(f"{source} is incomplete: part {number} is missing; give a log with all its parts")
    return [found[number] for number in kept]

"""Java properties as Spark reads them from `--properties-file`, `spark-defaults.conf` and the bridge jar."""

from __future__ import annotations

import re
from collections.abc import Mapping

_KEY = re.compile(r"((?:\\.|[^\\:=\s])+)\s*[:=]?\s*(.*)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return key and value of every line; comments, continued lines and backslash escapes as java.util.Properties has
    them."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY.match(line)
        if match:
            # Spark trims values after loading, whatever java.util.Properties kept.
            found[_unescape(match[1])] = _unescape(match[2]).strip()
    return found


def format_properties(settings: Mapping[str, str]) -> str:
    """Return one `key=value` per line, sorted; read back unchanged by `parse_properties` and by Spark."""
    return "".join(f"{_escape(key, key=True)}={_escape(settings[key])}\n" for key in sorted(settings))


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending: list[str] = []
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        pending.append(line[:-1] if continued else line)
        if not continued:
            lines.append("".join(pending))
            pending = []
    return [*lines, "".join(pending)] if pending else lines


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    found = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text, flags=re.DOTALL)
    # Java's characters are halves of UTF-16: two make one, and a single half cannot be written anywhere
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, *, key: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return re.sub(r"([:=\s#!])", r"\\\1", escaped) if key else escaped

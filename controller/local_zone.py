"""The time zone of this machine, with its rules: tomorrow's 07:00 may be of another offset than today's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

LOCALTIME = Path("/etc/localtime")


def local_zone(environment: Mapping[str, str]) -> tzinfo:
    """That of TZ, else the machine's. Where its rules cannot be read (a TZ like CET-1CEST, no file), the offset of now."""
    try:
        if name := environment.get("TZ", "").removeprefix(":"):
            return ZoneInfo(name)
        with LOCALTIME.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (KeyError, ValueError, OSError):
        zone = datetime.now().astimezone().tzinfo
        assert zone is not None
        return zone

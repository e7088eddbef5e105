"""The time zone of this machine, with its rules: tomorrow's 07:00 may be of another offset than today's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

LOCALTIME = Path("/etc/localtime")


def local_zone(environment: Mapping[str, str]) -> tzinfo:
    """Return the zone that TZ names or whose file TZ names (tzset(3)), else the machine's. Where the rules cannot be read (a
    TZ like CET-1CEST, no file), the zone is the present offset from UTC."""
    name = environment.get("TZ", "").removeprefix(":")
    try:
        if name and not name.startswith("/"):
            return ZoneInfo(name)
        with Path(name or LOCALTIME).open("rb") as file:
            return ZoneInfo.from_file(file)
    except (KeyError, ValueError, OSError):
        zone = datetime.now().astimezone().tzinfo
        assert zone is not None
        return zone

"""Time zone, character set and language of a program in a container, as a process of the host would have them.

An image has a time zone of its own, and of the host's locales mostly C.UTF-8 only. Where a locale is missing, libc, Python
and Java fall back to ASCII and to English without a message. Not covered: processes of the host, which inherit all this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

LOCALTIME = Path("/etc/localtime")
ZONES = "zoneinfo"
"""The folder of time zones' rules: the rest of a path after this folder is the zone's name."""
UTF8 = "C.UTF-8"
"""The locale with this character set that images have."""
_LOCALE = re.compile(r"(?P<language>[a-z]{2,3})(_(?P<country>[A-Z]{2}))?\.utf-?8(@.*)?", re.IGNORECASE)


def host_zone(localtime: Path = LOCALTIME) -> dict[str, str]:
    """Return the variable TZ with the name of the host's time zone; empty where the host has only a copy of the zone's
    rules."""
    parts = localtime.resolve().parts
    if ZONES not in parts:
        return {}
    return {"TZ": "/".join(parts[parts.index(ZONES) + 1 :])}


def in_image(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables; if they name a locale of the character set UTF-8, with the UTF-8 locale that images have
    instead."""
    named = _locale(environment)
    return {**environment, **({"LC_ALL": UTF8} if _LOCALE.fullmatch(named) else {})}


def language_words(environment: Mapping[str, str]) -> list[str]:
    """Options of `java` with the language and country of the locale that the variables name, because C.UTF-8 has neither."""
    named = _LOCALE.fullmatch(_locale(environment))
    if named is None:
        return []
    country = named["country"]
    return [f"-Duser.language={named['language'].lower()}", *([f"-Duser.country={country.upper()}"] if country else [])]


def _locale(environment: Mapping[str, str]) -> str:
    """Return the locale that the variables name for characters (setlocale(3))."""
    return next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))), "")

"""Says a thing in the log once in the life of a process. What it is about comes from others, so there is an end to it."""

from __future__ import annotations

import logging

log = logging.getLogger("sparkpace.wire")

MOST = 200
_said: set[str] = set()


def warn_once(sentence: str) -> None:
    if sentence not in _said and len(_said) < MOST:
        _said.add(sentence)
        log.warning("%s", sentence)

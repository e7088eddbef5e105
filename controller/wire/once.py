"""Logs a sentence once in the life of a process, and at most `MOST` different ones, as peers choose their words."""

from __future__ import annotations

import logging

log = logging.getLogger("sparkpace.wire")

MOST = 200
_said: set[str] = set()


def warn_once(sentence: str) -> None:
    if sentence not in _said and len(_said) < MOST:
        _said.add(sentence)
        log.warning("%s", sentence)

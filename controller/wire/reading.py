"""Decodes messages. What this release does not know of one is ignored and told once in the log, field by field."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from stage_model.decoding import UNREADABLE

log = logging.getLogger("sparkpace.wire")

T = TypeVar("T")

MOST = 200
"""Different sentences said, as peers choose their words."""
EVERY = 61
"""Of each kind of message the first is looked at, then one of so many: looking costs several times the decoding. A prime, so
that each of several senders who take turns comes up."""
LONGEST = 80
LARGEST = 1 << 20
"""Bytes of a message that is looked at; a larger one would keep all others waiting."""

_said: set[str] = set()


def warn_once(sentence: str) -> None:
    """Logs it once in the life of a process."""
    if sentence not in _said and len(_said) < MOST:
        _said.add(sentence)
        log.warning("%s", sentence)


class Reader:
    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def read(self, data: bytes | bytearray, kind: type[T]) -> T:
        """Raises `UNREADABLE`."""
        message = msgspec.json.decode(data, type=kind)
        self.look(data, message)
        return message

    def look(self, data: bytes | bytearray, message: object) -> None:
        """Now and then tells which fields of `data` were ignored when `message` was decoded from it."""
        name = type(message).__name__
        self._seen[name] += 1
        if self._seen[name] % EVERY == 1 and len(data) <= LARGEST:
            for field in unknown(data, message):
                warn_once(
                    f"field {field!r:.{LONGEST}} of a {name} is not known to this release and ignored: a newer one sent it"
                )


def unknown(data: bytes | bytearray, message: object) -> Iterator[str]:
    """Fields of `data` that are missing when `message`, which was decoded from it, is encoded again. Raw parts (events) are
    left out: they are decoded and looked at one by one."""
    try:
        yield from _further(msgspec.json.decode(data), msgspec.json.decode(msgspec.json.encode(message)), "")
    except (msgspec.MsgspecError, *UNREADABLE):
        return  # a raw part that cannot be read; whoever decodes it says so


def _further(told: Any, known: Any, where: str) -> Iterator[str]:
    if isinstance(told, dict) and isinstance(known, dict):
        for name, value in told.items():
            if name not in known:
                yield where + name
            else:
                yield from _further(value, known[name], f"{where}{name}.")
    elif isinstance(told, list) and isinstance(known, list):
        for one, other in zip(told, known, strict=False):
            yield from _further(one, other, where)


reader = Reader()
"""This process's."""

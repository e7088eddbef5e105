"""Makes hostile input of a good one: JSON is changed as JSON, everything else as text and bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 255, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 10**18, 10**300,
    253_402_300_799_999, 0.5, -0.0, -1.5, 1e-300, 5e-324, 1e15, 1e300, 1.7e308,
)  # fmt: skip
TEXTS: tuple[str, ...] = (
    "", " ", "\0", "0", "1", "-1", "00001", "²", "١", "1e400", "nan", "inf", "-", "=", ",", ":", "!", "#", "\\", "/",
    "..", "\n", "a=b", "a!=b", "!a", "a:rw", "a=b,a=c", "9" * 400, "9" * 5000, "x" * 300, "y/" * 3000, " " * 400,
    "é\u2028\ufeff", "😀", "true", "false", "10s", "1h30m", "2g", "64m", "0.5", "high", "last", "app", "/dev/null",
    "/proc/self/mem", "1/" * 50, "9999-12-31T23:59:59-14:00", "0001-01-01T00:00+14:00", "10.0.0.0/8", "::/0",
    "fe80::1%x", "gpu=1", "ssd=0.5",
)  # fmt: skip
BYTES: tuple[bytes, ...] = (
    b"\0", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"[" * 1500, b'{"a":' * 1500, b"9" * 5000,
    b"1e999", b"\n", b"\r", b"\\", b" ", b"\t", b'"', b"{", b"}", b"[", b"]", b",", b":", b"=", b"-", b"NaN", b"null",
    b"true",
)  # fmt: skip


def mutated(data: bytes, random: Random) -> bytes:
    """Return `data` with one to three changes, line by line where it has lines."""
    for _ in range(random.choice((1, 1, 2, 3))):
        lines = data.split(b"\n")
        at = random.randrange(len(lines))
        if random.random() < 0.15:
            lines[at : at + 1] = random.choice(([], [lines[at]] * 2, [random.choice(lines), lines[at]]))
        else:
            lines[at] = _line(lines[at], random)
        data = b"\n".join(lines)
    return data


def _line(line: bytes, random: Random) -> bytes:
    begin = next((i for i, byte in enumerate(line[:40]) if byte in b"{["), -1)
    if begin >= 0 and random.random() < 0.8:
        try:
            value = json.loads(line[begin:])
            return line[:begin] + json.dumps(_changed(value, random), ensure_ascii=False).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            pass
    return _bytes(line, random)


def _changed(value: Any, random: Random) -> Any:
    """Return a JSON value with one of its nodes changed."""
    places = list(_places(value))
    if not places:
        return _hostile(value, random)
    holder, key = random.choice(places)
    kind = random.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder[key:key] = [holder[key]] * random.choice((1, 2, 40))
    elif kind == 1:
        holder[random.choice(TEXTS)] = holder[key]
    elif kind == 2:
        holder[key] = random.choice([h[k] for h, k in places])
    else:
        holder[key] = _hostile(holder[key], random)
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every item of every list and dictionary in it, with what holds it."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending and len(found) < 2000:
        one = pending.pop()
        keys: Sequence[Any] = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        found += [(one, key) for key in keys]
        pending += [one[key] for key in keys if isinstance(one[key], dict | list)]
    return found


def _hostile(value: Any, random: Random) -> Any:
    """Return another value, mostly of the same type: other types are refused at once."""
    if random.random() < 0.15:
        return random.choice((None, True, False, [], {}, 0, "", 1.5))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        near: tuple[Callable[[], Any], ...] = (lambda: random.choice(NUMBERS), lambda: value + 1, lambda: -value)
        return random.choice(near)()
    if isinstance(value, str):
        at = random.randrange(len(value) + 1)
        word = random.choice(TEXTS)
        return random.choice((word, word, value[:at] + word + value[at:], value[:at], value * 3))
    return random.choice(TEXTS) if random.random() < 0.5 else random.choice(NUMBERS)


def _bytes(line: bytes, random: Random) -> bytes:
    at, other = sorted((random.randrange(len(line) + 1), random.randrange(len(line) + 1)))
    kind = random.randrange(5)
    if kind == 0:
        return line[:at] + line[other:]
    if kind == 1:
        return line[:at] + line[at:other] * random.choice((2, 3, 50)) + line[other:]
    if kind == 2:
        return line[:at] + bytes([random.randrange(256)]) + line[at + 1 :]
    return line[:at] + random.choice((*BYTES, *(word.encode() for word in TEXTS))) + line[at:]

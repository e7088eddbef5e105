"""Something that parses what others wrote: what takes the bytes in, which errors its caller handles, good inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """A target whose `take` raises only `errors`. `slow`: an input takes tens of milliseconds."""

    name: str
    take: Callable[[bytes], object]
    seeds: Sequence[bytes]
    errors: tuple[type[Exception], ...] = ()
    slow: bool = False


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)

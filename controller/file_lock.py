"""One at a time among the agents of a machine: what is made on first use is made once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stage_model.errors import RuntimeFailed


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Waits for the lock on `path`; it goes with its holder. Raises `RuntimeFailed` when the file cannot be opened."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RuntimeFailed(f"lock file {path} cannot be opened ({error.strerror}); choose another") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

"""A file system of a few megabytes that can be filled to its last byte: a full disk for real."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A small disk. `fill` leaves no byte of it, `clear` gives back what `fill` took."""

    def __init__(self, path: Path) -> None:
        self.path, self._ballast = path, path / "ballast"

    def fill(self) -> None:
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while True:
                os.write(descriptor, b"x" * 4096)
        except OSError:
            os.close(descriptor)

    @contextmanager
    def kept_full(self) -> Iterator[None]:
        """Keep the disk full: fill it again whenever something is given back; clear it in the end."""
        over = threading.Event()

        def fill() -> None:
            while not over.wait(0.02):
                self.fill()

        self.fill()
        filler = threading.Thread(target=fill)
        filler.start()
        try:
            yield
        finally:
            over.set()
            filler.join()
            self.clear()

    def clear(self) -> None:
        self._ballast.unlink()


@contextmanager
def mounted(where: Path, size: str) -> Iterator[SmallDisk]:
    """Mount a tmpfs of that size at `where`; skip the test where no user may mount one."""
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "small", str(where)]
    if os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("only root mounts a small disk")
    try:
        yield SmallDisk(where)
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)

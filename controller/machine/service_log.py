"""Logging of the services: to their standard error, which is kept small; repeated lines of libraries once a minute.

The destination of the lines is the starter's choice (`controller.local.cluster`); `controller.machine.log_files` keeps files
small.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from controller.machine.log_files import LARGEST, keep_small

REPEATED_S = 60.0
MOST_MESSAGES = 1000
"""Messages remembered; some libraries put text that differs each time into the message itself."""
OF_LIBRARIES = ("uvicorn.error", "asyncio")
"""Loggers to which a stranger's connections can bring many lines."""


class SmallLog(logging.StreamHandler):  # type: ignore[type-arg]
    def __init__(self, folder: Path, largest: int) -> None:
        super().__init__(sys.stderr)
        self._folder, self._largest = folder, largest

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        keep_small(self._folder, largest=self._largest)


class Seldom(logging.Filter):
    """A filter that lets a message through once in `REPEATED_S`, with any values in it, and with the number of messages left
    out before."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        said_s, left_out = self._said.get(str(record.msg), (None, 0))
        # the wall clock may have been set back
        if said_s is not None and abs(record.created - said_s) < REPEATED_S:
            self._said[str(record.msg)] = said_s, left_out + 1
            return False
        if len(self._said) >= MOST_MESSAGES:
            self._said.clear()
        self._said[str(record.msg)] = record.created, 0
        if left_out:
            record.msg = f"{record.msg} ({left_out} more like this were left out)"
        return True


def log_to_stderr(folder: Path, largest: int = LARGEST) -> None:
    """Set up this process's log; `folder` is the home's for logs."""
    handler = SmallLog(folder, largest)
    logging.basicConfig(level=logging.INFO, handlers=[handler], format="%(asctime)s %(levelname)s %(message)s")
    for name in OF_LIBRARIES:
        logging.getLogger(name).addFilter(Seldom())

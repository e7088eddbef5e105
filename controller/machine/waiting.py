"""Waits for outside events that nothing reports."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(done: Callable[[], bool], within_s: float, every_s: float = 0.1) -> bool:
    """Wait until `done()` holds, asked every `every_s` seconds, first at once; return False if it does not within `within_s`
    seconds."""
    until_s = time.monotonic() + within_s
    while not done():
        if time.monotonic() > until_s:
            return False
        time.sleep(every_s)
    return True

"""Waiting for something outside to happen, where nothing tells of it."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(done: Callable[[], bool], within_s: float, every_s: float = 0.1) -> bool:
    """Looks every `every_s` seconds, first at once; False if `done()` did not hold within `within_s` seconds."""
    until_s = time.monotonic() + within_s
    while not done():
        if time.monotonic() > until_s:
            return False
        time.sleep(every_s)
    return True

"""Counts what work Python does for an input, so that no verdict depends on a machine's speed.

Lines of the product are counted as they run. What C does in one line (a regular expression, `sum`, a conversion of digits) is
not seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = str(Path(__file__).resolve().parents[2])
TESTS = str(Path(ROOT) / "tests")


def lines_run(work: Callable[[], object]) -> int:
    """Count the lines of the product that ran on this thread."""
    count = 0

    def line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        return line if name.startswith(ROOT) and not name.startswith(TESTS) and "/.venv" not in name else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def is_linear(work_of: Callable[[int], Callable[[], object]], size: int) -> tuple[bool, list[int]]:
    """Check that twice as much input costs twice as much, and return the counts: constants drop out of the differences
    between three sizes."""
    counts = [lines_run(work_of(size * times)) for times in (1, 2, 4)]
    return counts[2] - counts[1] <= 2.4 * (counts[1] - counts[0]) + size, counts

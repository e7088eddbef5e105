"""Sparkpace's own processes: `ours` is the command for such a process, which begins with this file, run by its path.

The command does not use `python -m`: an installed Sparkpace keeps its packages off the path that other programs import from
(docs/decisions/0019-one-name-installed.md), and `-m` looks into the current directory first, where a user may have a
`controller` of his own.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

START = Path(__file__).resolve()


def ours(module: str, *words: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules as `__main__`."""
    return (sys.executable, str(START), module, *words)


if __name__ == "__main__":
    sys.path[0] = str(START.parents[1])  # instead of this file's folder
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)

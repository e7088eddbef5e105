"""Programs of root's, such as iptables, tc and ip: found where systems have them, in plain English, with a time-out."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

ADMIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Path with the folders of such programs: in some systems they are only on root's PATH."""


def has_program(name: str) -> bool:
    return shutil.which(name, path=ADMIN_PATH) is not None


def run_program_of_root(words: Sequence[str], timeout_s: float, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program to its end with `text` as its input, whatever its exit code. Raise `OSError`, and
    `subprocess.TimeoutExpired`."""
    environment = {**os.environ, "LC_ALL": "C", "PATH": ADMIN_PATH}
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=timeout_s, env=environment, check=False)


def first_words(done: subprocess.CompletedProcess[str]) -> str:
    """Return the first line of the program's error."""
    return next(iter(done.stderr.strip().splitlines()), f"exit code {done.returncode}")[:200]

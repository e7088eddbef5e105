"""A child that ends with its parent. That drivers do: `test_submit`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def test_a_child_whose_parent_has_ended_already_does_not_go_on() -> None:
    load = "import sys; from controller.submit.driver_run import end_with_parent"
    program = f"{load}; end_with_parent(int(sys.argv[1])); print('goes on')"

    def run(parent: int) -> tuple[int, str]:
        words = [sys.executable, "-c", program, str(parent)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        return done.returncode, done.stdout

    assert run(os.getpid()) == (0, "goes on\n")
    assert run(os.getpid() + 1) == (128 + signal.SIGTERM, "")

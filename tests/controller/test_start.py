"""Processes of our own begin with our packages, wherever the user is."""

from __future__ import annotations

import subprocess
from pathlib import Path

from controller.start import ours
from controller.version import VERSION


def test_a_sparkpace_process_takes_nothing_from_the_current_directory(tmp_path: Path) -> None:
    for name in ("controller", "placement", "click"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not yours')\n")
    done = subprocess.run(ours("controller.cli.main", "--version"), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"sparkpace, version {VERSION}\n"), done.stderr

"""The lab's scripts where no lab can be made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.lab.machines import LAB


def test_missing_packages_are_named_in_one_sentence(tmp_path: Path) -> None:
    for name in ("bash", "dirname", "realpath"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    words = [str(tmp_path / "bash"), str(LAB), "up"]
    bare = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(words, env=bare, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (69, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith("lab: missing: user-mode-linux mmdebstrap")
    assert "run: apt-get install" in said

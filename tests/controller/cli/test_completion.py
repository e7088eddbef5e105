"""What a shell is told of our commands and options."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller.cli.main import main

COMMAND = Path(sys.executable).parent / "sparkpace"


@pytest.mark.skipif(shutil.which("bash") is None or not COMMAND.is_file(), reason="needs bash and the installed command")
@pytest.mark.parametrize(("typed", "offered"), [("sparkpace pro", "profile"), ("sparkpace up --keep", "--keep-runs")])
def test_bash_completes_commands_and_options(typed: str, offered: str) -> None:
    script = (
        f'PATH="{COMMAND.parent}:$PATH"; eval "$(sparkpace completion bash)"; COMP_WORDS=({typed}); '
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sparkpace_completion sparkpace; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == [offered], done.stderr


def test_another_shell_is_refused() -> None:
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2

"""Commands and options of ours that a shell learns."""

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
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sparkpace pro", "profile"),
        ("sparkpace up --keep", "--keep-runs"),
        ("sparkpace submit --pri", "--principal --priority"),
        ("sparkpace submit --executor-m", "--executor-memory"),
        ("sparkpace submit --conf spark.a = b --law f", "forecast"),
        ("sparkpace submit --detach --law = p", "paper"),
        ("sparkpace profile lea", "learn"),
    ],
)
def test_bash_completes_commands_options_and_values(typed: str, offered: str) -> None:
    script = (
        f'PATH="{COMMAND.parent}:$PATH"; eval "$(sparkpace completion bash)"; COMP_WORDS=({typed}); '
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sparkpace_completion sparkpace; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == offered.split(), done.stderr


def test_another_shell_is_refused() -> None:
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2

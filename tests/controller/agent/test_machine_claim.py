"""A machine has one agent, and a second agent notices that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controller.agent.machine_claim import claim_machine
from controller.runtime.cgroup.tree import CgroupTree

HOLD = """
import sys
from pathlib import Path
from controller.agent.machine_claim import claim_machine
from controller.runtime.cgroup.tree import CgroupTree
print(claim_machine(CgroupTree(Path(sys.argv[1]))), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=[1, 2])
def groups(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Provide a folder that looks like a tree of control groups of either version."""
    if request.param == 2:
        (tmp_path / "cgroup.controllers").touch()
    else:
        (tmp_path / "cpu,cpuacct").mkdir()
    return tmp_path


def test_the_second_agent_is_told_for_as_long_as_the_first_lives(groups: Path) -> None:
    first = subprocess.Popen([sys.executable, "-c", HOLD, groups], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdin is not None
    assert first.stdout is not None
    with first:
        assert first.stdout.readline() == "True\n"
        assert not claim_machine(CgroupTree(groups))
        first.stdin.close()
        first.wait(60)
    assert claim_machine(CgroupTree(groups))


def test_without_control_groups_nobody_is_told(tmp_path: Path) -> None:
    assert CgroupTree(tmp_path).cpu_root() is None
    assert claim_machine(CgroupTree(tmp_path))

"""The supervisor restarts its child, opens the quotas of a silent one, and ends when told. Real processes, short waits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from controller.agent.supervisor import Supervisor
from controller.options import AgentOptions

SILENT = (sys.executable, "-c", "import time; time.sleep(60)")
TICKING = (sys.executable, "-c", "import os, sys; sys.stdin.read(); os.write(1, b'.'); sys.exit(3)")
HANGING_OPENER = SILENT


@pytest.fixture
def options(tmp_path: Path) -> AgentOptions:
    return AgentOptions(
        home=tmp_path,
        worker_id="w1",
        cores=2.0,
        memory_mb=1024,
        runtime="process",
        period_s=1.0,
        floor=0.1,
        master_url="http://127.0.0.1:1",
    )


def opener(place: Path) -> tuple[str, ...]:
    """Writes down the options it is given."""
    return (sys.executable, "-c", "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')", str(place))


def test_a_child_that_ends_by_itself_opens_nothing(options: AgentOptions, tmp_path: Path) -> None:
    supervisor = Supervisor(options, child=TICKING, opener=opener(tmp_path / "opened"))
    assert supervisor._run_child() == 3
    assert not (tmp_path / "opened").exists()


def test_a_silent_child_is_killed_and_the_quotas_are_opened_once(options: AgentOptions, tmp_path: Path) -> None:
    supervisor = Supervisor(options, child=SILENT, opener=opener(tmp_path / "opened"), silence_s=0.2)
    for _ in range(2):
        # the next child is silent too: it is killed as well, and the quotas are open already
        assert supervisor._run_child() == -9
    (given,) = (tmp_path / "opened").read_text().splitlines()
    assert AgentOptions.from_json(given) == options


def test_an_engine_that_hangs_does_not_take_the_supervisor_with_it(
    options: AgentOptions, capfd: pytest.CaptureFixture[str]
) -> None:
    supervisor = Supervisor(options, child=SILENT, opener=HANGING_OPENER, silence_s=0.1, opening_s=0.2)
    assert supervisor._run_child() == -9
    assert "could not be opened within 0.2 s" in capfd.readouterr().err


def test_a_stop_that_comes_before_the_child_is_passed_on(options: AgentOptions) -> None:
    supervisor = Supervisor(options, child=SILENT)
    supervisor._stop()
    assert supervisor._run_child() == -15

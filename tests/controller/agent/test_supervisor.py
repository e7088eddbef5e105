"""The supervisor restarts its child, opens the quotas of a silent one, and ends on request. Real processes, short waits."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from controller.agent.supervisor import OPENING_S, Supervisor
from controller.asks.options import AgentOptions
from tests.fakes.options import agent_options
from tests.fakes.small_disk import SmallDisk

SILENT = (sys.executable, "-c", "import time; time.sleep(60)")
TICKING = (sys.executable, "-c", "import os, sys; sys.stdin.read(); os.write(1, b'.'); sys.exit(3)")


@pytest.fixture
def options(tmp_path: Path) -> AgentOptions:
    return agent_options(tmp_path)


def opener(place: Path) -> tuple[str, ...]:
    """Return a program that writes down the options it is given."""
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


DYING = (sys.executable, "-c", "import sys; sys.exit(1)")


def silent_for_long(
    options: AgentOptions, child: Sequence[str], opener: Sequence[str], opening_s: float = OPENING_S
) -> Supervisor:
    """Make a supervisor none of whose children has ticked for a quarter of an hour."""
    supervisor = Supervisor(options, child=child, opener=opener, opening_s=opening_s)
    supervisor._ticked_s -= 1000
    return supervisor


def test_children_that_die_before_their_first_tick_do_not_put_the_opening_off(options: AgentOptions, tmp_path: Path) -> None:
    supervisor = silent_for_long(options, DYING, opener(tmp_path / "opened"))
    for _ in range(3):
        assert supervisor._run_child() == 1
        supervisor._wait(0.01)
    # opened during the first back-off, and once is enough
    assert len((tmp_path / "opened").read_text().splitlines()) == 1


def test_a_child_that_lives_without_a_tick_does_not_put_the_opening_off(options: AgentOptions, tmp_path: Path) -> None:
    waiting = (
        "import pathlib, sys, time; opened = pathlib.Path(sys.argv[1])\n"
        "while not opened.exists(): time.sleep(0.05)\n"
        "sys.exit(4)"
    )
    opened = str(tmp_path / "opened")
    supervisor = silent_for_long(options, (sys.executable, "-c", waiting, opened), opener(tmp_path / "opened"))
    assert supervisor._run_child() == 4


def test_an_opener_that_fails_is_asked_again(options: AgentOptions, tmp_path: Path) -> None:
    failing = (sys.executable, "-c", "import sys; print('x', file=open(sys.argv[1], 'a')); sys.exit(1)")
    supervisor = silent_for_long(options, DYING, (*failing, str(tmp_path / "opened")))
    for _ in range(3):
        supervisor._wait(0.01)
    assert len((tmp_path / "opened").read_text().splitlines()) == 3


def test_a_child_that_ticks_keeps_the_quotas(options: AgentOptions, tmp_path: Path) -> None:
    supervisor = silent_for_long(options, TICKING, opener(tmp_path / "opened"))
    supervisor._opened = True  # of the silence before it
    assert supervisor._run_child() == 3
    supervisor._wait(0.01)
    assert not (tmp_path / "opened").exists()
    # and the next silence opens them again
    supervisor._ticked_s -= 1000
    supervisor._wait(0.01)
    assert (tmp_path / "opened").exists()


def test_a_child_that_cannot_be_started_does_not_end_the_supervisor(options: AgentOptions) -> None:
    assert Supervisor(options, child=("/no/such/program",))._run_child() is None


def test_a_child_that_dies_before_it_reads_its_options_does_not_end_the_supervisor(options: AgentOptions) -> None:
    more_than_a_pipe_holds = dataclasses.replace(options, labels={"zone": "z" * 200_000})
    assert Supervisor(more_than_a_pipe_holds, child=DYING)._run_child() == 1


@pytest.mark.parametrize(
    ("opener", "said"), [(SILENT, "within 0.2 s"), (("/no/such/program",), "(no process for it")], ids=["hangs", "is missing"]
)
def test_an_opener_that_cannot_open_does_not_take_the_supervisor_with_it(
    options: AgentOptions, opener: Sequence[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    silent_for_long(options, DYING, opener, opening_s=0.2)._wait(0.01)
    assert f"could not be opened {said}" in capfd.readouterr().err


def stop_it(options: AgentOptions, child: tuple[str, ...], opener: tuple[str, ...], when: str) -> int:
    """Run a supervisor until its stderr says `when`, stop it, and return its exit code."""
    program = (
        "import sys; from controller.agent.supervisor import Supervisor; from controller.asks.options import AgentOptions; "
        f"sys.exit(Supervisor(AgentOptions.from_json(sys.stdin.buffer.read()), child={child!r}, opener={opener!r}).run())"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(options.to_json())
    process.stdin.close()
    for line in process.stderr:
        if when in line.decode():
            process.send_signal(signal.SIGTERM)
            break
    process.stderr.read()
    process.stderr.close()
    return process.wait(60)


def test_a_stop_during_back_off_opens_the_quotas(options: AgentOptions, tmp_path: Path) -> None:
    assert stop_it(options, DYING, opener(tmp_path / "opened"), "restarting in") == 0
    assert len((tmp_path / "opened").read_text().splitlines()) == 1


@pytest.mark.parametrize(("code", "opened"), [(0, False), (1, True)])
def test_a_stop_opens_quotas_unless_the_child_did(options: AgentOptions, tmp_path: Path, code: int, opened: bool) -> None:
    ending = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[1]))); "
        "os.write(1, b'.'); sys.stderr.write('child is up\\n'); sys.stderr.flush(); time.sleep(600)"
    )
    assert stop_it(options, (sys.executable, "-c", ending, str(code)), opener(tmp_path / "opened"), "child is up") == 0
    assert (tmp_path / "opened").exists() == opened


def test_a_stop_that_comes_before_the_child_is_passed_on(options: AgentOptions) -> None:
    supervisor = Supervisor(options, child=SILENT)
    supervisor._stop()
    assert supervisor._run_child() == -15


def test_a_log_on_a_full_disk_ends_no_supervisor(small_disk: SmallDisk) -> None:
    with (small_disk.path / "agent.log").open("ab") as log:
        small_disk.fill()
        program = "from controller.agent.supervisor import _say\nfor _ in range(1000): _say('x' * 100)"
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run([sys.executable, "-c", program], stderr=log, check=False, env=buffered)
    assert done.returncode == 0
    assert (small_disk.path / "agent.log").stat().st_size < 4096

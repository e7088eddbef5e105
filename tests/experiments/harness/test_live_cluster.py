"""The command with a home of its own: where its output goes, what it leaves running. A script stands for `sparkpace`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controller.home import Home
from experiments.harness.live_cluster import Sparkpace

SCRIPT = (
    "import pathlib, sys; print(*sys.argv[1:], file=pathlib.Path('words').open('a')); sys.exit(sys.argv[1] == 'up' and 'no')"
)


def sparkpace(folder: Path, script: str) -> Sparkpace:
    return Sparkpace(Home(folder / "home"), folder, program=(sys.executable, "-c", script))


def test_a_command_s_output_goes_where_it_is_asked_to(tmp_path: Path) -> None:
    script = "import os, sys; print(os.environ['SPARKPACE_HOME']); sys.exit(('complaint', 4)[len(sys.argv) - 1])"
    ours = sparkpace(tmp_path, script)
    done = ours.run([], errors=tmp_path / "errors")
    assert (done.code, done.output) == (1, f"{tmp_path}/home\n")
    assert (tmp_path / "errors").read_text() == "complaint\n"
    done = ours.run([], log=tmp_path / "log")
    assert sorted(done.output.splitlines()) == [f"{tmp_path}/home", "complaint"]
    with pytest.raises(SystemExit, match=r"sparkpace x .* 4"):
        ours.need("x")


def test_a_cluster_goes_with_its_block_and_one_that_a_crash_left_behind_goes_first(tmp_path: Path) -> None:
    ours = sparkpace(tmp_path, SCRIPT.replace(" and 'no'", " and 0"))
    with pytest.raises(ZeroDivisionError), ours.running("--workers", "2"):
        raise ZeroDivisionError
    assert (tmp_path / "words").read_text() == "up --port 0 --workers 2\ndown\n"
    (tmp_path / "words").unlink()
    ours.home.path.mkdir()
    ours.home.cluster_file.touch()
    with ours.running():
        assert (tmp_path / "words").read_text() == "down\nup --port 0\n"


def test_a_cluster_that_does_not_come_up_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"sparkpace up --port 0 .* 1"), sparkpace(tmp_path, SCRIPT).running():
        pytest.fail("there is no cluster")


def test_a_job_in_the_background_writes_to_its_files_and_knows_the_variables(tmp_path: Path) -> None:
    script = "import os, sys; print(os.environ['MINE'], os.getcwd(), flush=True); sys.exit(f'{os.getsid(0) == os.getpid()}')"
    ours = Sparkpace(Home(tmp_path / "home"), tmp_path, variables={"MINE": "set"})
    out, err, both = (tmp_path / name for name in ("out", "err", "both"))
    assert ours.start([sys.executable, "-c", script], out, err).wait() == 1
    assert (out.read_text(), err.read_text()) == (f"set {tmp_path}\n", "True\n")
    assert ours.start([sys.executable, "-c", script], both).wait() == 1
    assert both.read_text() == f"set {tmp_path}\nTrue\n"


SIGNALLED = """
import os, pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("x" * 200_000, flush=True)
caller = pathlib.Path("/proc") / str(os.getppid()) / "stat"
while caller.read_text().rpartition(")")[2].split()[0] != "S":
    pass  # Python hears of a signal just before it waits when the wait is over
os.kill(os.getppid(), int(sys.argv[1]))
signal.sigwait({signal.SIGTERM})
pathlib.Path("ended").touch()
"""
"""A submission whose caller gets a signal, once it reads what fits into no pipe; it ends its driver if it is let."""
CALLER = """
import signal, sys
from pathlib import Path
from controller.home import Home
from experiments.harness.live_cluster import Sparkpace, end_by_signal
signal.signal(signal.SIGTERM, end_by_signal)
Sparkpace(Home(Path("home")), Path.cwd(), program=(sys.executable, "-c", sys.argv[1])).call(sys.argv[2:])
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_to_who_calls_a_command_lets_the_command_end_what_it_started(tmp_path: Path, number: int, code: int) -> None:
    words = [sys.executable, "-c", CALLER, SIGNALLED, str(int(number))]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "ended").exists()

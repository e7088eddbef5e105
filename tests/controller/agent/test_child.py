"""How often stage events may wake the control loop, how many files it may have open, and whom it beats for."""

from __future__ import annotations

import resource
import select
import subprocess
import sys
from pathlib import Path

import pytest

from controller.agent.child import LEAST_PAUSE_S, allow_files, pause_s
from controller.home import Home
from controller.options import AgentOptions


@pytest.mark.parametrize(
    ("cpu_s", "expected"),
    [
        (0.0, LEAST_PAUSE_S),
        (0.002, LEAST_PAUSE_S),  # a few executors: 2 ms in 50 is a twenty-fifth of a core
        (0.03, 0.6),  # a hundred: 30 ms in 600 is a twentieth
        (0.5, 1.0),  # never longer than the period
    ],
)
def test_a_dear_turn_is_followed_by_a_long_pause(cpu_s: float, expected: float) -> None:
    assert pause_s(cpu_s, 1.0) == pytest.approx(expected)


def test_as_many_files_may_be_open_as_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        allow_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_long_period_is_no_silence_and_a_child_without_a_supervisor_ends(tmp_path: Path) -> None:
    Home(tmp_path).create()
    (tmp_path / "agents/w1").mkdir(parents=True)
    (tmp_path / "agents/w1/cluster_id").write_text("mine\n")
    options = AgentOptions(
        home=tmp_path,
        worker_id="w1",
        cores=1.0,
        memory_mb=1024,
        runtime="process",
        period_s=3600.0,
        floor=0.1,
        master_url="http://127.0.0.1:1",
    )
    quick = "import sys; from controller.agent import child; child.BEAT_S = 0.01; sys.exit(child.main())"
    process = subprocess.Popen([sys.executable, "-c", quick], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(options.to_json())
    process.stdin.close()
    try:
        beats = 0
        while beats < 5:
            ready, _, _ = select.select([process.stdout], [], [], 60)
            assert ready, "no beat within a minute"
            read = process.stdout.read1(16)  # type: ignore[attr-defined]
            assert read, "the child ended"
            beats += len(read)
        process.stdout.close()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()

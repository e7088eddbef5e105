"""An agent's child: how often stage events may wake its loop, its limit of open files, its heartbeat and its end."""

from __future__ import annotations

import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.agent import child
from controller.agent.child import LEAST_PAUSE_S, OTHER_CLUSTER_CODE, STUCK_CODE, Child, pause_s
from controller.agent.executors.watching import Watching
from controller.agent.loop import LEAVE_S
from controller.agent.supervisor import LEFT_CODE
from controller.asks.options import AgentOptions
from controller.home import Home
from controller.machine.process import allow_files
from controller.runtime.base import ExecutorKey, Observed
from stage_model.errors import RuntimeFailed
from tests.controller.runtime import rigs
from tests.fakes.options import agent_options
from tests.fakes.runtime import FakeRuntime

KEYS = [ExecutorKey("app-1", "1"), ExecutorKey("app-1", "2")]


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


def options_of(home: Path, period_s: float) -> AgentOptions:
    Home(home).create()
    Home(home).make_agent_token("w1")
    (home / "agents/w1").mkdir(parents=True)
    (home / "agents/w1/cluster_id").write_text("mine\n")
    return agent_options(home, cores=1.0, period_s=period_s)


class _Machine(FakeRuntime):
    """A machine on which things go wrong as the test says."""

    works = True
    observations: Callable[[], None] = staticmethod(lambda: None)

    def alive(self) -> bool:
        return self.works

    def observe(self) -> dict[ExecutorKey, Observed]:
        self.observations()
        return super().observe()


@pytest.fixture
def machine(tmp_path: Path) -> _Machine:
    """Provide a machine with two executors at half a core each."""
    rig = rigs.FakeRig(tmp_path)
    made = _Machine(rig.host, "mine", "w1")
    for key in KEYS:
        made.start(rig.launch(rigs.IDLE, key=key, cores=0.5))
    return made


@pytest.fixture
def alive(tmp_path: Path, machine: _Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    """Run a child on that machine, of a worker with one core, in this process. A minute later it is stopped."""
    monkeypatch.setattr(child, "make_runtime", lambda _options, _cluster_id: Watching(machine, tmp_path / "records"))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    made = Child(options_of(tmp_path / "home", period_s=0.2))
    limit = threading.Timer(60, made._asked_to_stop)
    limit.start()
    yield made
    limit.cancel()
    made._asked_to_stop()
    made.link.send_now.set()
    for one in made.threads._all:
        assert one.thread is not None
        one.thread.join(60)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("patience", "named"),
    [("LINK_PATIENCE_S", "link, notices"), ("START_PATIENCE_S", "starts"), ("STOP_PATIENCE_S", "stops")],
)
def test_a_thread_that_hangs_ends_the_child(
    alive: Child, patience: str, named: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(child, patience, -1.0)  # whatever it does, it is too slow
    assert alive.run() == STUCK_CODE
    assert named in caplog.text


def test_a_runtime_that_has_ended_ends_the_child(alive: Child, machine: _Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.works = False
    assert alive.run() == STUCK_CODE
    assert " process " in caplog.text


@pytest.mark.parametrize("sure", [True, False])
def test_a_child_that_does_not_know_its_cluster_from_its_master_ends_if_that_is_of_another(alive: Child, sure: bool) -> None:
    alive._sure, alive.link.orders.foreign = sure, "theirs"
    if sure:  # the master's home may have been lost, or its address taken: executors here are not to be given up for that
        alive._asked_to_stop()
    assert alive.run() == (0 if sure else OTHER_CLUSTER_CODE)


def test_a_period_that_fails_is_tried_again(alive: Child, machine: _Machine, caplog: pytest.LogCaptureFixture) -> None:
    periods = 0

    def fail_twice() -> None:
        nonlocal periods
        periods += 1
        if periods in (2, 3):
            raise KeyError("no one thought of this")
        if periods == 4:
            alive._asked_to_stop()

    machine.observations = fail_twice
    assert alive.run() == 0
    assert sum(record.exc_info is not None for record in caplog.records) == 2


@pytest.mark.parametrize("stuck", [None, KEYS[1]])
def test_a_stop_opens_every_quota_or_tells_the_supervisor(alive: Child, machine: _Machine, stuck: ExecutorKey | None) -> None:
    if stuck is not None:
        machine._host.faults["set_quota", stuck] = RuntimeFailed("the kernel refused")
    alive._asked_to_stop()
    assert alive.run() == (0 if stuck is None else 1)
    assert [machine.observe()[key].quota_cores for key in KEYS] == [1.0, 1.0 if stuck is None else 0.5]


def test_an_agent_that_is_to_leave_waits_for_executors_for_a_while(alive: Child, caplog: pytest.LogCaptureFixture) -> None:
    alive.agent.leave_s = time.monotonic() - LEAVE_S - 1
    alive._tick()
    assert alive.link._report is not None
    assert alive.link._report.leaves
    assert not alive._has_left
    alive.agent.leave_s -= LEAVE_S
    assert alive.run() == LEFT_CODE
    assert "has ended this worker" in caplog.text


def test_a_long_period_is_no_silence_and_a_child_without_a_supervisor_ends(tmp_path: Path) -> None:
    options = options_of(tmp_path, period_s=3600.0)
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

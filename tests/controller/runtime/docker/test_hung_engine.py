"""An engine that takes requests and answers none: quotas move on, nothing waits, and later the engine knows everything.

No call here has a time limit of its own. The engine hangs until the test says otherwise, so whatever waited for it would fail
(after 5 s, with `RuntimeFailed`) or not be over while it hangs.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import pytest
from msgspec import structs

from controller.machine.process import find_process
from controller.runtime import executor_record
from controller.runtime.base import ExecutorKey
from controller.runtime.cgroup.group import Group
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker import client as engine_client
from controller.runtime.docker import engine as docker_engine
from controller.runtime.docker.engine import DockerRuntime
from controller.runtime.docker.state import EXIT_S
from stage_model.errors import RuntimeFailed, Unavailable
from tests.controller.runtime import rigs
from tests.controller.runtime.docker.rig import DockerRig
from tests.controller.runtime.rigs import KEY, MEMORY_BYTES
from tests.fakes.options import agent_options

pytestmark = pytest.mark.docker

T = TypeVar("T")
OTHER = ExecutorKey("app-1", "2")


class HangingEngine:
    """A socket in front of the real engine, through which a test can have it hang: requests are taken and never answered,
    including those under way. No test stops the engine itself, because others use it.

    `hang` and `resume` as often as needed. What clients sent meanwhile reaches the engine when it resumes, as the requests
    in a stopped engine's sockets do. `url` is the `base_url` of clients, `requests` every request's first line."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path}"
        self.requests: list[str] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def flows(self) -> bool:
        return self._flowing.is_set()

    def hang(self) -> None:
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    def close(self) -> None:
        self._flowing.set()
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            engine = _connected()
            self._sockets += [client, engine]
            threading.Thread(target=self._pump, args=(client, engine, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(engine, client, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, to_engine: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if to_engine:
                    self.requests.append(data.split(b"\r\n", 1)[0].decode(errors="replace"))
                self._flowing.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def _connected() -> socket.socket:
    where = urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
    if where.scheme == "unix":
        engine = socket.socket(socket.AF_UNIX)
        engine.connect(where.path)
        return engine
    assert where.hostname, f"DOCKER_HOST {where.geturl()!r} is neither a socket nor an address"
    return socket.create_connection((where.hostname, where.port or 2375))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[HangingEngine]:
    made = HangingEngine(tmp_path / "engine.sock")
    yield made
    made.close()


@pytest.fixture
def rig(tmp_path: Path, engine: HangingEngine) -> Iterator[DockerRig]:
    made = DockerRig(tmp_path)
    made.base_url = engine.url
    yield made
    engine.resume()
    made.close()


@pytest.fixture(autouse=True)
def short_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the engine count as away sooner than in production: these tests wait for that."""
    monkeypatch.setattr(engine_client, "QUICK_TIMEOUT_S", 1)
    monkeypatch.setattr("controller.runtime.docker.updates.TIMEOUT_S", 1.0)


def started(rig: DockerRig, runtime: DockerRuntime, *keys: ExecutorKey, program: str = rigs.IDLE) -> None:
    for key in keys or (KEY,):
        runtime.start(rig.launch(program, key=key))


def group_of(rig: DockerRig, key: ExecutorKey = KEY) -> Group:
    seen = rig.inspect(key)
    group = CgroupTree().group_of(seen["State"]["Pid"], must_contain=seen["Id"])
    assert group is not None
    return group


def quota_of(group: Group) -> float | None:
    return CgroupTree().read_quota(group)


def host(rig: DockerRig, name: str) -> int:
    return int(rig.inspect()["HostConfig"][name])


def without_waiting(engine: HangingEngine, call: Callable[[], T]) -> T:
    """Return the answer of `call` while nothing reaches the engine or comes from it: the call must not need the engine."""
    answers: list[T] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            answers.append(call())
        except Exception as error:  # noqa: BLE001 - it is the caller's
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(rigs.DEADLINE_S)
    assert not engine.flows
    if failures:
        raise failures[0]
    assert answers, "the call waited for the engine"
    return answers[0]


@pytest.mark.groups
def test_quotas_move_while_the_engine_hangs_and_it_learns_the_newest_when_it_answers(
    rig: DockerRig, engine: HangingEngine
) -> None:
    runtime = rig.runtime()
    started(rig, runtime)
    group = group_of(rig)
    engine.hang()
    for cores in (0.9, 0.35, 0.8, 0.41):
        assert without_waiting(engine, partial(runtime.set_quota, KEY, cores))
        assert quota_of(group) == pytest.approx(cores)
        assert without_waiting(engine, runtime.observe)[KEY].quota_cores == pytest.approx(cores)
    rig.until(lambda: runtime.chores.away)
    assert runtime.set_quota(KEY, 0.42)
    assert host(rig, "CpuQuota") == 50_000
    engine.resume()
    rig.until(lambda: runtime.chores.settle(0.1))
    assert host(rig, "CpuQuota") == 42_000
    assert quota_of(group) == pytest.approx(0.42)
    updates = [line for line in engine.requests if line.endswith("/update HTTP/1.1")]
    assert len(updates) <= 4  # the first, which hung; the newest; once more; an engine slow enough for one repetition


@pytest.mark.groups
def test_an_engine_that_rewrites_the_quota_it_remembers_is_put_right(rig: DockerRig) -> None:
    """The engine rewrites the quota with each update, whatever that is about."""
    runtime = rig.runtime()
    started(rig, runtime)
    group = group_of(rig)
    assert runtime.set_quota(KEY, 0.3)
    rig.until(lambda: runtime.chores.settle(0.1))
    known = runtime._known.by_key[KEY]
    assert CgroupTree().write_quota(group, 0.5)  # as an update of the engine's own would
    runtime._states.inform(known, "memory")
    rig.until(lambda: quota_of(group) == pytest.approx(0.3))


@pytest.mark.groups
def test_memory_limits_move_while_the_engine_hangs(rig: DockerRig, engine: HangingEngine) -> None:
    runtime = rig.runtime()
    started(rig, runtime)
    engine.hang()
    for limit in (2 * MEMORY_BYTES, 3 * MEMORY_BYTES // 4, 3 * MEMORY_BYTES):
        assert without_waiting(engine, partial(runtime.set_memory_limit, KEY, limit))
        assert without_waiting(engine, runtime.observe)[KEY].memory_limit_bytes == limit
    with_swap = CgroupTree().read_memory_limit(group_of(rig))
    assert with_swap == 3 * MEMORY_BYTES
    engine.resume()
    rig.until(lambda: runtime.chores.settle(0.1))
    assert host(rig, "Memory") == host(rig, "MemorySwap") == 3 * MEMORY_BYTES
    assert runtime.observe()[KEY].memory_limit_bytes == 3 * MEMORY_BYTES


def test_nothing_of_a_period_waits_for_an_engine_that_hangs(rig: DockerRig, engine: HangingEngine) -> None:
    now = 100.0
    runtime = rig.runtime(clock=lambda: now)
    started(rig, runtime, KEY, OTHER, program=rigs.STUBBORN)
    engine.hang()
    now += docker_engine.LIST_EVERY_S
    assert without_waiting(engine, runtime.observe)[KEY].running
    without_waiting(engine, lambda: runtime.stop(KEY, grace_s=5.0))
    now += 5.0
    without_waiting(engine, runtime.observe)
    rig.until(lambda: not runtime._known.by_key[KEY].lives())  # killed without the engine, when its grace was over
    assert not without_waiting(engine, lambda: runtime.set_quota(KEY, 0.5))
    assert without_waiting(engine, lambda: runtime.set_quota(OTHER, 0.7))
    with pytest.raises(RuntimeFailed, match="still runs"):
        without_waiting(engine, lambda: runtime.remove(OTHER))
    assert without_waiting(engine, runtime.observe)[KEY].running
    rig.until(lambda: runtime.chores.away)
    now += EXIT_S
    assert not without_waiting(engine, runtime.observe)[KEY].running
    without_waiting(engine, lambda: runtime.remove(KEY))
    assert without_waiting(engine, runtime.observe).keys() == {OTHER}
    without_waiting(engine, runtime.close)
    rig._open.remove(runtime)


def test_what_was_removed_while_the_engine_hung_goes_when_it_answers(rig: DockerRig, engine: HangingEngine) -> None:
    runtime = rig.runtime()
    started(rig, runtime, program=rigs.EXITS_WITH_3)
    rig.ended(runtime, KEY)
    engine.hang()
    without_waiting(engine, lambda: runtime.remove(KEY))
    assert rig.inspect()["State"]["ExitCode"] == 3
    engine.resume()
    rig.until(lambda: not rig.client.containers(all=True, filters={"label": f"sparkpace.cluster={rig.cluster}"}))
    assert runtime.observe() == {}


def test_an_exit_code_arrives_when_the_engine_answers_again(rig: DockerRig, engine: HangingEngine) -> None:
    now = 100.0
    runtime = rig.runtime(clock=lambda: now)
    started(rig, runtime, KEY, OTHER, program=rigs.STUBBORN)
    engine.hang()
    runtime.stop(KEY)
    rig.until(lambda: not runtime._known.by_key[KEY].lives())
    assert without_waiting(engine, runtime.observe)[KEY].running  # not yet: the engine may still say how it ended
    rig.until(lambda: runtime.chores.away)
    now += EXIT_S - 0.1
    assert without_waiting(engine, runtime.observe)[KEY].running
    now += 0.1
    seen = without_waiting(engine, runtime.observe)[KEY]
    assert (seen.running, seen.exit_code, seen.quota_cores) == (False, None, None)
    assert "did not answer" in seen.reason
    runtime.stop(OTHER)
    rig.until(lambda: not runtime._known.by_key[OTHER].lives())
    assert runtime.observe()[OTHER].running
    engine.resume()
    for key in (KEY, OTHER):
        assert rig.until(partial(_exit_code, runtime, key)) == 128 + signal.SIGKILL
        assert not runtime.observe()[key].running


def _exit_code(runtime: DockerRuntime, key: ExecutorKey) -> int | None:
    return runtime.observe()[key].exit_code


@pytest.mark.groups
def test_a_new_agent_adopts_while_the_engine_hangs(rig: DockerRig, engine: HangingEngine) -> None:
    first = rig.runtime()
    started(rig, first, KEY, OTHER)
    assert first.set_quota(KEY, 0.75)
    rig.until(lambda: first.chores.settle(0.1))
    pid = first.observe()[KEY].pid
    engine.hang()
    second = without_waiting(engine, lambda: rig.restart(first))
    seen = without_waiting(engine, second.observe)
    assert seen.keys() == {KEY, OTHER}
    assert (seen[KEY].running, seen[KEY].pid) == (True, pid)
    assert seen[KEY].quota_cores == pytest.approx(0.75)
    assert without_waiting(engine, lambda: second.set_quota(KEY, 0.2))
    assert quota_of(group_of(rig)) == pytest.approx(0.2)


def test_a_new_agent_without_records_says_that_no_engine_answers(rig: DockerRig, engine: HangingEngine) -> None:
    engine.hang()
    with pytest.raises(Unavailable, match="no Docker engine answers"):
        rig.make("w2")


def test_a_record_that_names_another_process_adopts_nothing_of_it(rig: DockerRig, engine: HangingEngine) -> None:
    """A process that could write there could otherwise have an agent signal and pace any process."""
    first = rig.runtime()
    started(rig, first)
    first.close()
    rig._open.remove(first)
    (path,) = rig.records().glob("*.json")
    ((_, record),) = executor_record.read_all(rig.records(), executor_record.ContainerRecord, rig.cluster, "w1")
    assert record.process is not None
    mine = find_process(os.getpid())
    assert mine is not None
    engine.hang()
    foreign = [structs.replace(record.process, start_ticks=1), structs.replace(mine, boot_id="another"), mine]
    for process in foreign:
        executor_record.write(path, structs.replace(record, process=process))
        runtime = rig.runtime()
        known = runtime._known.by_key[KEY]
        assert known.group is None
        assert known.process is None or not known.lives()  # so nothing would be signalled
        without_waiting(engine, runtime.close)
        rig._open.remove(runtime)
    executor_record.write(path, record)
    path.chmod(0o666)
    assert rig.runtime().observe() == {}


@pytest.mark.groups
def test_the_opener_opens_every_quota_while_the_engine_hangs(rig: DockerRig, engine: HangingEngine, tmp_path: Path) -> None:
    options = agent_options(tmp_path, cores=1.7, runtime="docker")
    directory = tmp_path / "agents" / "w1"
    runtime = rig.runtime(records=directory / "containers")
    started(rig, runtime, KEY, OTHER)
    (directory / "cluster_id").write_text(rig.cluster + "\n")
    engine.hang()
    done = subprocess.run(
        [sys.executable, "-m", "controller.agent.open_quotas"],
        input=options.to_json(),
        env={**os.environ, "DOCKER_HOST": engine.url},
        timeout=60,
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    for key in (KEY, OTHER):
        assert quota_of(group_of(rig, key)) == pytest.approx(1.7)


class _Forbidden(CgroupTree):
    """Control groups of which this process may not write the quotas."""

    def write_quota(self, group: Group, cores: float) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_an_agent_that_may_not_write_the_files_has_the_engine_do_it(rig: DockerRig) -> None:
    runtime = rig.runtime(cgroups=_Forbidden())
    started(rig, runtime)
    group = group_of(rig)
    assert runtime.set_quota(KEY, 0.35)
    rig.until(lambda: quota_of(group) == pytest.approx(0.35))


def test_without_kernel_files_only_quotas_wait_for_the_engine(rig: DockerRig, engine: HangingEngine, tmp_path: Path) -> None:
    runtime = rig.runtime(cgroups=CgroupTree(tmp_path / "no-cgroups"))
    started(rig, runtime, KEY, OTHER)
    engine.hang()
    assert without_waiting(engine, runtime.observe)[KEY].running
    for cores in (0.7, 0.3, 0.2):
        assert without_waiting(engine, partial(runtime.set_quota, KEY, cores))
    rig.until(lambda: runtime.chores.away)
    with pytest.raises(RuntimeFailed, match="Docker engine"):
        without_waiting(engine, lambda: runtime.set_memory_limit(KEY, 2 * MEMORY_BYTES))
    with pytest.raises(RuntimeFailed, match="Docker engine"):
        without_waiting(engine, lambda: runtime.stop(OTHER))
    engine.resume()
    rig.until(lambda: runtime.observe()[KEY].quota_cores == pytest.approx(0.2))
    assert host(rig, "CpuQuota") == 20_000
    assert rig.ended(runtime, OTHER).exit_code == 128 + signal.SIGKILL

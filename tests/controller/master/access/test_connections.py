"""Connections to a real master, in a process of its own: thousands of silent connections do no harm to the others."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import ssl
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from controller.client import MasterClient
from controller.home import Home
from controller.machine.log_files import LARGEST
from controller.machine.proc import boot_id
from controller.machine.waiting import wait_until
from controller.master.access.connections import MOST_OF_ONE, OTHER_FILES, Guests
from controller.start import ours
from controller.wire.worker import WorkerInfo, WorkerReply, WorkerSync
from experiments.bench.overhead.kept_connection import KeptConnection
from experiments.harness.live_cluster import free_port
from stage_model.errors import Unavailable

IDLE = 2000
PATIENCE_S = 60.0


@pytest.fixture
def _many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 500:
        pytest.skip(f"this process may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class RealMaster:
    def __init__(self, path: Path, process: subprocess.Popen[bytes], port: int) -> None:
        self.home, self.process, self.port = Home(path), process, port
        self.url = f"https://127.0.0.1:{port}"
        self.log = self.home.logs / "master.log"

    def client(self) -> MasterClient:
        return MasterClient(self.url, self.home.ca_file, self.home.admin_token())

    def answers(self) -> bool:
        with contextlib.suppress(Unavailable):
            return bool(self.client().health().cluster_id)
        return False

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def shake_hands(self) -> ssl.SSLSocket:
        return self._context().wrap_socket(self.connect(), server_hostname="127.0.0.1")

    @lru_cache(maxsize=1)  # noqa: B019 - as long as the test
    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.home.ca_file)
        return context

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))  # noqa: PTH208 - counted alone


@pytest.fixture
def master(tmp_path: Path) -> Iterator[RealMaster]:
    Home(tmp_path).create()
    port = free_port()
    command = ours("controller.cli.main", "master", "--home", str(tmp_path), "--port", str(port))
    log = tmp_path / "logs" / "master.log"
    log.touch()
    os.truncate(log, LARGEST + 1)
    # with as few files as many systems allow at first: the master allows itself more
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, soft), hard))
    try:
        with log.open("ab") as said:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    running = RealMaster(tmp_path, process, port)
    try:
        assert wait_until(running.answers, PATIENCE_S, 0.1), running.log.read_text()
        yield running
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@pytest.mark.parametrize("after_tls", [False, True], ids=["plain TCP", "after the TLS handshake"])
@pytest.mark.usefixtures("_many_files")
def test_two_thousand_idle_connections_do_no_harm(master: RealMaster, after_tls: bool) -> None:
    agent, token = KeptConnection(master.url, master.home.ca_file), master.home.make_agent_token("w1").read_text().strip()
    info = WorkerInfo(worker_id="w1", host="h", cores=1.0, memory_mb=1024, runtime="process", pid=1, boot_id=boot_id())
    sync = WorkerSync(instance="i", cluster_id="", generation=0, worker=info)

    def report() -> None:
        agent.post("/v1/workers/w1/sync", token, sync, WorkerReply)

    report()
    first = agent._connection._kept
    idle: list[socket.socket] = []
    try:
        for number in range(IDLE):
            idle.append(master.shake_hands() if after_tls else master.connect())
            if number % 50 == 49:
                report()
                assert master.client().health().cluster_id
                assert [worker.worker_id for worker in master.client().workers()] == ["w1"]
        assert master.files() <= MOST_OF_ONE + OTHER_FILES
        report()
        assert agent._connection._kept is first, "the agent's connection was there before all of them, and stayed"
        assert master.log.stat().st_size < 10_000, "its log names none of them"
        master.client().applications()
    finally:
        agent.close()
        for one in idle:
            one.close()


def test_who_does_not_end_what_it_began_is_put_out(master: RealMaster) -> None:
    """The head of a request comes byte by byte, or never, after a first request as well."""
    silent, slow, again = master.connect(), master.shake_hands(), master.shake_hands()
    again.sendall(b"GET /v1/health HTTP/1.1\r\nHost: m\r\n\r\n")
    assert again.recv(10_000).startswith(b"HTTP/1.1 200")
    again.sendall(b"GET /v1/h")
    slow.sendall(b"GET /v1/health HTTP/1.1\r\n")
    with contextlib.suppress(OSError):  # it hangs up meanwhile
        while True:
            slow.sendall(b"X")
            slow.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                assert slow.recv(1) == b""
                break
    for one in (silent, again):
        with contextlib.suppress(ConnectionError):
            while one.recv(10_000):
                pass
        one.close()
    slow.close()
    assert master.answers()


def test_the_masters_log_stays_small_whatever_strangers_say(master: RealMaster) -> None:
    assert (master.home.logs / "master.log.1").stat().st_size > LARGEST, "the old one was put aside"
    for _ in range(100):
        with contextlib.closing(master.shake_hands()) as stranger:
            stranger.sendall(b"\x00 nonsense\r\n\r\n")
            assert stranger.recv(10_000).startswith(b"HTTP/1.1 400")
    assert master.log.read_text().count("Invalid HTTP request received") == 1


def test_guests_are_kept_few_owner_by_owner() -> None:
    guests: Guests[int] = Guests(most=5, most_of_one=3)
    assert [guests.add(number, "a") for number in (1, 2, 3)] == [None, None, None]
    assert guests.add(4, "a") == 1, "the oldest of those with too many"
    assert guests.add(5, "b") is None
    assert guests.add(6, "c") is None
    assert guests.add(7, "c") == 2, "all together too many: the oldest of those with the most"
    assert guests.add(5, "c") is None, "it belongs to another owner now"
    assert guests.add(5, "c") is None
    assert len(guests) == 5
    for number in range(9):
        guests.leave(number)
    assert len(guests) == 0

"""Two containers share a real disk and a real network under a real agent: the one of low priority is held while the important
one wants its part, and free afterwards. Nothing is left of what an agent set that was killed with its supervisor.

Only the master is made up: it names the two executors, which the test has started, and their priorities. The executors read
past the page cache, and send and receive, at rates of their own."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import docker
import msgspec
import psutil
import pytest

from controller.agent.core.arbitrate import CoreRequest
from controller.agent.core.rates import Sharer
from controller.agent.rating import Rating
from controller.home import Home
from controller.machine import traffic
from controller.runtime.base import Bind, ExecutorKey, OwnNetwork, TrafficPlace
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker.engine import DockerRuntime
from controller.runtime.docker.networks import DockerNetworks, bridge_address
from controller.runtime.docker.runtime import end_all
from controller.runtime.networks import parse_pool, shaper_prefix
from controller.runtime.rates import DiskRates
from controller.runtime.table import RUNTIMES, Owner
from controller.start import ours
from controller.wire.worker import Changed, Desired, WorkerReply, WorkerSync
from stage_model.errors import Unavailable
from tests.controller.runtime.docker.rig import DockerRig
from tests.fakes.options import agent_options
from tests.fakes.plans import plan
from tests.fakes.tls import secure
from tests.fakes.worker import spec
from tests.integration.local_cluster import eventually

pytestmark = [pytest.mark.slow, pytest.mark.docker]

LOW, HIGH = ExecutorKey("low", "1"), ExecutorKey("high", "1")
POOL = "10.232.0.0/18"
DISK_MB, NET_MBIT = 20.0, 40.0
WANTED = {LOW: (30_000_000, 6_000_000), HIGH: (9_000_000, 2_000_000)}
"""Bytes per second from the disk, and in each direction of the network: the low one would take more than there is."""
RISING = {LOW: (2_000_000, 500_000), HIGH: (40_000_000, 10_000_000)}
"""The high one takes twice what there is, so that it fills disk and network on a busy machine, too."""
FILE_BYTES = 32 << 20
WINDOW_S = 3.0
SLACK = 1.3
"""Used / allowed at most: buckets hold some more, and the rates may have been higher at the beginning of a look."""
PROGRAM = """
import mmap, os, socket, sys, threading, time
file, begin, host, port, disk, net = sys.argv[1:]
def paced(rate, chunk, act):
    due = time.monotonic()
    while True:
        while begin and not os.path.exists(begin):
            time.sleep(0.05)
            due = time.monotonic()
        act()
        due = max(due + chunk / float(rate), time.monotonic() - 0.5)
        time.sleep(max(0.0, due - time.monotonic()))
buffer = mmap.mmap(-1, 1 << 18)
opened, size, place = os.open(file, os.O_RDONLY | os.O_DIRECT), os.stat(file).st_size, [0]
def read():
    os.preadv(opened, [buffer], place[0])
    place[0] = (place[0] + len(buffer)) % size
def connected(word):
    made = socket.create_connection((host, int(port)))
    made.sendall(word)
    return made
receiving, sending = connected(b"r"), connected(b"s")
def receive():
    receiving.sendall(b".")
    left = 1 << 16
    while left:
        left -= len(receiving.recv(left))
threading.Thread(target=paced, args=(net, 1 << 16, receive), daemon=True).start()
threading.Thread(target=paced, args=(net, 1 << 16, lambda: sending.sendall(bytes(1 << 16))), daemon=True).start()
paced(disk, len(buffer), read)
"""
"""An executor: it reads a file past the page cache, asks for blocks and sends blocks, while a file is there."""


class Peer:
    """A server on this host that sends a block of 64 KiB for each byte that it is asked with, and takes what is sent."""

    def __init__(self, address: str) -> None:
        self.listening = socket.create_server((address, 0))
        self.port: int = self.listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self.listening.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            asks = connection.recv(1) == b"r"
            while data := connection.recv(1 << 16):
                if asks:
                    connection.sendall(bytes(len(data) << 16))


class Master(ThreadingHTTPServer):
    """A master that wants two executors of different priority, whatever an agent reports."""

    daemon_threads = True

    def __init__(self, home: Home, cluster_id: str) -> None:
        super().__init__(("127.0.0.1", 0), Calls)
        secure(self, home)
        self.notes = list[str]()
        self.reports = 0
        self.desired = Desired(
            cluster_id=cluster_id,
            generation=1,
            version=1,
            executors=(spec("low", memory_mb=64), spec("high", memory_mb=64)),
            applications=(plan("low", left_s=None, priority=0), plan("high", left_s=None, priority=100)),
        )

    def noted(self, words: str) -> bool:
        return any(words in note for note in self.notes)


class Calls(BaseHTTPRequestHandler):
    server: Master

    def do_GET(self) -> None:
        time.sleep(2)
        self._answer(msgspec.json.encode(Changed(version=1)))

    def do_POST(self) -> None:
        said = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])), type=WorkerSync)
        self.server.reports += 1
        self.server.notes += said.notes
        self._answer(msgspec.json.encode(WorkerReply(samples_acknowledged=0, desired=self.server.desired)))

    def _answer(self, body: bytes) -> None:
        with contextlib.suppress(OSError):  # the agent was killed
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep stderr quiet."""


@dataclass
class Machine:
    """A machine with two running executors; agents come and go."""

    home: Path
    cluster: str
    runtime: DockerRuntime
    master: Master
    device: str
    begin: Path
    agent: subprocess.Popen[bytes] | None = None

    @property
    def prefix(self) -> str:
        return shaper_prefix(self.cluster, "w1")

    def start_agent(self, disk_mb: float | None = DISK_MB, net_mbit: float | None = NET_MBIT) -> None:
        url, limits = f"https://127.0.0.1:{self.master.server_port}", {"disk_mb": disk_mb, "net_mbit": net_mbit}
        network = {"network": "open", "network_pool": POOL}
        options = agent_options(self.home, runtime="docker", master_url=url, **network, **limits)
        environment = {**os.environ, "SPARKPACE_AGENT": options.to_json().decode()}
        self.agent = subprocess.Popen(ours("controller.agent.supervisor"), env=environment)

    def kill_agent(self) -> None:
        """Kill the agent and its supervisor at once, so that neither can lift anything."""
        assert self.agent is not None
        processes = [*psutil.Process(self.agent.pid).children(recursive=True), psutil.Process(self.agent.pid)]
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        for process in processes:
            process.kill()
        self.agent.wait(30)

    def stop_agent(self) -> None:
        assert self.agent is not None
        self.agent.terminate()
        assert self.agent.wait(60) == 0

    def place(self, key: ExecutorKey) -> TrafficPlace:
        found = self.runtime.place(key)
        assert found is not None
        assert found.io is not None
        return found

    def disk_rate(self, key: ExecutorKey) -> float | None:
        """Return the rate in the kernel's files for the executor's group, both directions together; None without one."""
        directory = self.place(key).io
        assert directory is not None
        rates = CgroupTree().io_rates(directory) or {}
        found = sum(rates.get(self.device, (math.inf,)))
        return None if math.isinf(found) else found

    def link(self, key: ExecutorKey) -> str:
        place = self.place(key)
        found = traffic.link_into(place.pid, place.bridge)
        assert found is not None
        return found

    def held(self) -> bool:
        """Return True if the low one has a rate for the disk and for the network."""
        return self.disk_rate(LOW) is not None and bool(self.links_held())

    def free(self) -> bool:
        return self.disk_rate(LOW) is None and not self.links_held() and "tbf" not in disciplines(self.link(LOW))

    def links_held(self) -> list[str]:
        return traffic.limited_links(self.prefix)

    def bytes_of(self, key: ExecutorKey) -> tuple[int, int, int]:
        """Return the bytes that an executor has read, received and sent."""
        directory, link = self.place(key).io, traffic.link_bytes(self.link(key))
        assert directory is not None
        read = CgroupTree().io_bytes(directory, self.device)
        assert read is not None
        assert link is not None
        return sum(read), *link


def disciplines(link: str) -> str:
    return subprocess.run(["tc", "qdisc", "show", "dev", link], check=True, timeout=30, capture_output=True, text=True).stdout


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path, docker_engine: docker.DockerClient) -> Iterator[Machine]:
    wanted = getattr(request, "param", WANTED)
    row, address = RUNTIMES["docker"], bridge_address(docker_engine.api)
    try:
        device = DiskRates(tmp_path, row, CgroupTree(), os.getpid()).device
    except Unavailable as error:
        pytest.skip(str(error))
    if reason := traffic.why_no_link_rates():
        pytest.skip(reason)
    assert address is not None
    rig, home = DockerRig(tmp_path), Home(tmp_path / "home")
    home.create()
    home.make_agent_token("w1")
    home.agent("w1").mkdir(parents=True)
    (home.agent("w1") / "cluster_id").write_text(rig.cluster)
    file, begin, peer = tmp_path / "cold", tmp_path / "begin", Peer(address)
    file.write_bytes(os.urandom(FILE_BYTES))
    networks = DockerNetworks(rig.cluster, parse_pool(POOL), home.path / "agents" / "networks.lock")
    runtime = rig.runtime(networks=networks, records=home.agent("w1") / "containers")
    for key, (disk, net) in wanted.items():
        words = [str(file), str(begin) if key == HIGH else "", address, str(peer.port), str(disk), str(net)]
        launch = replace(
            rig.launch("", key=key),
            argv=["/usr/bin/python3", "-c", PROGRAM, *words],
            binds=[Bind(tmp_path)],
            log_dir=tmp_path / "logs" / key.application_id,
            network=OwnNetwork(address, (peer.port,)),
        )
        runtime.start(launch)
    with Master(home, rig.cluster) as master:
        threading.Thread(target=master.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        made = Machine(home.path, rig.cluster, runtime, master, device, begin)
        yield made
        if made.agent is not None and made.agent.poll() is None:
            made.kill_agent()
        rig.close()
        end_all(Owner(rig.cluster, "w1", home.agent("w1")))
        master.shutdown()
    peer.listening.close()
    assert made.links_held() == []


def test_the_low_one_is_held_while_the_high_one_wants_its_part_and_nothing_outlives_it(machine: Machine) -> None:
    machine.start_agent()
    eventually(lambda: machine.master.reports > 5, "reports of the agent")
    assert machine.free(), "no one else wants anything"

    machine.begin.touch()
    eventually(machine.held, "rates for the low one")
    assert machine.disk_rate(HIGH) is None
    assert "tbf" not in disciplines(machine.link(HIGH))
    left = DISK_MB * 1e6 - WANTED[HIGH][0], NET_MBIT * 1e6 / 8 - WANTED[HIGH][1]
    eventually(lambda: (machine.disk_rate(LOW) or math.inf) < left[0], "a rate that leaves the high one its part")
    most, before, begun_s = machine.disk_rate(LOW), machine.bytes_of(LOW), time.monotonic()
    assert most is not None
    while (elapsed_s := time.monotonic() - begun_s) < WINDOW_S:
        time.sleep(0.2)
        most = max(most, machine.disk_rate(LOW) or math.inf)
    read, received, sent = (now - then for now, then in zip(machine.bytes_of(LOW), before, strict=True))
    assert read <= SLACK * most * elapsed_s
    assert max(received, sent) <= SLACK * left[1] * elapsed_s

    machine.begin.unlink()
    eventually(machine.free, "the end of the rates")
    for words in ("disk is busy", "network is busy", "disk is no longer busy", "network is no longer busy"):
        eventually(partial(machine.master.noted, words), f"a note that the {words}")

    # the agent and its supervisor are killed: the rates stay until the next agent comes, whatever its options
    machine.begin.touch()
    eventually(machine.held, "rates again")
    machine.kill_agent()
    assert machine.held()
    machine.start_agent(disk_mb=None, net_mbit=None)
    eventually(machine.free, "the end of what the killed agent had set")
    machine.kill_agent()

    # an agent that is stopped lifts its rates itself
    machine.start_agent()
    eventually(machine.held, "rates of the next agent")
    machine.stop_agent()
    assert machine.free()

    # an agent is killed, and `down` comes
    machine.start_agent()
    eventually(machine.held, "rates once more")
    machine.kill_agent()
    assert machine.links_held()
    end_all(Owner(machine.cluster, "w1", Home(machine.home).agent("w1")))
    assert machine.links_held() == []


@dataclass
class Look:
    """The beginning of a look at one thing: the bytes that the high one has used, and if the low one is held."""

    used: int
    held: bool


@dataclass
class CountingClock:
    """A clock that counts the looks at disk and network, which ask for the time in turn."""

    machine: Machine
    disk: list[Look] = field(default_factory=list)
    network: list[Look] = field(default_factory=list)

    def __call__(self) -> float:
        read, received, _ = self.machine.bytes_of(HIGH)
        if len(self.disk) == len(self.network):
            self.disk.append(Look(read, self.machine.disk_rate(LOW) is not None))
        else:
            self.network.append(Look(received, bool(self.machine.links_held())))
        return time.monotonic()

    def looks_until_held(self, looks: list[Look]) -> int | None:
        """Return the number of looks from the first that can see the high one to that which set the rates of the low one;
        None while there are no rates."""
        held = next((number for number, look in enumerate(looks) if look.held), None)
        arrived = next((number for number, look in enumerate(looks) if look.used - looks[0].used > 1 << 18), None)
        if held is None:
            return None
        assert arrived is not None, "rates for no one"
        return held - arrived  # the look before `held` has set them


@pytest.mark.parametrize("machine", [RISING], indirect=True, ids=["rising"])
def test_the_low_one_is_held_by_the_second_look_after_the_high_one_has_come(machine: Machine, record_property: Any) -> None:
    limits = {"disk_mb": DISK_MB, "net_mbit": NET_MBIT, "network": "open", "network_pool": POOL}
    options = agent_options(machine.home, runtime="docker", **limits)
    clock, stop, notes = CountingClock(machine), threading.Event(), list[str]()
    rating = Rating(options, machine.cluster, machine.runtime, notes.append, clock)
    rating.post([LOW, HIGH], [Sharer(CoreRequest(LOW, 0.0, 0.0, 0)), Sharer(CoreRequest(HIGH, 0.0, 0.0, 100))])
    thread = threading.Thread(target=rating.run, args=(stop, lambda: None))
    thread.start()
    try:
        eventually(lambda: len(clock.network) > 3, "looks before the high one comes")
        assert machine.free()
        machine.begin.touch()
        disk, network = (
            eventually(partial(clock.looks_until_held, looks), "rates for the low one", 60.0)
            for looks in (clock.disk, clock.network)
        )
    finally:
        stop.set()
        thread.join()
        assert rating.close()
    record_property("looks until the disk's and the network's rate:", (disk, network))
    assert disk <= 2, clock.disk
    assert network <= 2, clock.network
    assert machine.free()

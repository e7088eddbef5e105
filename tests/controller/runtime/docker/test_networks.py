"""Applications' networks on a real engine and kernel: what an executor reaches, what it does not, and that nothing is left.

The outside, and a cloud's metadata address, are a network namespace of the test's own behind this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import docker
import pytest

from controller.machine import admin_program
from controller.machine.addresses import LOOPBACK, address_towards
from controller.runtime import networks
from controller.runtime.base import OWN_ADDRESS, ExecutorKey, Launch, OwnNetwork
from controller.runtime.docker import packet_filter
from controller.runtime.docker.engine import DockerRuntime
from controller.runtime.docker.networks import DockerNetworks, bridge_address
from controller.runtime.docker.runtime import end_all
from controller.runtime.networks import parse_pool
from controller.runtime.table import Owner
from stage_model.errors import RuntimeFailed, RuntimeRefused
from tests.controller.runtime.docker.rig import DockerRig

pytestmark = pytest.mark.docker

POOL = parse_pool("10.231.0.0/18")
OUTSIDE, METADATA = "198.18.77.2", "169.254.169.254"
PORT = 8080
"""Port of executors and of the servers outside."""
PATIENCE_S = 3
"""Time for a packet that is dropped; a packet that passes comes within milliseconds, and is tried again in this time."""

LISTEN = f"""
import socket, sys, time
one = socket.create_server(("", {PORT}))
print("listens", *sys.argv[1:], flush=True)
while True:
    one.accept()[0].close()
"""
PROBE = f"""
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def reaches(target):
    try:
        socket.create_connection(target, {PATIENCE_S}).close()
        return True
    except OSError:
        return False
with ThreadPoolExecutor(16) as threads:
    print(json.dumps(list(threads.map(lambda target: reaches(tuple(target)), json.loads(sys.argv[1])))))
print(open("/proc/net/if_inet6").read().split())
"""

Target = tuple[str, int]


class NetworkRig(DockerRig):
    """Workers whose applications have networks, from a pool of this test."""

    pool = POOL

    def make(self, worker: str, **settings: Any) -> DockerRuntime:
        own = DockerNetworks(self.cluster, self.pool, self.directory / "networks.lock")
        return super().make(worker, networks=own, **settings)

    def python(self, program: str, *words: str, application: str = "app", executor: str = "1", own: OwnNetwork) -> Launch:
        launch = self.launch("", key=ExecutorKey(application, executor))
        folder = self.directory / "logs" / application / executor
        return replace(launch, argv=["/usr/bin/python3", "-c", program, *words], log_dir=folder, network=own)

    def listening(self, runtime: DockerRuntime, own: OwnNetwork, application: str = "app", executor: str = "1") -> str:
        """Start an executor that listens; return its address as the executor was given it."""
        launch = self.python(LISTEN, OWN_ADDRESS, "as it is", application=application, executor=executor, own=own)
        runtime.start(launch)
        file = launch.log_dir / "stdout"
        said = self.until(lambda: file.exists() and file.read_text())
        word, address, *rest = str(said).split()
        assert (word, rest) == ("listens", ["as", "it", "is"])
        return address

    def reached(self, runtime: DockerRuntime, own: OwnNetwork, targets: list[Target], executor: str = "probe") -> list[bool]:
        """Return for each target if another executor of the application connects to it."""
        launch = self.python(PROBE, json.dumps(targets), executor=executor, own=own)
        runtime.start(launch)
        self.ended(runtime, launch.key)
        assert (launch.log_dir / "stderr").read_text() == ""
        found, addresses = (launch.log_dir / "stdout").read_text().splitlines()
        assert "eth0" not in addresses, "it has an IPv6 address, which no rule is for"
        return list(json.loads(found))

    def removed(self, runtime: DockerRuntime, key: ExecutorKey) -> None:
        """End an executor and remove it, also from the engine."""
        runtime.stop(key)
        self.ended(runtime, key)
        runtime.remove(key)
        self.until(lambda: runtime.chores.settle(1.0))

    def close(self) -> None:
        super().close()
        # as `down` does
        end_all(Owner(self.cluster, "w1", self.directory / "agents" / "w1"))


@pytest.fixture
def client(docker_engine: docker.DockerClient) -> docker.APIClient:
    return docker_engine.api


@pytest.fixture
def rig(tmp_path: Path, client: docker.APIClient) -> Iterator[NetworkRig]:
    made = NetworkRig(tmp_path)
    yield made
    made.close()
    assert left(client, made.cluster) == ([], [])


@pytest.fixture
def ruled() -> None:
    if reason := packet_filter.why_not():
        pytest.skip(f"packet rules cannot be set here: {reason}")


@pytest.fixture
def host(client: docker.APIClient) -> str:
    found = bridge_address(client)
    if found is None:
        pytest.skip("the engine has no default bridge")
    return found


def left(client: docker.APIClient, cluster: str) -> tuple[list[str], list[str]]:
    """Return the networks of a cluster, and the rules that have to do with them."""
    named = [one["Name"] for one in client.networks(filters={"label": f"sparkpace.cluster={cluster}"})]
    if packet_filter.why_not():
        return named, []
    prefix = networks.chain_prefix(cluster)
    said = subprocess.run(["iptables", "-w", "5", "-S"], capture_output=True, text=True, check=True, timeout=30).stdout
    return named, [line for line in said.splitlines() if prefix in line]


@contextmanager
def listener(address: str) -> Iterator[Target]:
    """Listen on this host; connections are taken by the kernel."""
    with socket.create_server((address, 0), backlog=100) as made:
        yield address, made.getsockname()[1]


@pytest.fixture
def outside() -> Iterator[None]:
    """Provide a machine beyond this one, with two addresses and a listener."""
    if os.geteuid():
        pytest.skip("only root makes network namespaces")
    name = f"sp{os.getpid()}"
    near, far = f"{name}a", f"{name}b"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, timeout=30, capture_output=True)

    with ExitStack() as stack:
        ip("netns", "add", name)
        stack.callback(ip, "netns", "delete", name)
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        ip("address", "add", "198.18.77.1/24", "dev", near)
        ip("link", "set", near, "up")
        ip("-n", name, "address", "add", f"{OUTSIDE}/24", "dev", far)
        ip("-n", name, "address", "add", f"{METADATA}/32", "dev", far)
        ip("-n", name, "link", "set", far, "up")
        ip("route", "add", f"{METADATA}/32", "via", OUTSIDE)
        words = ["ip", "netns", "exec", name, sys.executable, "-c", LISTEN]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            stack.callback(process.wait, 30)
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
            for address in (OUTSIDE, METADATA):
                socket.create_connection((address, PORT), 10).close()  # this host reaches it
            yield
            process.kill()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Addresses that can be reached. `forbidden`: whatever the job may do. `everywhere`: a port that listens on all
    addresses."""

    own: OwnNetwork
    everywhere: int
    drivers: list[Target]
    forbidden: dict[str, Target]


@pytest.fixture
def surroundings(host: str, client: docker.APIClient) -> Iterator[Surroundings]:
    """Open a driver's two ports, and what else listens on a machine."""
    with ExitStack() as stack:
        mine = [stack.enter_context(listener(host)) for _ in range(2)]
        others = stack.enter_context(listener(host))
        everywhere = stack.enter_context(listener("0.0.0.0"))[1]
        loopback = stack.enter_context(listener("127.0.0.1"))
        yield Surroundings(
            OwnNetwork(host, tuple(port for _, port in mine)),
            everywhere,
            mine,
            {
                "another driver": others,
                "a master on all addresses, by the bridge's": (host, everywhere),
                "a master on all addresses, by this machine's own": (_own_address(), everywhere),
                "an engine or another service, by the loopback address": ("127.0.0.1", loopback[1]),
                "the same, by the bridge's": (host, loopback[1]),
            },
        )


def _own_address() -> str:
    """Return the address of this machine towards others."""
    try:
        return address_towards("https://198.51.100.1")
    except OSError:
        return LOOPBACK


@pytest.mark.parametrize("closed", [False, True])
def test_an_executor_reaches_its_driver_its_application_and_what_is_outside_if_that_is_open(
    rig: NetworkRig, client: docker.APIClient, ruled: None, outside: None, surroundings: Surroundings, closed: bool
) -> None:
    own, first, second = replace(surroundings.own, closed=closed), rig.runtime("w1"), rig.runtime("w2")
    neighbour = rig.listening(first, own)
    stranger = rig.listening(first, own, application="another")
    gateway = str(IPv4Address(int(IPv4Address(neighbour)) & ~15 | 1))
    forbidden = {
        **surroundings.forbidden,
        "a master on all addresses, by the network's own gateway": (gateway, surroundings.everywhere),
        "an executor of another application": (stranger, PORT),
        "the metadata address": (METADATA, PORT),
    }
    allowed = [*surroundings.drivers, (neighbour, PORT)]
    found = rig.reached(second, own, [*allowed, (OUTSIDE, PORT), *forbidden.values()])
    assert found[:3] == [True, True, True]
    assert found[3] is not closed
    assert dict(zip(forbidden, found[4:], strict=True)) == dict.fromkeys(forbidden, False)
    for address in (neighbour, stranger):  # as a driver fetches large results
        socket.create_connection((address, PORT), 10).close()
    # the two workers' executors shared a network, whose containers and rules go with the last
    assert len(left(client, rig.cluster)[0]) == 2


def test_without_packet_rules_the_driver_is_reached_and_what_must_be_closed_does_not_start(
    rig: NetworkRig, surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Engines keep their networks apart in any case."""
    monkeypatch.setattr(admin_program, "ADMIN_PATH", str(rig.directory))
    runtime = rig.runtime()
    stranger = rig.listening(runtime, surroundings.own, application="another")
    assert rig.reached(runtime, surroundings.own, [*surroundings.drivers, (stranger, PORT)]) == [True, True, False]
    assert "iptables" in caplog.text
    closed = replace(surroundings.own, closed=True)
    with pytest.raises(RuntimeRefused, match="iptables"):
        runtime.start(rig.python(LISTEN, application="third", own=closed))
    monkeypatch.undo()
    runtime.start(rig.python(LISTEN, application="fourth", own=closed))  # why it could not be is not remembered


def test_rules_that_were_flushed_are_there_again_with_the_next_executor(
    rig: NetworkRig, client: docker.APIClient, ruled: None, surroundings: Surroundings
) -> None:
    runtime, targets = rig.runtime(), [*surroundings.drivers, *surroundings.forbidden.values()]
    rig.listening(runtime, surroundings.own)
    before = left(client, rig.cluster)[1]
    chain = networks.network_names(rig.cluster, "app").chain
    packet_filter.remove(chain)
    assert left(client, rig.cluster)[1] == []
    assert rig.reached(runtime, surroundings.own, targets) == [True, True, *([False] * len(surroundings.forbidden))]
    assert left(client, rig.cluster)[1] == before
    # and what the first agent did is not done twice by the next one
    runtime.close()
    after = rig.runtime()
    assert rig.reached(after, surroundings.own, targets[:2], "again") == [True, True]
    assert left(client, rig.cluster)[1] == before


def test_a_network_goes_with_its_last_executor_and_not_before(
    rig: NetworkRig, client: docker.APIClient, surroundings: Surroundings
) -> None:
    runtime = rig.runtime()
    for executor in ("1", "2"):
        rig.listening(runtime, surroundings.own, executor=executor)
    for executor, rest in (("1", 1), ("2", 0)):
        rig.removed(runtime, ExecutorKey("app", executor))
        names, rules = left(client, rig.cluster)
        assert len(names) == rest
        assert bool(rules) is (bool(rest) and not packet_filter.why_not())


def test_two_workers_that_start_at_once_make_one_network(
    rig: NetworkRig, client: docker.APIClient, surroundings: Surroundings
) -> None:
    workers = [rig.runtime(f"w{number}") for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda n: rig.listening(workers[n], surroundings.own, executor=str(n)), range(4))
    addresses = {IPv4Address(one) for one in found}
    assert len(addresses) == 4
    assert len({IPv4Network((int(one) & ~15, 28)) for one in addresses}) == 1
    assert len(left(client, rig.cluster)[0]) == 1


def test_a_pool_that_is_used_up_is_reported_and_serves_again_when_an_application_has_ended(
    rig: NetworkRig, surroundings: Surroundings
) -> None:
    rig.pool = parse_pool("10.231.255.0/28")
    runtime = rig.runtime()
    rig.listening(runtime, surroundings.own)
    second = rig.python(LISTEN, OWN_ADDRESS, application="second", own=surroundings.own)
    with pytest.raises(RuntimeFailed, match=r"10\.231\.255\.0/28.*--network-pool"):
        runtime.start(second)
    rig.removed(runtime, ExecutorKey("app", "1"))
    rig.listening(runtime, surroundings.own, application="second")

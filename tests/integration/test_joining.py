"""A second machine joins, works on a job with the first, which reads its logs, gets another token meanwhile, and is ended
with the cluster; behind a firewall it does not join. The machine is a network namespace with a home of its own; it shares
processes and files with the first."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.home import Home
from tests.integration.local_cluster import PROGRAM, LocalCluster, cluster_in, eventually

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may make network namespaces"),
]

NETWORK = f"10.203.{os.getpid() % 256}"
"""First three bytes of the addresses: two runs of this test on one machine rarely have the same ones."""
HERE, THERE = f"{NETWORK}.1", f"{NETWORK}.2"
LINK = f"sparkp{os.getpid()}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def namespace() -> Iterator[str]:
    """Provide the name of a network namespace at THERE, which reaches this machine at HERE and nothing else."""
    _ip("netns", "add", LINK)
    try:
        _ip("link", "add", LINK, "type", "veth", "peer", "name", "there", "netns", LINK)
        _ip("address", "add", f"{HERE}/30", "dev", LINK)
        _ip("link", "set", LINK, "up")
        _ip("-n", LINK, "address", "add", f"{THERE}/30", "dev", "there")
        for device in ("lo", "there"):
            _ip("-n", LINK, "link", "set", device, "up")
        yield LINK
    finally:
        subprocess.run(["ip", "link", "delete", LINK], check=False)  # a process that is left would keep both of its ends
        _ip("netns", "delete", LINK)


@pytest.fixture
def master(namespace: str, tmp_path: Path) -> Iterator[LocalCluster]:
    options = ("--host", HERE, "--driver-host", HERE, "--worker", "id=near cores=1 memory=2g")
    with cluster_in(tmp_path / "first", "process", *options) as cluster:
        yield cluster


@pytest.fixture
def other(namespace: str, master: LocalCluster, tmp_path: Path) -> Iterator[LocalCluster]:
    """Provide the other machine, which has not joined yet."""
    # `ip netns exec` would hide the control groups
    program = ("nsenter", f"--net=/run/netns/{namespace}", *PROGRAM)
    cluster = LocalCluster(Home(tmp_path / "second" / "home"), "process", program=program)
    (tmp_path / "second").mkdir()
    try:
        yield cluster
    finally:
        cluster.down()


def executor_logs(cluster: LocalCluster, application_id: str) -> list[str]:
    logs = (cluster.home.runs / application_id / "executors").glob("*/stderr")
    return [log.read_text(errors="replace") for log in logs]


def test_a_machine_that_joins_works_on_jobs_until_the_cluster_ends_it(
    master: LocalCluster, other: LocalCluster, stop_file: Path, tmp_path: Path
) -> None:
    token = master.command("join-token").stdout.strip()
    words = ("--runtime", "process", "--cores", "1", "--memory", "2g")
    other.command("join", master.cluster().url, token, "--worker-id", "far", *words)
    again = other.command("join", master.cluster().url, token, "--home", str(tmp_path / "third"), *words, check=None)
    assert (again.returncode, (tmp_path / "third").exists()) == (77, False)
    assert "far joined with it" in again.stderr
    assert json.loads(master.command("join-token", "--list", "--output", "json").stdout)[0]["joined"] == ["far"]

    job = master.submit("--name", "both", "rounds.py", str(stop_file))
    view = master.running("both", executors=1)
    eventually(
        lambda: any("Finished task" in log for log in executor_logs(other, view.application_id)),
        "a task on the other machine",
    )
    places = master.client().executors(view.application_id)
    [there] = [place.executor_id for place in places if place.worker_id == "far"]
    assert "Finished task" in master.command("logs", "both", there).stdout
    before = other.home.agent_token("far")
    other.command("renew")
    assert other.home.agent_token("far") != before
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    assert master.summary("both")["executors"] == 2
    assert "Finished task" in master.command("logs", "both", there).stdout, "the job has ended"

    ended = master.command("down", "--all")
    assert "the agent of far" not in ended.stderr
    eventually(lambda: not master.left() and not other.left(), "the end of all services")


@pytest.mark.skipif(shutil.which("iptables") is None, reason="a firewall is made by iptables")
@pytest.mark.parametrize(
    ("chain", "named"),
    [
        ("INPUT", (f"the master's machine does not reach {THERE} at port", "open this machine's firewall")),
        ("OUTPUT", (f"this machine does not reach {HERE} at port", "the firewall of the master's machine")),
    ],
)
def test_a_firewall_in_one_direction_is_named_on_its_side_and_nothing_has_joined(
    namespace: str, master: LocalCluster, other: LocalCluster, chain: str, named: tuple[str, ...]
) -> None:
    """The master's own port is open, and connections that are open stay open."""
    rule = ("-A", chain, "-p", "tcp", "--syn", "!", "--dport", str(master.cluster().port), "-j", "DROP")
    subprocess.run(["nsenter", f"--net=/run/netns/{namespace}", "iptables", "-w", "5", *rule], check=True)
    token = master.command("join-token").stdout.strip()
    options = ("--worker-id", "far", "--runtime", "process", "--cores", "1", "--memory", "2g")
    done = other.command("join", master.cluster().url, token, *options, check=None)
    assert done.returncode == 69, done.stderr
    for value in named:
        assert value in done.stderr
    assert "1 fault(s)" in done.stderr
    assert not other.home.path.exists()
    assert [worker.worker_id for worker in master.client().workers()] == ["near"]
    assert json.loads(master.command("join-token", "--list", "--output", "json").stdout)[0]["joined"] == []

"""A hostile job next to an ordinary one on real Spark and Docker: what it tries fails, and its neighbour is not harmed.

Each attack has something to find or to reach, which is tried from outside first. Not covered: how much the neighbour is
slowed (`experiments.bench.neighbour`), and the process runtime, which isolates nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from controller.runs.run_folder import STAGES
from controller.runtime.launching import LOG_FILE_BYTES
from tests.fakes.tls import squatting
from tests.integration.engine import Engine, containers_in
from tests.integration.local_cluster import APPS, Finished, Job, LocalCluster, eventually

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker, pytest.mark.timeout(900)]

METADATA = "169.254.169.254"
CONNECT_S = 60.0
ONE_TRY = ("--conf", "spark.task.maxFailures=1")
"""Settings of a job that ends its executor: the next executor would end, too."""
LOCAL_MB, TMP_MB = 150, 70


@dataclass(frozen=True, slots=True)
class Arena:
    """An arena whose `victim` runs until `stop` appears."""

    cluster: LocalCluster
    engine: Engine
    victim: Job
    application_id: str
    stop: Path
    folder: Path

    def begin(self, *attacks: str, **plan: Any) -> Job:
        """Start a hostile job that does these attacks."""
        file = self.folder / "plan.json"
        file.write_text(json.dumps(plan))
        words = ("submit", "--name", "red-team", "--num-executors", "1", *ONE_TRY)
        app = (str(APPS / "red_team.py"), str(file), *attacks)
        return self.cluster.start(self.cluster.sparkpace().command((*words, *app)), cwd=self.folder)

    def attack(self, *attacks: str, **plan: Any) -> Finished:
        """Run a hostile job that does these attacks; return its end."""
        done = self.begin(*attacks, **plan).finish()
        print(done.out)
        return done


@pytest.fixture(scope="module")
def arena(docker_engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    root = tmp_path_factory.mktemp("arena")
    limits = ("--local-limit", f"{LOCAL_MB}m", "--tmp-limit", f"{TMP_MB}m")
    with containers_in(docker_engine, root, "--workers", "1", *limits) as cluster:
        (root / "submitted").mkdir()
        stop = root / "stop"
        victim = cluster.submit("--name", "victim", "rounds.py", str(stop))
        application_id = cluster.running("victim", 1).application_id
        engine = Engine(docker_engine, cluster.cluster().cluster_id)
        yield Arena(cluster, engine, victim, application_id, stop, root / "submitted")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives this machine the metadata address, which only root may")
def test_nothing_of_others_is_read_or_reached(arena: Arena) -> None:
    home = arena.cluster.home
    planted = home.local / arena.application_id / "of-the-victim"
    planted.write_text("what only the victim's executors may see")
    hidden = [home.admin_token_file, home.submit_token_file, home.ca_key_file, home.master_certificate, planted]
    hidden += list(home.agent_tokens.iterdir())
    secrets = [{"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for data in (p.read_bytes() for p in hidden)]
    texts = [path.read_text().strip() for path in (home.admin_token_file, home.submit_token_file)]
    with service() as port, metadata_service():
        addresses = {
            "a service of this host": ("gateway", port),
            "the metadata address": (METADATA, 80),
            "the master": ("gateway", arena.cluster.cluster().port),
            **{f"the victim's driver, {a[0]}:{a[1]}": a for a in listeners(arena.victim.driver().pid)},
            **{f"the victim's executor, {a[0]}:{a[1]}": a for a in executor_listeners(arena)},
        }
        assert sum("victim" in name for name in addresses) >= 3, "the driver's port, a block manager's and the executor's"
        sockets = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"]
        done = arena.attack("read", "call", secrets=secrets, texts=texts, addresses=addresses, sockets=sockets)
    seen = done.ok().answer["seen"]
    assert seen["read"] == []
    assert {name for name, answered in seen["call"].items() if answered} == {"its own driver"}


def test_limits_hold_and_forged_progress_harms_only_the_forger(arena: Arena) -> None:
    child, sampled = arena.cluster.agent_child("w1").pid, len(arena.cluster.samples(arena.application_id))
    noticed = arena.folder / "noticed"
    plan = {"most_mb": 4096, "most_processes": 20_000, "log_mb": 60, "forge_s": 6}
    # forged progress comes before what keeps the machine busy, so that the agent looks meanwhile
    job = arena.begin("root", "var", "tmp", "forge", "fork", "shout", **plan, until=str(noticed))

    def complained() -> bool:
        return "progress file of executor" in arena.cluster.log("agent-w1")

    # an agent that a busy machine holds up may not look in these seconds: all attacks come again until it has complained
    eventually(lambda: complained() or job.process.poll() is not None, "the complaint of the agent")
    noticed.touch()
    seen = job.finish().ok().answer["seen"]
    assert (seen["root"]["mb"], seen["root"]["why"]) == (0, "Read-only file system")
    assert (seen["var"]["mb"], seen["var"]["why"]) == (0, "Read-only file system")
    assert seen["tmp"]["why"] in ("No space left on device", "Cannot allocate memory")
    assert seen["tmp"]["mb"] < plan["most_mb"]
    assert seen["fork"]["why"] == "Resource temporarily unavailable"
    assert min(seen["forge"].values()) > 0
    summary = arena.cluster.summary("red-team")
    record = arena.cluster.home.runs / summary["app_id"]
    logs = [path for path in (record / "executors").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in logs) < plan["log_mb"] << 20
    assert len((record / STAGES).read_text().splitlines()) < 100, "stages that the driver did not tell of"
    # the agent's periods went on, with a sample of the victim in each
    assert complained()
    assert "Traceback" not in arena.cluster.log("agent-w1")
    assert arena.cluster.agent_child("w1").pid == child
    eventually(lambda: len(arena.cluster.samples(arena.application_id)) > sampled + 4, "further samples")


def test_who_takes_too_much_memory_ends_with_that_reason(arena: Arena) -> None:
    done = arena.attack("swallow")
    assert done.code != 0
    assert "memory" in done.err


def test_a_job_that_fills_output_and_disk_is_bounded_and_ends_with_the_reason(arena: Arena) -> None:
    done = arena.cluster.run("--name", "hoard", "--num-executors", "1", *ONE_TRY, "hoard.py", str(2 * LOCAL_MB))
    assert done.answer == {"written": [], "tmp_mb": TMP_MB, "core": [0, 0]}
    assert done.code != 0
    said = rf"keeps more than {LOCAL_MB} MiB of files .*--local-limit {LOCAL_MB}m"
    assert re.search(said, done.err), done.err[-6000:]
    [view] = arena.cluster.views("hoard")
    folder = arena.cluster.home.runs / view.application_id / "executors" / "1"
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    # Spark hands what Python workers say to its own standard error
    assert sizes.keys() == {"stdout", "stderr", "stderr.1"}
    assert max(sizes["stdout"], sizes["stderr"]) <= sizes["stderr.1"] == LOG_FILE_BYTES


def test_a_program_that_takes_the_masters_port_gets_no_token_and_is_not_obeyed(arena: Arena) -> None:
    home = arena.cluster.home
    port = arena.cluster.cluster().port
    arena.cluster.kill_master()
    eventually(lambda: is_free(port), "the end of the dead master's sockets")
    with squatting(None, port) as squatter:
        eventually(lambda: len(squatter.plain) > 2_000, "calls of agents and drivers")
    arena.cluster.restore()
    arena.cluster.await_workers()
    for token in (home.admin_token(), home.submit_token(), *(home.agent_token(w) for w in home.workers())):
        assert token.encode() not in squatter.plain
    assert b"bearer" not in squatter.plain.lower()


def test_the_victim_ends_unharmed(arena: Arena) -> None:
    arena.stop.touch()
    assert arena.victim.finish().ok().answer["ok"]
    summary = arena.cluster.summary("victim")
    assert (summary["end_reason"], summary["tasks_failed"], summary["executors_lost"]) == ("", 0, 0)
    assert summary["executors"] == 1


# ---------------------------------------------------------------------- what there is to reach


def listeners(pid: int) -> list[tuple[str, int]]:
    """Return the addresses where that process and its children listen by TCP."""
    process = psutil.Process(pid)
    found = [c for p in (process, *process.children(recursive=True)) for c in p.net_connections(kind="tcp4")]
    found += process.net_connections(kind="tcp6")
    return [(c.laddr.ip.removeprefix("::ffff:"), c.laddr.port) for c in found if c.status == psutil.CONN_LISTEN]


def executor_listeners(arena: Arena) -> list[tuple[str, int]]:
    """Return the addresses where the victim's executor listens, by the address that its container has."""
    [container] = arena.engine.containers(arena.application_id, ended=False)
    inspected = arena.engine.inspect(container)
    assert inspected is not None
    [network] = inspected["NetworkSettings"]["Networks"].values()
    ports = eventually(lambda: listening_ports(inspected["State"]["Pid"]), "the executor's block manager")
    reached = [(network["IPAddress"], port) for port in ports]
    for address in reached:  # from this host, as the driver does
        socket.create_connection(address, timeout=CONNECT_S).close()
    return reached


def listening_ports(pid: int) -> set[int]:
    """Return the ports on which the network namespace of that process listens (proc(5), /proc/net/tcp: state 0A is
    LISTEN)."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()]
    local = [words[1] for words in lines if len(words) > 3 and words[3] == "0A"]
    # the engine's own resolver listens only on 127.0.0.11
    return {int(address.split(":")[1], 16) for address in local if not address.startswith("0B00007F")}


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def service(host: str = "0.0.0.0", port: int = 0) -> Iterator[int]:
    """Serve on this host and answer every caller; provide the port."""
    with socket.create_server((host, port)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    listening.accept()[0].close()

        thread = threading.Thread(target=serve)
        thread.start()
        socket.create_connection(("127.0.0.1" if host == "0.0.0.0" else host, listening.getsockname()[1]), timeout=5).close()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextlib.contextmanager
def metadata_service() -> Iterator[None]:
    """Let this host answer at the metadata address, as clouds do."""
    given = ("dev", "lo")
    subprocess.run(["ip", "address", "add", f"{METADATA}/32", *given], check=True, timeout=CONNECT_S)
    try:
        with service(METADATA, 80):
            yield
    finally:
        subprocess.run(["ip", "address", "del", f"{METADATA}/32", *given], check=True, timeout=CONNECT_S)

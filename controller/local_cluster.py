"""Starting and ending the processes of a local cluster. Everything was checked before; see `controller.cli.cluster`.

Only processes named in cluster.json by pid and start time are ever signalled.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from controller.client import MasterClient
from controller.home import AgentProcess, Cluster, Home
from controller.processes import ProcessId, alive, identify, send, send_group
from stage_model.errors import PaceError, Unavailable

JOIN_S = 30.0
"""Longest wait for the master's first answer and all agents' first report; both take about a second."""
END_S = 15.0
"""Longest wait for applications to end in `down`."""
STOP_S = 15.0
"""Longest wait for a service to end after SIGTERM, before SIGKILL."""
GIVE_BACK_S = 120.0
"""Longest wait for a provider to end the workers that the master had it start."""
LOOK_S = 0.1


def url_of(host: str, port: int) -> str:
    """Where processes of this machine reach a service that listens there."""
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """One worker of it; `options` are further ones of `sparkpace agent`, as words."""

    worker_id: str
    cores: float
    memory_mb: int
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The cluster to start; `runtime` and `port` are final only after `ready`. `master_options` are further words for it."""

    workers: tuple[WorkerPlan, ...]
    runtime: str
    host: str
    port: int
    insecure: bool
    period_s: float
    floor: float
    allow_mounts: tuple[Path, ...]
    image: str | None
    law: str
    keep_runs: int
    memory_policy: str = "equal"
    master_options: tuple[str, ...] = ()

    def ready(self, *, runtime: str, port: int) -> Plan:
        return replace(self, runtime=runtime, port=port)

    @property
    def url(self) -> str:
        """Where commands and agents of this machine reach the master."""
        return url_of(self.host, self.port)

    def master_command(self, home: Home) -> list[str]:
        return [
            *_service("master", home),
            *("--host", self.host, "--port", str(self.port)),
            *("--keep-runs", str(self.keep_runs), "--law", self.law, "--memory-policy", self.memory_policy),
            *self.master_options,
            *(["--insecure"] if self.insecure else []),
        ]

    def agent_command(self, home: Home, worker: WorkerPlan) -> list[str]:
        return [
            *_service("agent", home),
            *("--worker-id", worker.worker_id, "--cores", f"{worker.cores:g}", "--memory", str(worker.memory_mb)),
            *("--runtime", self.runtime, "--master", self.url),
            *self.agent_options(),
            *worker.options,
        ]

    def agent_options(self) -> list[str]:
        """What all agents of the cluster have in common, those that are started later included."""
        mounts = [part for path in self.allow_mounts for part in ("--allow-mount", str(path))]
        image = ["--image", self.image] if self.image else []
        return ["--period", f"{self.period_s:g}s", "--floor", f"{self.floor:g}", *mounts, *image]


@dataclass(frozen=True, slots=True)
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raises `Unavailable` with the end of its log when the child has died."""
        code = self.process.poll()
        if code is not None:
            raise Unavailable(f"the {self.name} ended with exit code {code}; its log ends:\n{tail(self.log)}")

    def identity(self) -> ProcessId:
        found = identify(self.process.pid)
        if found is None:
            self.process.wait(STOP_S)
            self.check()
            raise Unavailable(f"the {self.name} ended at once; see {self.log}")
        return found


def start(home: Home, plan: Plan) -> Cluster:
    """Starts master and agents and waits until all have joined. Raises `Unavailable`, with nothing left running."""
    home.create()
    children: list[_Child] = []
    try:
        master = _spawn("master", plan.master_command(home), home)
        children.append(master)
        client = MasterClient(plan.url, home.admin_token())
        _wait(children, lambda: [] if _answers(client) else [master])
        names = [worker.worker_id for worker in plan.workers]
        agents = [_spawn(f"agent-{w.worker_id}", plan.agent_command(home, w), home) for w in plan.workers]
        children.extend(agents)
        cluster = Cluster(
            cluster_id=client.health().cluster_id,
            url=plan.url,
            host=plan.host,
            port=plan.port,
            runtime=plan.runtime,
            master=master.identity(),
            agents=tuple(
                AgentProcess(worker_id=name, process=agent.identity()) for name, agent in zip(names, agents, strict=True)
            ),
            started=time.time(),
        )
        home.write_cluster(cluster)
        _wait(children, lambda: _missing(client, dict(zip(names, agents, strict=True))))
    except BaseException:
        _end_children(children)
        home.forget_cluster()
        raise
    return cluster


def stop(home: Home, cluster: Cluster) -> list[str]:
    """Ends applications, agents, master, in this order; returns the ids of applications that would not end in time."""
    left = _end_applications(MasterClient(cluster.url, home.admin_token())) if alive(cluster.master) else []
    with suppress(PaceError):  # a master that does not answer: its next life gives them back
        MasterClient(cluster.url, home.admin_token(), timeout_s=GIVE_BACK_S).end_started_workers()
    # Agents stop their remaining executors or free their quotas themselves; only then may the master go.
    _end_processes([agent.process for agent in cluster.agents])
    _end_processes([cluster.master])
    home.forget_cluster()
    return left


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log file; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def _service(name: str, home: Home) -> tuple[str, ...]:
    return (sys.executable, "-m", "controller.cli.main", name, "--home", str(home.path))


def _spawn(name: str, command: Sequence[str], home: Home) -> _Child:
    log = home.logs / f"{name}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd=home.path
        )
    return _Child(name, process, log)


def _answers(client: MasterClient) -> bool:
    try:
        client.health()
    except Unavailable:
        return False
    return True


def _missing(client: MasterClient, agents: Mapping[str, _Child]) -> list[_Child]:
    joined = {worker.worker_id for worker in client.workers()}
    return [agent for name, agent in agents.items() if name not in joined]


def _wait(children: Sequence[_Child], missing: Callable[[], Sequence[_Child]]) -> None:
    """Until nothing is missing. Raises `Unavailable` with a log's end when a child dies or takes too long."""
    until = time.monotonic() + JOIN_S
    while late := missing():
        for child in children:
            child.check()
        if time.monotonic() > until:
            log = late[0].log
            raise Unavailable(f"the {late[0].name} is not ready after {JOIN_S:g} s; its log ends:\n{tail(log)}")
        time.sleep(LOOK_S)


def _end_children(children: Sequence[_Child]) -> None:
    for child in reversed(children):
        if child.process.poll() is None:
            child.process.terminate()
    for child in reversed(children):
        try:
            child.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()


def _end_applications(client: MasterClient) -> list[str]:
    until = time.monotonic() + END_S
    try:
        for view in client.applications():
            if view.state != "ended":
                client.kill(view.application_id)
        while True:
            left = [v.application_id for v in client.applications() if v.state != "ended" or v.executors > 0]
            if not left or time.monotonic() > until:
                return left
            time.sleep(LOOK_S)
    except PaceError:
        return []  # the master died meanwhile: the agents, asked next, end what is theirs


def _end_processes(processes: Sequence[ProcessId]) -> None:
    for process in processes:
        send(process, signal.SIGTERM)
    until = time.monotonic() + STOP_S
    while any(alive(process) for process in processes) and time.monotonic() < until:
        time.sleep(LOOK_S)
    for process in processes:
        send_group(process, signal.SIGKILL)

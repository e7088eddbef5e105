"""Starting and healing the processes of a local cluster. Everything was checked before; see `controller.local.plan`.

Not here: what is to be healed (`controller.local.healing`), the end (`controller.local.ending`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from controller.client import MasterClient, admin_client
from controller.home import CONFIG_VARIABLE, AgentProcess, Cluster, Home
from controller.local.healing import Found, FoundAgent, Healing
from controller.local.plan import Plan
from controller.locks import Holder, holder
from controller.machine.addresses import check_port
from controller.machine.log_files import tail
from controller.machine.process import Process, find_process
from controller.machine.waiting import wait_until
from controller.start import ours
from stage_model.errors import Unavailable

JOIN_S = 120.0
"""Longest wait for the master's first answer and all agents' first report; both take about a second."""
STOP_S = 15.0
"""Longest wait for a service to end after SIGTERM, before SIGKILL."""
LOOK_S = 0.1


class StartedService(NamedTuple):
    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raise `Unavailable` with the end of its log when the child has died."""
        code = self.process.poll()
        if code is not None:
            raise Unavailable(f"the {self.name} ended with exit code {code}; its log ends:\n{tail(self.log)}")

    def identity(self) -> Process:
        found = find_process(self.process.pid)
        if found is None:
            self.process.wait(STOP_S)
            self.check()
            raise Unavailable(f"the {self.name} ended at once; see {self.log}")
        return found


def start(home: Home, plan: Plan, options: Mapping[str, Any] | None = None) -> Cluster:
    """Start master and agents and wait until all have joined. `options` are those of `up`, kept for the next one.

    Raise `Unavailable`, with nothing left running."""
    home.create()
    plan = plan.with_free_port()  # this late, because another program may take a free port until it is used
    children: list[StartedService] = []
    try:
        master = spawn("master", plan.master_words(), home)
        children.append(master)
        client = admin_client(home, plan.url)
        await_ready(home, children, lambda: _unanswered(client))
        agents = {w.worker_id: spawn(f"agent-{w.worker_id}", plan.agent_words(w), home) for w in plan.workers}
        children.extend(agents.values())
        cluster = Cluster(
            cluster_id=client.health().cluster_id,
            url=plan.url,
            host=plan.host,
            driver_host=plan.driver_host,
            network=plan.network,
            port=plan.port,
            runtime=plan.runtime,
            master=master.identity(),
            master_words=plan.master_words(),
            agents=tuple(
                AgentProcess(
                    worker_id=worker.worker_id, process=agents[worker.worker_id].identity(), words=plan.agent_words(worker)
                )
                for worker in plan.workers
            ),
            options=dict(options or {}),
            started=time.time(),
        )
        home.write_cluster(cluster)
        await_ready(home, children, lambda: _silent(client, home, agents))
    except BaseException:
        end_children(children)
        home.forget_cluster()
        raise
    return cluster


def look(home: Home, cluster: Cluster | None) -> Found:
    """Return the processes of this home that live, by its locks, and further ones that cluster.json names."""
    recorded = {agent.worker_id: agent.process for agent in cluster.agents} if cluster is not None else {}
    agents = {
        name: FoundAgent(
            supervisor=holder(home.agent_lock(name)) or _recorded(recorded.get(name)), child=holder(home.child_lock(name))
        )
        for name in sorted({*home.workers(), *recorded})
    }
    return Found(
        master=holder(home.master_lock) or _recorded(cluster.master if cluster is not None else None),
        agents={name: agent for name, agent in agents.items() if agent.supervisor or agent.child},
    )


def _recorded(process: Process | None) -> Holder | None:
    return Holder(process=process) if process is not None and process.is_alive() else None


def heal(home: Home, cluster: Cluster, healing: Healing) -> Cluster:
    """Start what is missing, with the words it was started with, and wait until it is there; what lives is left as it is.

    Raise `Unavailable`: then the parts that did not become ready are ended again."""
    client = admin_client(home, cluster.url)
    children: list[StartedService] = []
    try:
        if healing.master:
            _check_old_port(cluster)
            children.append(spawn("master", cluster.master_words, home))
        await_ready(home, children, lambda: _unanswered(client))
        cluster = _as_found(home, structs.replace(cluster, cluster_id=client.health().cluster_id))
        children.clear()  # the master came
        if healing.master:
            # agents that live find the new master by themselves; the next job should find them there
            wait_until(lambda: not _silent(client, home, healing.living), JOIN_S, LOOK_S)
        words = {agent.worker_id: agent.words for agent in cluster.agents}
        orphans = {name: holder(home.child_lock(name)) for name in healing.agents}
        children.extend(spawn(f"agent-{name}", words[name], home) for name in healing.agents)
        await_ready(home, children, lambda: _silent(client, home, (*healing.agents, *healing.restarting), orphans))
    except BaseException:
        end_children(children)
        raise
    return _as_found(home, cluster)


def _check_old_port(recorded: Cluster) -> None:
    """Raise `Unavailable` when another program has the port meanwhile: agents and drivers know no other port."""
    try:
        check_port(recorded.host, recorded.port)
    except Unavailable as error:
        raise Unavailable(
            f"the master has died and another program has port {recorded.port} of {recorded.host}, where agents and drivers "
            f"look for the master; end that program, or the cluster with `sparkpace down`"
        ) from error


def unfinished(home: Home) -> int:
    """Return the number of applications that have not ended. Raise `PaceError`."""
    return sum(not view.ended for view in admin_client(home).applications())


def _as_found(home: Home, cluster: Cluster) -> Cluster:
    """Return the cluster with the processes that live now, written down."""
    found = look(home, cluster)

    def newest(holder: Holder | None, recorded: Process) -> Process:
        return recorded if holder is None or holder.process is None else holder.process

    cluster = structs.replace(
        cluster,
        master=newest(found.master, cluster.master),
        agents=tuple(
            structs.replace(agent, process=newest(found.agent(agent.worker_id).supervisor, agent.process))
            for agent in cluster.agents
        ),
    )
    home.write_cluster(cluster)
    return cluster


def spawn(name: str, words: Sequence[str], home: Home) -> StartedService:
    """Start `sparkpace WORDS --home HOME` in the background; its log is that of `name`."""
    log = home.logs / f"{name}.log"
    command = ours("controller.cli.main", *words, "--home", str(home.path))
    with log.open("ab") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd=home.path,
            env={**os.environ, CONFIG_VARIABLE: ""},  # the words hold all options
        )
    return StartedService(name, process, log)


def _unanswered(client: MasterClient) -> list[str]:
    """Return names of logs of services that are not ready; so does `_silent`."""
    try:
        client.health()
    except Unavailable:
        return ["master"]
    return []


def _silent(
    client: MasterClient, home: Home, workers: Collection[str], orphans: Mapping[str, Holder | None] | None = None
) -> list[str]:
    """Return agents without a report to the master in the life of their present child; an orphan, about to end, does not
    count."""
    heard = {worker.worker_id: worker.pid for worker in client.workers()}
    late = []
    for name in workers:
        child = holder(home.child_lock(name))
        orphan = (orphans or {}).get(name)
        if child is None or child.process is None or child == orphan or heard.get(name) != child.process.pid:
            late.append(f"agent-{name}")
    return late


def await_ready(home: Home, children: Sequence[StartedService], missing: Callable[[], Sequence[str]]) -> None:
    """Wait until nothing is missing. Raise `Unavailable` with a log's end when a child dies or takes too long."""
    late: Sequence[str] = ()

    def ready() -> bool:
        nonlocal late
        late = missing()
        for child in children if late else ():
            child.check()
        return not late

    if not wait_until(ready, JOIN_S, LOOK_S):
        said = tail(home.logs / f"{late[0]}.log")
        raise Unavailable(f"the {late[0]} is not ready after {JOIN_S:g} s; its log ends:\n{said}")


def end_children(children: Sequence[StartedService]) -> None:
    for child in reversed(children):
        if child.process.poll() is None:
            child.process.terminate()
    for child in reversed(children):
        try:
            child.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()

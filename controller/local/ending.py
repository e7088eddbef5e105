"""The end of a local cluster: its applications, its services however they were started, and the executors and containers that
outlived them.

Only processes that cluster.json or the home's locks name by pid, start time and boot are ever signalled.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from controller.client import MasterClient, admin_client
from controller.home import Cluster, Home
from controller.local.cluster import LOOK_S, STOP_S, look
from controller.local.leftovers import Removed, clear_groups, clear_grown, clear_worker
from controller.locks import end, last_holder
from controller.machine.process import Process
from controller.machine.waiting import wait_until
from controller.master.providers import NODE_RUNTIME
from controller.wire.command import WorkerView
from controller.wire.hosting import FINAL
from stage_model.errors import BadInput, PaceError, Unavailable

END_S = 15.0
"""Longest wait for applications to end in `down`."""
GIVE_BACK_S = 120.0
"""Longest wait for a provider to end the workers that the master had it start."""
ELSEWHERE_S = 75.0
"""Longest wait for agents elsewhere: an agent gives its executors 30 s, and the master as long to learn of its end."""
RECENT_S = 120.0
"""An agent that has reported within this time lives; the longest control period is half of it."""


@dataclass(slots=True)
class Stopped:
    """The result of `stop`. `removed` counts the leftovers of agents; `left` says in sentences which parts are still there,
    and why. `elsewhere` has sentences on agents of other homes, which a further call cannot end, because their master has
    ended. `notes` are about the rest."""

    removed: Removed = field(default_factory=Removed)
    left: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def stop(home: Home, cluster: Cluster | None, *, everywhere: bool = False) -> Stopped | None:
    """End applications, agents, master, in this order, however they were started, then their leftovers; return None when
    nothing was there. The next call tries again to end the parts that are left. `everywhere`: agents of other homes end,
    too."""
    found = look(home, cluster)
    # a child that ends in good order no longer says which runtime it had
    last = {name: last_holder(home.child_lock(name)) for name in home.workers() if home.child_lock(name).exists()}
    workers = {name: holder.note if holder else cluster.runtime if cluster else "" for name, holder in last.items()}
    if cluster is None and not found.names() and not workers:
        return None
    stopped = Stopped()
    url = found.master.note if found.master is not None and found.master.note else cluster.url if cluster else ""
    if found.master is not None and url:
        try:
            _end_work(home, url, stopped)
        except PaceError as error:
            stopped.notes.append(f"the master was not asked to end the applications ({error}); agents end their executors")
    _end_or_name_others(home, url if found.master is not None else "", stopped, everywhere=everywhere)
    # Agents stop their remaining executors or free their quotas themselves; only then may the master go.
    for processes in (found.processes(master=False), found.processes(master=True)):
        _end_processes(processes)
    for name, it in look(home, cluster).holders():
        why = f"process {it.process.pid} does not end" if it.process else "it runs on another host, or in a container"
        stopped.left.append(f"{name} was left: {why}")
    names: set[str] = set()
    for name, runtime in workers.items():
        names |= clear_worker(home, name, runtime, stopped.removed, stopped.left)
    clear_groups(names, stopped.removed, stopped.left)
    if cluster is not None and cluster.runtime == NODE_RUNTIME:
        clear_grown(cluster.cluster_id, stopped.removed, stopped.left)
    if found.master is None and stopped.removed.executors:
        stopped.notes.append(
            "no master was there to tell the drivers that their applications have ended; end them by hand if they wait"
        )
    if not stopped.left:
        home.forget_cluster()
    return stopped


def _end_work(home: Home, url: str, stopped: Stopped) -> None:
    """End the applications, the hosted drivers and the workers that the master had started. Raise `PaceError` for a master
    that this release cannot call, or without its token."""
    stopped.notes += [
        f"application {name} was not over when its agents were stopped: its driver may go on, or its record could not be "
        f"written"
        for name in _end_applications(admin_client(home, url))
    ]
    with suppress(PaceError):  # a master that does not answer: its next life gives them back
        admin_client(home, url, GIVE_BACK_S).end_started_workers()


def _end_or_name_others(home: Home, url: str, stopped: Stopped, *, everywhere: bool) -> None:
    """End the agents of other homes if `everywhere`, else name them. The master at `url` knows them; empty: none lives."""
    try:
        if not url:
            raise Unavailable("no master that knows them is running")
        client = admin_client(home, url)
        if everywhere:
            stopped.elsewhere += _end_elsewhere(client, home)
            return
        stopped.notes += [
            f"the agent of {w.worker_id} on {w.host} is not of this home and was left: it waits for a master; end it there, "
            f"or give `sparkpace down --all` the next time"
            for w in _elsewhere(client, home)
        ]
    except PaceError as error:
        if everywhere:
            stopped.elsewhere.append(f"agents of other homes may be left ({error}); end them there with `sparkpace down`")


def _elsewhere(client: MasterClient, home: Home) -> list[WorkerView]:
    """Return the workers whose agents live and belong to another home, most likely on another machine. Raise `PaceError`."""
    mine = set(home.workers())
    return [w for w in client.workers() if w.worker_id not in mine and w.seen_s_ago < RECENT_S]


def _end_elsewhere(client: MasterClient, home: Home) -> list[str]:
    """End the agents of other homes; return a sentence on each that has not ended in time. Raise `PaceError`."""
    for worker in _elsewhere(client, home):
        with suppress(BadInput):  # the master has forgotten it meanwhile
            client.end_worker(worker.worker_id)
    wait_until(lambda: not _elsewhere(client, home), ELSEWHERE_S, LOOK_S)
    return [
        f"the agent of {w.worker_id} on {w.host} was asked to end and still runs after {ELSEWHERE_S:g} s; end it there"
        for w in _elsewhere(client, home)
    ]


def _end_applications(client: MasterClient) -> list[str]:
    """End the applications and the hosted drivers; return the ids of applications that are not over in time. An application
    is over when its record is written: until then its driver may have to be informed. Hosted drivers that are left are ended
    with their workers."""

    def going_on() -> list[str]:
        return [view.application_id for view in client.applications() if view.executors or not view.finished]

    def hosted() -> list[str]:
        return [driver.driver_id for driver in client.hosted_drivers() if driver.state not in FINAL]

    try:
        for view in client.applications():
            if not view.ended:
                client.kill(view.application_id)
        for driver_id in hosted():
            client.kill_driver(driver_id)
        wait_until(lambda: not going_on() and not hosted(), END_S, LOOK_S)
        return going_on()
    except PaceError:
        return []  # the master died meanwhile: the agents, which are asked next, end their executors


def _end_processes(processes: Sequence[Process]) -> None:
    """End processes with what they started in their own sessions, once their time is over."""
    for process in processes:
        process.send(signal.SIGTERM)
    wait_until(lambda: not any(process.is_alive() for process in processes), STOP_S, LOOK_S)
    for process in processes:
        process.send_group(signal.SIGKILL)
    end(tuple(processes), 0.0)

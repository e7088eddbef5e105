"""The master process: opens the store, builds the state, serves the API and looks after what only time brings about."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import uvicorn

from controller.asks.options import MasterOptions
from controller.home import Home
from controller.locks import master_lock
from controller.machine.addresses import bound_socket, url_of
from controller.machine.authority import certify, names_of
from controller.machine.local_zone import local_zone
from controller.machine.process import allow_files
from controller.machine.service_log import log_to_stderr
from controller.machine.watchdog import Watchdog
from controller.master.access.connections import MasterServer
from controller.master.access.tokens import Gatekeeper
from controller.master.api import Api
from controller.master.cluster import ClusterState
from controller.master.core.core import ClusterOptions
from controller.master.handlers import WaitingAgents
from controller.master.join_calls import JoinCalls
from controller.master.notify.missing import MissingJobs
from controller.master.notify.notifying import Notifying
from controller.master.notify.sender import Sender
from controller.master.providers import make_provider
from controller.master.storage.kept import Kept
from controller.master.topology_file import TopologyFile
from placement.growth import Growth
from placement.scores import parse_weights

log = logging.getLogger("sparkpace.master")

TICK_S = 0.5


def run_master(options: MasterOptions) -> None:
    """Serve until SIGTERM. Raise `Unavailable` when the home has a master already or the port is taken."""
    home, url = Home(options.home), url_of(options.host, options.port)
    log_to_stderr(home.logs)
    files = allow_files()
    with master_lock(home, url), bound_socket(options.host, options.port) as listening:
        certify(home.ca_key_file, home.ca_file, home.master_certificate, names_of(options.host, options.names))
        asyncio.run(_serve(options, listening, files))


async def _serve(options: MasterOptions, listening: socket.socket, files: int) -> None:
    home = Home(options.home)
    agents = WaitingAgents()
    kept = Kept.of(home, options.keep_runs)
    weights = parse_weights(options.placement_weights)
    chosen = ClusterOptions(
        options.law,
        options.memory_policy,
        options.placement,
        weights,
        options.lost_after_s,
        options.users,
        options.observe,
    )
    cluster = ClusterState(kept, chosen, agents.wake, time.monotonic())
    if options.growth is not None:
        grown, here = options.growth, url_of(options.host, listening.getsockname()[1])
        provider = make_provider(grown, cluster_id=kept.identity.cluster_id, master_url=here, home=options.home)
        cluster.grow_by(Growth(grown.limits, grown.usual, grown.utilisation), provider, time.monotonic())
    sender = None
    if options.notify is not None:
        sender = Sender(options.notify, home.notify_secret(), time.monotonic)
        missing = None
        if options.notify_missing:
            missing = MissingJobs(kept.profiles, local_zone(os.environ), ThreadPoolExecutor(1, "habits"))
        cluster.notifying = Notifying(sender, kept.identity.cluster_id, time.time, missing)
    gate = Gatekeeper(home.admin_token(), home.submit_token(), home.find_agent_token, home.find_user, home.find_metrics_token)
    api = Api(cluster, gate, JoinCalls(home, options.host), agents, time.monotonic, time.time)
    server = MasterServer(api.application(), home.master_certificate, listening, files, agents.wake_all)
    topology = TopologyFile(options.topology) if options.topology else None
    ticking = asyncio.create_task(_tick(cluster, topology, Watchdog(os.environ).beat))
    ticking.add_done_callback(lambda task: _ended(task, server))
    log.info(
        "cluster %s, generation %d, on %s:%d",
        kept.identity.cluster_id,
        kept.identity.generation,
        *listening.getsockname()[:2],
    )
    received: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn handles these signals while it serves, and then raises them again: that must not end what follows
        signal.signal(number, lambda number, _: received.append(number))
    await server.serve(sockets=[])  # the server accepts by itself
    ticking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await ticking
    if sender is not None:
        cluster.notify(time.monotonic())  # of what has ended since the last pass
        await asyncio.to_thread(sender.close)
    cluster.close()
    if received:  # no one waits for a provider that takes its time on another thread
        signal.signal(received[0], signal.SIG_DFL)
        signal.raise_signal(received[0])


async def _tick(cluster: ClusterState, topology: TopologyFile | None, beat: Callable[[], None]) -> None:
    while True:
        beat()
        if topology:
            with cluster.parts.guarded("reading the topology"):
                if (new := topology.changed()) is not None:
                    cluster.commands.locate_by(new, time.monotonic())
        with cluster.parts.guarded("the master's periodic pass"):
            cluster.tick(time.monotonic())
        await asyncio.sleep(TICK_S)


def _ended(ticking: asyncio.Task[None], server: uvicorn.Server) -> None:
    """End a master without its pass, which would answer and do nothing, so that it is started again."""
    if not server.should_exit:
        log.critical("the master's pass has ended: %r", None if ticking.cancelled() else ticking.exception())
        server.should_exit = True

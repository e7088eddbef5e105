"""The handlers of the master's calls (`calls`), which ask `cluster` or `join_calls`. Nothing is decided here; `api` brings
the calls in and the answers out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import wait as wait_all
from contextlib import contextmanager, suppress

from starlette.requests import Request

from controller.asks.job_options import asked_deadline_s
from controller.master.access.peer import Address, find_facts, find_peer
from controller.master.access.tokens import Gatekeeper
from controller.master.access.vouching import check_vouched, counted_for, vouched
from controller.master.cluster import ClusterState
from controller.master.join_calls import JoinCalls
from controller.version import VERSION
from controller.wire import command
from controller.wire.course import Course, EndedRuns, SavingsReply
from controller.wire.driver import DriverReply, DriverSync, Registered, Registration
from controller.wire.hosting import HostedList, HostedView, HostRequest
from controller.wire.joining import Authority, JoinCheck, JoinFound, JoinRequest, NewIdentity
from controller.wire.worker import Changed, WorkerReply, WorkerSync
from stage_model.errors import PaceError

LONGEST_WAIT_S = 30.0


class WaitingAgents:
    """The agents that wait for a newer version of their desired state, and their wake-up."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def wake(self, worker_ids: Collection[str]) -> None:
        for worker_id in worker_ids:
            event = self._events.pop(worker_id, None)
            if event:
                event.set()

    def wake_all(self) -> None:
        self.wake(list(self._events))

    async def wait(self, worker_id: str, timeout_s: float) -> None:
        event = self._events.setdefault(worker_id, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), timeout_s)


class Handlers:
    """The handlers. `clock` is monotonic seconds, `wall` those since the epoch."""

    def __init__(
        self,
        cluster: ClusterState,
        gate: Gatekeeper,
        joining: JoinCalls,
        agents: WaitingAgents,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self.cluster, self.gate, self.joining, self.agents = cluster, gate, joining, agents
        self.clock, self.wall = clock, wall

    # ------------------------------------------------------------------ anybody

    async def health(self, _: Request) -> command.Health:
        return command.Health(cluster_id=self.cluster.identity.cluster_id, version=VERSION)

    # ------------------------------------------------------------------ drivers

    async def register(self, request: Request, said: Registration) -> Registered:
        # an application that registers again was submitted before
        with self._telling_a_refusal(said.name if said.application_id is None else None, lambda: asked_deadline_s(said)):
            user = self.gate.user(bearer_of(request))
            facts = await asyncio.to_thread(find_facts, said.process, said.uid, user, _ends(request))
            return await self.cluster.drivers.register(vouched(said, facts), self.clock)

    async def driver_sync(self, request: Request, said: DriverSync) -> DriverReply:
        return await self.cluster.drivers.sync(request.path_params["id"], said, self.clock)

    # ------------------------------------------------------------------ commands

    async def views(self, _: Request) -> command.ApplicationList:
        return command.ApplicationList(applications=tuple(await self.cluster.commands.views(self.clock())))

    async def view(self, request: Request) -> command.ApplicationView:
        return self.cluster.core.commands.view(request.path_params["id"], self.clock())

    async def explain(self, request: Request) -> command.Explanation:
        return self.cluster.core.commands.explain(request.path_params["id"], self.clock())

    async def executors(self, request: Request) -> command.ExecutorPlaces:
        return self.cluster.logs.places(request.path_params["id"])

    async def executor_log(self, request: Request) -> command.ExecutorLog:
        named = request.path_params
        return await self.cluster.logs.read(named["id"], named["executor"], self.clock)

    async def course(self, request: Request, *, samples: int, quotas: int, since: int) -> Course:
        return await self.cluster.commands.course(request.path_params["id"], samples, quotas, since)

    async def runs(self, _: Request) -> EndedRuns:
        return EndedRuns(runs=await self.cluster.commands.ended_runs())

    async def savings(self, _: Request) -> SavingsReply:
        return await self.cluster.commands.savings()

    async def kill(self, request: Request) -> command.Empty:
        self.cluster.commands.kill(request.path_params["id"], self.clock())
        return command.Empty()

    async def host_driver(self, request: Request, said: HostRequest) -> HostedView:
        user = self.gate.user(bearer_of(request))
        facts = await asyncio.to_thread(find_facts, said.process, said.uid, user, _ends(request))
        check_vouched("submitter", said.process.pid, (said.uid, said.gid), facts)
        return self.cluster.hosting.submit(said, self.clock(), self.wall())

    async def hosted_drivers(self, _: Request) -> HostedList:
        return self.cluster.hosting.views()

    async def hosted_driver(self, request: Request) -> HostedView:
        return self.cluster.hosting.view(request.path_params["id"])

    async def kill_driver(self, request: Request) -> HostedView:
        return self.cluster.hosting.kill(request.path_params["id"], self.clock())

    async def driver_ended(self, request: Request, said: command.DriverEnded) -> command.Empty:
        self.cluster.submissions.end(request.path_params["id"], "its driver has ended before it registered")
        self.cluster.commands.driver_ended(request.path_params["id"], said.exit_code, self.clock())
        return command.Empty()

    async def change(self, request: Request, asked: command.Change) -> command.Empty:
        await self.cluster.commands.change(request.path_params["id"], asked, self.clock)
        return command.Empty()

    async def start(self, request: Request, asked: command.StartRequest) -> command.StartReply:
        uid = await self._uid(request, counts=asked.plan is not None and self._counts(asked.plan))
        return await self.cluster.admission.ask(request.path_params["id"], asked, uid, self.clock)

    async def plan(self, request: Request, asked: command.PlanRequest) -> command.PlanReply:
        with self._telling_a_refusal(asked.submits, lambda: asked.deadline_s):
            uid = await self._uid(request, counts=self._counts(asked))
            reply = await self.cluster.admission.plan(asked, self.clock(), uid=uid)
        if asked.submits is not None and asked.deadline_s is not None and reply.feasible is False:
            self.cluster.refused(asked.submits, reply.reason, asked.deadline_s)
        return reply

    async def services(self, request: Request, asked: command.ServicesRequest) -> command.Services:
        uid = await self._uid(request, counts=True)
        return command.Services(addresses=self.cluster.submissions.addresses(asked.after, uid))

    def _counts(self, asked: command.PlanRequest) -> bool:
        """Return True if it counts whose submission a request is."""
        return asked.pipeline is not None or bool(asked.after) or self.cluster.registry.shares.limited

    async def _uid(self, request: Request, *, counts: bool) -> int:
        """Return the uid of the user whose submission a request is, where that `counts`."""
        user = self.gate.user(bearer_of(request))
        ends = _ends(request) if user is None and counts else None
        peer = await asyncio.to_thread(find_peer, *ends) if ends else None
        return counted_for(user, peer.uid if peer else None)

    async def workers(self, _: Request) -> command.WorkerList:
        return command.WorkerList(workers=tuple(self.cluster.workers.views(self.clock())))

    async def end_started_workers(self, _: Request) -> command.Empty:
        await asyncio.to_thread(wait_all, self.cluster.end_started_workers(self.clock()))
        return command.Empty()

    async def label(self, request: Request, asked: command.Labels) -> command.Labels:
        return command.Labels(labels=dict(self.cluster.commands.label(request.path_params["id"], asked.labels, self.clock())))

    async def end_worker(self, request: Request) -> command.Empty:
        self.cluster.commands.end_worker(request.path_params["id"], self.clock())
        return command.Empty()

    # ------------------------------------------------------------------ agents

    async def worker_sync(self, request: Request, said: WorkerSync) -> WorkerReply:
        return self.cluster.agents.sync(request.path_params["id"], said, self.clock())

    async def worker_changes(self, request: Request, *, seen: int, wait: int) -> Changed:
        worker_id = request.path_params["id"]
        if self.cluster.lifecycle.version(worker_id) == seen:
            await self.agents.wait(worker_id, min(LONGEST_WAIT_S, wait))
        reported = self.cluster.workers.has_reported(worker_id)
        return Changed(version=self.cluster.lifecycle.version(worker_id), reported=reported)

    # ------------------------------------------------------------------ machines that join

    async def authority(self, _: Request) -> Authority:
        return self.joining.authority(self.wall())

    async def check_join(self, _: Request, said: JoinCheck) -> JoinFound:
        return await self.joining.check(said)

    async def join(self, request: Request, said: JoinRequest) -> command.Empty:
        await self.joining.join(bearer_of(request), said, self.wall())
        return command.Empty()

    async def renew(self, request: Request, said: NewIdentity) -> command.Empty:
        await self.joining.renew(request.path_params["id"], said)
        return command.Empty()

    # ------------------------------------------------------------------ refusals

    @contextmanager
    def _telling_a_refusal(self, name: str | None, deadline_s: Callable[[], float | None]) -> Iterator[None]:
        """Report a refusal of the application that is submitted, with that deadline; no name: none is submitted."""
        try:
            yield
        except PaceError as error:
            if name is not None:
                self.cluster.refused(name, str(error), deadline_s())
            raise


def bearer_of(request: Request) -> str:
    """Return the token that a call has brought; empty without one."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _ends(request: Request) -> tuple[Address, Address] | None:
    """Return the other end of the call's connection, and ours."""
    client, server = request.client, request.scope.get("server")
    return None if client is None or not server else (Address(client.host, client.port), Address(server[0], server[1] or 0))

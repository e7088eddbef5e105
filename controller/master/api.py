"""The master's HTTP API: routes, tokens, JSON in and out. Every answer comes from `cluster`; nothing is decided here.

Errors are JSON {"error": sentence, "exit_code": number}. See docs/protocol.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import wait as wait_all
from contextlib import contextmanager

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from controller.asks.job_options import asked_deadline_s
from controller.master.access.bodies import Bodies, path_called
from controller.master.access.connections import Connection
from controller.master.access.peer import Address, find_facts, find_peer
from controller.master.access.tokens import Gatekeeper
from controller.master.access.vouching import counted_for, vouched
from controller.master.calls import CALLS, types_of
from controller.master.cluster import ClusterState
from controller.master.join_calls import JoinCalls
from controller.master.metrics import FORMAT, metrics
from controller.master.storage.durability import Durability
from controller.master.waiting_agents import WaitingAgents
from controller.version import VERSION
from controller.wire import version
from controller.wire.command import (
    ApplicationList,
    ApplicationView,
    Change,
    DriverEnded,
    Empty,
    Explanation,
    Failure,
    Health,
    Labels,
    PlanReply,
    PlanRequest,
    Services,
    ServicesRequest,
    StartReply,
    StartRequest,
    WorkerList,
)
from controller.wire.course import Course, EndedRuns, SavingsReply
from controller.wire.driver import DriverReply, DriverSync, Registered, Registration
from controller.wire.joining import Authority, JoinCheck, JoinFound, JoinRequest, NewIdentity
from controller.wire.worker import Changed, WorkerReply, WorkerSync
from stage_model.errors import (
    BadInput,
    Denied,
    InfeasibleDeadline,
    NotStored,
    OtherVersion,
    PaceError,
    TooLarge,
    TooMuch,
    TooSlow,
    Unavailable,
)

log = logging.getLogger("sparkpace.master")

LONGEST_WAIT_S = 30.0

STATUS = {
    BadInput: 400,
    OtherVersion: 400,
    Denied: 401,
    TooSlow: 408,
    InfeasibleDeadline: 409,
    TooLarge: 413,
    TooMuch: 429,
    Unavailable: 503,
    NotStored: 507,
}


class Api:
    """Handlers of calls. `clock` is monotonic seconds, `wall` those since the epoch."""

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
        self._scraping = asyncio.Lock()
        self._bodies = Bodies(clock)
        self.durability = Durability(cluster.store)

    def application(self) -> Starlette:
        allow: dict[str, Callable[[Request], str] | None] = {
            "anybody": None,
            "submit": self._submit,
            "admin": self._admin,
            "application": self._own,
            "worker": self._worker,
            "join": self._join,
        }
        routes = []
        for call in CALLS:
            handler = getattr(self, call.handler)
            endpoint = handler if call.scope == "metrics" else self._handler(handler, allow[call.scope])
            routes.append(Route(call.path, endpoint, methods=[call.method]))
        return Starlette(routes=routes, exception_handlers={HTTPException: _no_such_call})

    def _handler(
        self, answer: Callable[..., Awaitable[object]], allow: Callable[[Request], str] | None
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a call. `allow` refuses a caller without the right token, before the body is read, and says
        for whom the connection counts; None: any caller is let in. `answer` is given what its `CallTypes` says."""
        shape, warned = types_of(answer), list[OtherVersion]()

        async def handle(request: Request) -> Response:
            try:
                version.check_header(request.headers.get(version.HEADER), f"the sender of {answer.__name__}", "this master")
                if allow is not None:
                    _count(request, allow(request))
                numbers = {name: _number(request, name) for name in shape.numbers}
                body = () if shape.body is None else (await self._bodies.read(request, shape.body),)
                answered = await answer(request, *body, **numbers)
                if request.method == "POST":
                    await self.durability.wait()
                return _json(answered)
            except OtherVersion as error:
                if not warned:  # such a peer tries on and on
                    warned.append(error)
                    log.warning("%s", error)
                return _failure(error)
            except PaceError as error:
                return _failure(error)
            except Exception:
                log.exception("%s %s failed", request.method, path_called(request))
                return _json(Failure(error="the master failed on this call; see its log"), 500)

        return handle

    # ------------------------------------------------------------------ who may call

    def _admin(self, request: Request) -> str:
        self.gate.admin(_token(request))
        return "admin"

    def _submit(self, request: Request) -> str:
        token = _token(request)
        self.gate.submit(token)
        user = self.gate.user(token)
        return "submit" if user is None else f"user {user.uid}"

    def _own(self, request: Request) -> str:
        """Check the token of the driver of the application that the path names."""
        self.gate.application(_token(request), self.cluster.drivers.token_hash(request.path_params["id"]))
        return f"application {request.path_params['id']}"

    def _worker(self, request: Request) -> str:
        """Check the token of the agent of the worker that the path names."""
        self.gate.worker(_token(request), request.path_params["id"])
        return f"worker {request.path_params['id']}"

    def _join(self, request: Request) -> str:
        return self.joining.allow(_token(request), self.wall())

    # ------------------------------------------------------------------ anybody

    async def health(self, _: Request) -> Health:
        return Health(cluster_id=self.cluster.identity.cluster_id, version=VERSION)

    async def scrape(self, request: Request) -> Response:
        """Answer Prometheus, which names no version of the wire; one call at a time."""
        try:
            self.gate.metrics(_token(request))
        except PaceError as error:
            return _failure(error)
        _count(request, "metrics")
        async with self._scraping:
            text = await metrics(self.cluster, self.clock(), self.wall())
        return Response(text, headers={version.HEADER: version.SPOKEN, "content-type": FORMAT})

    # ------------------------------------------------------------------ drivers

    async def register(self, request: Request, said: Registration) -> Registered:
        # an application that registers again was submitted before
        with self._telling_a_refusal(said.name if said.application_id is None else None, lambda: asked_deadline_s(said)):
            facts = await asyncio.to_thread(find_facts, said, self.gate.user(_token(request)), _ends(request))
            return await self.cluster.drivers.register(vouched(said, facts), self.clock)

    async def driver_sync(self, request: Request, said: DriverSync) -> DriverReply:
        return await self.cluster.drivers.sync(request.path_params["id"], said, self.clock)

    # ------------------------------------------------------------------ commands

    async def views(self, _: Request) -> ApplicationList:
        return ApplicationList(applications=tuple(await self.cluster.commands.views(self.clock())))

    async def view(self, request: Request) -> ApplicationView:
        return self.cluster.commands.view(request.path_params["id"], self.clock())

    async def explain(self, request: Request) -> Explanation:
        return self.cluster.commands.explain(request.path_params["id"], self.clock())

    async def course(self, request: Request, *, samples: int, quotas: int, since: int) -> Course:
        return await self.cluster.commands.course(request.path_params["id"], samples, quotas, since)

    async def runs(self, _: Request) -> EndedRuns:
        return EndedRuns(runs=await self.cluster.commands.ended_runs())

    async def savings(self, _: Request) -> SavingsReply:
        return await self.cluster.commands.savings()

    async def kill(self, request: Request) -> Empty:
        self.cluster.commands.kill(request.path_params["id"], self.clock())
        return Empty()

    async def driver_ended(self, request: Request, said: DriverEnded) -> Empty:
        self.cluster.submissions.end(request.path_params["id"], "its driver has ended before it registered")
        self.cluster.commands.driver_ended(request.path_params["id"], said.exit_code, self.clock())
        return Empty()

    async def change(self, request: Request, asked: Change) -> Empty:
        await self.cluster.commands.change(request.path_params["id"], asked, self.clock)
        return Empty()

    async def start(self, request: Request, asked: StartRequest) -> StartReply:
        uid = await self._uid(request, counts=asked.plan is not None and self._counts(asked.plan))
        return await self.cluster.admission.ask(request.path_params["id"], asked, uid, self.clock)

    async def plan(self, request: Request, asked: PlanRequest) -> PlanReply:
        with self._telling_a_refusal(asked.submits, lambda: asked.deadline_s):
            uid = await self._uid(request, counts=self._counts(asked))
            reply = await self.cluster.admission.plan(asked, self.clock(), uid=uid)
        if asked.submits is not None and asked.deadline_s is not None and reply.feasible is False:
            self.cluster.refused(asked.submits, reply.reason, asked.deadline_s)
        return reply

    async def services(self, request: Request, asked: ServicesRequest) -> Services:
        uid = await self._uid(request, counts=True)
        return Services(addresses=self.cluster.submissions.addresses(asked.after, uid))

    def _counts(self, asked: PlanRequest) -> bool:
        """Return True if it counts whose submission a request is."""
        return asked.pipeline is not None or bool(asked.after) or self.cluster.registry.shares.limited

    async def _uid(self, request: Request, *, counts: bool) -> int:
        """Return the uid of the user whose submission a request is, where that `counts`."""
        user = self.gate.user(_token(request))
        ends = _ends(request) if user is None and counts else None
        peer = await asyncio.to_thread(find_peer, *ends) if ends else None
        return counted_for(user, peer.uid if peer else None)

    async def workers(self, _: Request) -> WorkerList:
        return WorkerList(workers=tuple(self.cluster.workers.views(self.clock())))

    async def end_started_workers(self, _: Request) -> Empty:
        await asyncio.to_thread(wait_all, self.cluster.end_started_workers(self.clock()))
        return Empty()

    async def label(self, request: Request, asked: Labels) -> Labels:
        return Labels(labels=dict(self.cluster.commands.label(request.path_params["id"], asked.labels, self.clock())))

    async def end_worker(self, request: Request) -> Empty:
        self.cluster.commands.end_worker(request.path_params["id"], self.clock())
        return Empty()

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

    async def join(self, request: Request, said: JoinRequest) -> Empty:
        await self.joining.join(_token(request), said, self.wall())
        return Empty()

    async def renew(self, request: Request, said: NewIdentity) -> Empty:
        await self.joining.renew(request.path_params["id"], said)
        return Empty()

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


def _count(request: Request, owner: str) -> None:
    """Count the call and its connection for `owner` (`connections`); a call may come without a connection, in a test."""
    request.state.owner = owner
    connection: Connection | None = getattr(request.state, "connection", None)
    if connection is not None:
        connection.is_of(owner)


def _token(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _ends(request: Request) -> tuple[Address, Address] | None:
    """Return the other end of the call's connection, and ours."""
    client, server = request.client, request.scope.get("server")
    return None if client is None or not server else (Address(client.host, client.port), Address(server[0], server[1] or 0))


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"{name}={text[:40]!r} is not a whole number; give one") from None


def _json(value: object, status: int = 200) -> Response:
    headers = {version.HEADER: version.SPOKEN}
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def _failure(error: PaceError) -> Response:
    return _json(Failure(error=str(error), exit_code=error.exit_code), STATUS.get(type(error), 500))


def _no_such_call(request: Request, error: Exception) -> Response:
    """Answer a call that only a newer master has, or none."""
    assert isinstance(error, HTTPException)
    sentence = f"this master (Sparkpace {VERSION}) has no call {request.method} {path_called(request)}"
    return _json(Failure(error=sentence, exit_code=Unavailable.exit_code), error.status_code)

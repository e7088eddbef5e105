"""The master's HTTP API: routes, tokens, JSON in and out. Every answer comes from `handlers`.

Errors are JSON {"error": sentence, "exit_code": number}. See docs/protocol.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from controller.master.access.bodies import Bodies, path_called
from controller.master.calls import CALLS, types_of
from controller.master.handlers import Handlers, bearer_of
from controller.master.metrics import FORMAT, metrics
from controller.master.storage.durability import Durability
from controller.version import VERSION
from controller.wire import version
from controller.wire.command import Failure
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


class Api(Handlers):
    """The handlers behind their routes."""

    def application(self) -> Starlette:
        allow: dict[str, Callable[[Request], str] | None] = {
            "anybody": None,
            "submit": self._submit,
            "admin": self._admin,
            "application": self._own,
            "worker": self._worker,
            "join": self._join,
        }
        bodies, durability = Bodies(self.clock), Durability(self.cluster.store)
        self._scraping = asyncio.Lock()
        routes = []
        for call in CALLS:
            handler = getattr(self, call.handler)
            endpoint = handler if call.scope == "metrics" else _endpoint(handler, allow[call.scope], bodies, durability)
            routes.append(Route(call.path, endpoint, methods=[call.method]))
        return Starlette(routes=routes, exception_handlers={HTTPException: _no_such_call})

    # ------------------------------------------------------------------ who may call

    def _admin(self, request: Request) -> str:
        self.gate.admin(bearer_of(request))
        return "admin"

    def _submit(self, request: Request) -> str:
        token = bearer_of(request)
        self.gate.submit(token)
        user = self.gate.user(token)
        return "submit" if user is None else f"user {user.uid}"

    def _own(self, request: Request) -> str:
        """Check the token of the driver of the application that the path names."""
        self.gate.application(bearer_of(request), self.cluster.core.drivers.token_hash(request.path_params["id"]))
        return f"application {request.path_params['id']}"

    def _worker(self, request: Request) -> str:
        """Check the token of the agent of the worker that the path names."""
        self.gate.worker(bearer_of(request), request.path_params["id"])
        return f"worker {request.path_params['id']}"

    def _join(self, request: Request) -> str:
        return self.joining.allow(bearer_of(request), self.wall())

    async def scrape(self, request: Request) -> Response:
        """Answer Prometheus, which names no version of the wire; one call at a time."""
        try:
            self.gate.metrics(bearer_of(request))
        except PaceError as error:
            return _failure(error)
        _count(request, "metrics")
        async with self._scraping:
            text = await metrics(self.cluster, self.clock(), self.wall())
        return Response(text, headers={version.HEADER: version.SPOKEN, "content-type": FORMAT})


def _endpoint(
    answer: Callable[..., Awaitable[object]], allow: Callable[[Request], str] | None, bodies: Bodies, durability: Durability
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a call. `allow` refuses a caller without the right token, before the body is read, and returns
    the owner of the connection; None: any caller is let in. `answer` is given the values that `types_of` names."""
    (kind, names), warned = types_of(answer), list[OtherVersion]()

    async def handle(request: Request) -> Response:
        try:
            version.check_header(request.headers.get(version.HEADER), f"the sender of {answer.__name__}", "this master")
            if allow is not None:
                _count(request, allow(request))
            numbers = {name: _number(request, name) for name in names}
            body = () if kind is None else (await bodies.read(request, kind),)
            answered = await answer(request, *body, **numbers)
            if request.method == "POST":
                await durability.wait()
            return _json(answered)
        except OtherVersion as error:
            if not warned:  # such a peer keeps trying
                warned.append(error)
                log.warning("%s", error)
            return _failure(error)
        except PaceError as error:
            return _failure(error)
        except Exception:
            log.exception("%s %s failed", request.method, path_called(request))
            return _json(Failure(error="the master failed on this call; see its log"), 500)

    return handle


def _count(request: Request, owner: str) -> None:
    """Count the call and its connection for `owner` (`connections`); a call may come without a connection, in a test."""
    request.state.owner = owner
    connection = getattr(request.state, "connection", None)
    if connection is not None:
        connection.is_of(owner)


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
    """Answer a call that this master does not have; a newer master may have it."""
    assert isinstance(error, HTTPException)
    sentence = f"this master (Sparkpace {VERSION}) has no call {request.method} {path_called(request)}"
    return _json(Failure(error=sentence, exit_code=Unavailable.exit_code), error.status_code)

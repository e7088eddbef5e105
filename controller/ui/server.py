"""The live page's HTTP: static files, server-sent events, plans, `set` and `kill`. The data are `poller`'s, access is
`entrance`'s. The master's token never leaves this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.client import MasterClient
from controller.ui.entrance import COOKIE, SESSION_S, Entrance, check_size
from controller.ui.poller import Poller
from controller.wire.command import Change, Failure, PlanRequest
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput, Denied, InfeasibleDeadline, PaceError
from stage_model.units import parse_cores, parse_duration, parse_new_deadline, parse_priority

FOLDER = Path(__file__).parent / "static"
STATIC = {
    "index.html": "text/html; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "uPlot.esm.js": "text/javascript; charset=utf-8",
    "uPlot.min.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "LICENSE.uPlot": "text/plain; charset=utf-8",
}
POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer. Trusted types: a text can never become HTML, even by a faulty script."""
MOST_BODY = 4096
RUNS_S = 5.0
"""Shortest time between two questions for ended runs, for all viewers together."""
STATUS = {Denied: 403, BadInput: 400, InfeasibleDeadline: 409}


class ChangeForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a `set`, as a person typed it; None leaves a value as it is."""

    deadline: str | None = None
    priority: str | None = None
    force: bool = False


class Page:
    """The page's handlers. `client` makes the changes, `printed` is called with each new link. `clock` is monotonic seconds,
    `now` the time in the zone that counts for deadlines without a zone."""

    def __init__(
        self,
        entrance: Entrance,
        poller: Poller,
        client: MasterClient,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        printed: Callable[[str], None],
    ) -> None:
        self.entrance, self.poller, self.client, self.printed = entrance, poller, client, printed
        self.clock, self.now = clock, now
        self._static = {name: (FOLDER / name).read_bytes() for name in STATIC}
        self._runs: tuple[float, object] | None = None
        self._runs_lock, self._savings_lock = asyncio.Lock(), asyncio.Lock()
        self.over = asyncio.Event()
        """Event that ends the streams, so that the server can end."""

    def application(self) -> ASGIApp:
        path = self.entrance.path
        routes = [
            Route(f"{path}enter", self._handler(self.enter, signed_in=False), methods=["GET"]),
            Route(path, self._handler(self.file, signed_in=False), methods=["GET"]),
            Route(f"{path}events", self._handler(self.events), methods=["GET"]),
            Route(f"{path}runs", self._handler(self.runs), methods=["GET"]),
            Route(f"{path}savings", self._handler(self.savings), methods=["GET"]),
            Route(f"{path}plan", self._handler(self.plan), methods=["GET"]),
            Route(f"{path}applications/{{id}}/explain", self._handler(self.explain), methods=["GET"]),
            Route(f"{path}applications/{{id}}/set", self._handler(self.change, changes=True), methods=["POST"]),
            Route(f"{path}applications/{{id}}/kill", self._handler(self.kill, changes=True), methods=["POST"]),
            Route(f"{path}{{name}}", self._handler(self.file, signed_in=False), methods=["GET"]),
        ]
        return _with_headers(Starlette(routes=routes, exception_handlers={HTTPException: _nothing_here}))

    def _handler(
        self, answer: Callable[[Request], Awaitable[Response]], *, signed_in: bool = True, changes: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                self.entrance.check_sender(request.headers, changes=changes)
                if signed_in:
                    try:
                        self.entrance.check_session(request.cookies.get(COOKIE), self.clock())
                    except Denied as error:
                        return _failed(error, 401)
                return await answer(request)
            except PaceError as error:
                return _failed(error)

        return handle

    # ------------------------------------------------------------------ calls

    async def enter(self, request: Request) -> Response:
        """Answer the one-time link. A new link is printed for the next viewer, also where this viewer has come too late."""
        once, now_s = request.query_params.get("once", ""), self.clock()
        try:
            session = self.entrance.enter(once, now_s)
        except Denied as error:
            if self.entrance.is_stale(once, now_s):
                self.printed(self.entrance.new_link(now_s))
            return Response(f"{error}\n", 403, media_type="text/plain")
        response = RedirectResponse(self.entrance.path, 303)
        response.set_cookie(
            COOKIE, session, max_age=int(SESSION_S), path=self.entrance.path, httponly=True, samesite="strict"
        )
        self.printed(self.entrance.new_link(now_s))
        return response

    async def file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in self._static:
            raise HTTPException(404)
        return Response(self._static[name], media_type=STATIC[name])

    async def events(self, request: Request) -> Response:
        """Stream the cluster at each look; with `application=ID` its course, too; with `past` the grants before."""
        return StreamingResponse(
            self._stream(request.query_params.get("application"), "past" in request.query_params),
            media_type="text/event-stream",
        )

    async def _stream(self, application_id: str | None, past: bool) -> AsyncIterator[bytes]:
        with ExitStack() as stack:
            course = None
            if application_id is not None:
                try:
                    course = stack.enter_context(self.poller.watching(application_id)).news()
                except PaceError as error:
                    yield _event("refused", {"error": str(error)})
            look = -1 if self.poller.looks else 0  # the last look at once, if there was one
            if past:
                yield _event("past", self.poller.past())
            while (look := await self._next(look)) > 0:
                yield _event("cluster", self.poller.picture)
                if course is not None:
                    yield _event("course", next(course))

    async def _next(self, look: int) -> int:
        """Wait for the next look; return its number, 0 when the server ends."""
        waits = [asyncio.ensure_future(self.poller.next_look(look)), asyncio.ensure_future(self.over.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return 0 if self.over.is_set() else self.poller.looks
        finally:
            for wait in waits:
                wait.cancel()

    async def runs(self, _: Request) -> Response:
        async with self._runs_lock:
            if self._runs is None or self.clock() - self._runs[0] >= RUNS_S:
                self._runs = (self.clock(), await asyncio.to_thread(self.client.runs))
        return _answer({"runs": self._runs[1]})

    async def savings(self, _: Request) -> Response:
        async with self._savings_lock:  # the master answers one such call at a time, so further ones would only take threads
            return _answer(await asyncio.to_thread(self.client.savings))

    async def plan(self, request: Request) -> Response:
        """Answer with a profile's forecast on the cluster: its curve, the plan for a deadline or a number of cores, and the
        deadline in seconds."""
        said = {name: request.query_params.get(name, "").strip() for name in ("profile", "deadline", "cores")}
        if not said["profile"]:
            raise BadInput("no profile was named; give the name of a job's profile")
        asked = PlanRequest(
            profile=said["profile"],
            deadline_s=parse_duration(said["deadline"], option="deadline") if said["deadline"] else None,
            most_cores=parse_cores(said["cores"], option="cores") if said["cores"] else None,
            curve=True,
        )
        return _answer({"deadline_s": asked.deadline_s, "plan": await asyncio.to_thread(self.client.plan, asked)})

    async def explain(self, request: Request) -> Response:
        """Answer with the part of an application's explanation that the page shows."""
        found = await asyncio.to_thread(self.client.explain, request.path_params["id"])
        return _answer({"largest_stages": found.largest_stages})

    async def change(self, request: Request) -> Response:
        asked = await self._asked(request)
        if asked.deadline is None and asked.priority is None:
            raise BadInput("nothing to set; give a deadline, a priority, or both")
        if asked.priority is not None:
            parse_priority(asked.priority)
        application_id, deadline_s = request.path_params["id"], None
        new = None if asked.deadline is None else parse_new_deadline(asked.deadline, self.now(), option="deadline")
        if new is not None:
            view = await asyncio.to_thread(self.client.application, application_id)
            deadline_s = new.since_submission(view.elapsed_s)
        none = asked.deadline is not None and new is None
        change = Change(deadline_s=deadline_s, no_deadline=none, priority=asked.priority, force=asked.force)
        await asyncio.to_thread(self.client.change, application_id, change)
        return _answer({})

    async def kill(self, request: Request) -> Response:
        await asyncio.to_thread(self.client.kill, request.path_params["id"])
        return _answer({})

    @staticmethod
    async def _asked(request: Request) -> ChangeForm:
        check_size(request.headers, MOST_BODY)
        try:
            return msgspec.json.decode(await request.body(), type=ChangeForm)
        except UNREADABLE as error:
            raise BadInput(f"the body of a set cannot be read ({error}); give deadline, priority, force") from error


def _with_headers(inner: ASGIApp) -> ASGIApp:
    """Put `HEADERS` on all answers, also on the answers that Starlette makes itself."""
    more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async def sends(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        await inner(scope, receive, sends)

    return application


def _event(name: str, data: object) -> bytes:
    """Write one event, whatever is in the data: JSON has no line ends."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


def _answer(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _failed(error: PaceError, status: int | None = None) -> Response:
    known = STATUS.get(type(error), 503)
    return _answer(Failure(error=str(error), exit_code=error.exit_code), status or known)


def _nothing_here(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response("there is nothing here\n", error.status_code, media_type="text/plain")

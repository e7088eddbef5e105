"""Connections to the master, and how long one may keep it waiting: no owner of connections takes the places of others.

A connection counts for its peer's address until a call with a good token says whose it is (`Connection.is_of`). When one of
these owners has too many, or all together, the oldest goes. A peer that says nothing, or reads nothing, for some seconds goes
as well. Calls are `api`'s; so are the time and the size of a body.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("sparkpace.master")

T = TypeVar("T")

MOST = 2048
"""Connections at once. Agents have two each, a driver has one, a command one for a moment."""
MOST_OF_ONE = 256
"""Connections of one address without a token, of one application, worker or kind of token. TLS takes a quarter of a MiB for
each."""
OTHER_FILES = 200
"""Open files that are kept for everything but connections."""
HANDSHAKE_S = 5.0
REQUEST_S = 10.0
"""Time for the whole head of a request, from the connection's beginning or from the last answer; and for reading an answer.
Agents and drivers call every 2 s at least."""
GOODBYE_S = 1.0
RETRY_S = 0.2
WAITING = 512
"""Connections that the kernel keeps for us until they are accepted."""


class Guests(Generic[T]):
    """The guests and their owners, in the order of coming; pure."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self.most, self.most_of_one = most, most_of_one
        self._of: dict[T, str] = {}
        self._groups: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def add(self, one: T, owner: str) -> T | None:
        """Note that `one` belongs to `owner` from now on, and to no other owner. Return the guest that has to go for it, if
        any has: the oldest of that owner, or of the owner with the most."""
        if self._of.get(one) == owner:
            return None
        self.leave(one)
        self._of[one] = owner
        group = self._groups.setdefault(owner, {})
        group[one] = None
        if len(self) > self.most:
            group = max(self._groups.values(), key=len)
        elif len(group) <= self.most_of_one:
            return None
        oldest = next(iter(group))
        self.leave(oldest)
        return oldest

    def leave(self, one: T) -> None:
        owner = self._of.pop(one, None)
        if owner is not None:
            group = self._groups[owner]
            del group[one]
            if not group:
                del self._groups[owner]


class Connection(asyncio.Protocol):
    """One connection from its acceptance on. uvicorn speaks HTTP on it; here it is watched."""

    def __init__(self, server: MasterServer, address: str) -> None:
        self._config, self._guests = server.config, server.guests
        self._http = H11Protocol(server.config, server.server_state, {"connection": self})
        self._over, self._calls = False, 0
        self._welcome: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None  # None until the TLS handshake is over
        self._timer: asyncio.TimerHandle | None = None
        self.is_of(f"address {address}")

    def is_of(self, owner: str) -> None:
        """Count the connection for `owner` from now on."""
        if self._over:
            return
        turned_away = self._guests.add(self, owner)
        if turned_away is not None:
            turned_away.end()

    def end(self) -> None:
        """End the connection at once, whatever was under way."""
        self._over = True
        if self._transport is not None:
            self._transport.abort()
        elif self._welcome is not None:
            self._welcome.cancel()

    def welcome(self, accepted: socket.socket) -> None:
        self._welcome = asyncio.create_task(self._shake_hands(accepted))

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self,
                accepted,
                ssl=self._config.ssl,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=GOODBYE_S,
            )
        except (OSError, asyncio.CancelledError):  # an error of ssl is an OSError; the peer has not said anything
            self._guests.leave(self)
            accepted.close()

    def begin_call(self) -> None:
        """Note that the head of a request is there."""
        self._calls += 1
        self._limit(waits=False)

    def end_call(self) -> None:
        """Note that a request is answered."""
        self._calls -= 1
        self._limit(waits=not self._calls)

    def _limit(self, *, waits: bool) -> None:
        """Let time run while the peer has to do something; doing it bit by bit does not restart the time."""
        if self._timer is not None:
            self._timer.cancel()
        runs = waits and not self._over
        self._timer = asyncio.get_running_loop().call_later(REQUEST_S, self.end) if runs else None

    # ------------------------------------------------------------------ what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._http.connection_made(transport)
        self._limit(waits=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._guests.leave(self)
        self._limit(waits=False)
        self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._http.data_received(data)

    def eof_received(self) -> None:
        self._http.eof_received()

    def pause_writing(self) -> None:
        self._http.pause_writing()
        self._limit(waits=True)

    def resume_writing(self) -> None:
        self._http.resume_writing()
        self._limit(waits=not self._calls)


def _watched(app: ASGIApp) -> ASGIApp:
    """Return the same application, and let each `Connection` know of its calls."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        connection: Connection = scope["state"]["connection"]
        connection.begin_call()
        try:
            await app(scope, receive, send)
        finally:
            connection.end_call()

    return call


def _config(app: ASGIApp, certificate: Path) -> uvicorn.Config:
    config = uvicorn.Config(
        _watched(app),
        log_config=None,
        access_log=False,
        http="h11",
        ws="none",
        lifespan="off",
        timeout_keep_alive=int(REQUEST_S),
        proxy_headers=False,  # the kernel says who calls, not a header
        timeout_graceful_shutdown=2,
        ssl_certfile=certificate,
    )
    config.load()
    assert config.ssl is not None
    config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
    return config


class MasterServer(uvicorn.Server):
    """uvicorn's server of an application with the key and `certificate`, which accepts the connections of `listening` itself:
    `serve(sockets=[])`. `files`: the number that this process may have open. `ending` is called before the server waits for
    the calls under way."""

    def __init__(
        self, app: ASGIApp, certificate: Path, listening: socket.socket, files: int, ending: Callable[[], None]
    ) -> None:
        super().__init__(_config(app, certificate))
        self._listening, self._ending = listening, ending
        self.guests: Guests[Connection] = Guests(max(16, min(MOST, files - OTHER_FILES)), MOST_OF_ONE)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.setblocking(False)
        self._listening.listen(WAITING)
        self._accepting = asyncio.create_task(self._accept())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._accepting.cancel()
        self._listening.close()
        self._ending()
        await super().shutdown(sockets)

    async def _accept(self) -> None:
        """Accept one connection after the other, as an `asyncio.Server` would."""
        loop, troubled = asyncio.get_running_loop(), False
        while True:
            try:
                accepted, address = await loop.sock_accept(self._listening)
            except OSError as error:
                if not troubled:
                    log.error("connections cannot be accepted (%s); tried again", error)
                troubled = True
                await asyncio.sleep(RETRY_S)
                continue
            if troubled:
                log.warning("connections are accepted again")
                troubled = False
            Connection(self, address[0]).welcome(accepted)
            await asyncio.sleep(0)  # accepting a connection may not wait: others have their turn in between

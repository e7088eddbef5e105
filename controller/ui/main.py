"""The process of `sparkpace ui`: listens on loopback, looks at the master, and serves the live page until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import uvicorn

from controller.client import LastingClient, MasterClient
from controller.machine.local_zone import local_zone
from controller.ui.entrance import Entrance
from controller.ui.poller import Poller
from controller.ui.server import Page
from stage_model.errors import Unavailable

ADDRESS = "127.0.0.1"


def new_word() -> str:
    return secrets.token_urlsafe(24)


def serve_page(port: int, lasting: LastingClient, client: MasterClient, printed: Callable[[str], None]) -> None:
    """Serve the page until SIGINT or SIGTERM; `printed` is called with each one-time link. Raise `Unavailable`, also where no
    master answers at the start."""
    client.health()
    with _loopback(port) as listening, suppress(KeyboardInterrupt):
        asyncio.run(_serve(listening, lasting, client, printed))


async def _serve(
    listening: socket.socket, lasting: LastingClient, client: MasterClient, printed: Callable[[str], None]
) -> None:
    entrance, poller = Entrance(listening.getsockname()[1], new_word), Poller(lasting, time.time)
    zone = local_zone(os.environ)
    page = Page(entrance, poller, client, time.monotonic, lambda: datetime.now(zone), printed)
    config = uvicorn.Config(
        page.application(),
        log_config=None,
        access_log=False,  # links are secret until they are used
        ws="none",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=200,
        timeout_graceful_shutdown=2,
    )
    server = _Server(config, page)
    looking = asyncio.create_task(poller.run())
    printed(entrance.new_link(time.monotonic()))
    await server.serve(sockets=[listening])
    looking.cancel()
    with suppress(asyncio.CancelledError):
        await looking
    lasting.close()


class _Server(uvicorn.Server):
    """A server that ends the streams first, because a stream does not end by itself."""

    def __init__(self, config: uvicorn.Config, page: Page) -> None:
        super().__init__(config)
        self._page = page

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._page.over.set()
        await super().shutdown(sockets)


def _loopback(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise Unavailable(f"--port {port} cannot be used ({error.strerror}); give a free port, or 0 for any") from error
    return listening

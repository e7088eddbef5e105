"""A real master's API and the real live page, each served by a thread of this process on loopback."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import uvicorn

from controller.client import LastingClient, MasterClient
from controller.home import Home
from controller.master.access.tokens import Gatekeeper
from controller.master.api import Api
from controller.master.handlers import WaitingAgents
from controller.master.join_calls import JoinCalls
from controller.ui.entrance import Entrance
from controller.ui.main import _loopback, new_word
from controller.ui.poller import Poller
from controller.ui.server import Page
from tests.fakes.cluster import FakeCluster
from tests.fakes.tls import make_ca

PATIENCE_S = 30.0


@contextmanager
def threaded(server: uvicorn.Server, listening: object) -> Iterator[None]:
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))  # type: ignore[list-item]
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


class ServedMaster:
    """A served master. `cluster` is to be changed between calls only: its state belongs to the thread that serves. `calls`
    counts them. Its wall clock is off by `wall_off_s`. Machines that join look for its greeting at `greets_at`."""

    wall_off_s = 0.0

    def __init__(self, path: Path, keep_runs: int = 3, greets_at: str = "127.0.0.1") -> None:
        self.home = Home(path)
        self.home.create()
        make_ca(self.home)
        self.cluster = FakeCluster(path, keep_runs=keep_runs)
        self.calls: list[str] = []
        gate = Gatekeeper(self.home.admin_token(), self.home.submit_token(), self.home.find_agent_token)
        joining = JoinCalls(self.home, greets_at)
        inner = Api(self.cluster.state, gate, joining, WaitingAgents(), lambda: self.cluster.now_s, self._wall).application()

        async def counted(scope, receive, send):  # type: ignore[no-untyped-def]
            self.calls.append(scope["path"])
            await inner(scope, receive, send)

        config = uvicorn.Config(
            counted, log_config=None, ws="none", lifespan="off", ssl_certfile=str(self.home.master_certificate)
        )
        self.server = uvicorn.Server(config)
        self.listening = _loopback(0)
        self.url = f"https://127.0.0.1:{self.listening.getsockname()[1]}"

    def _wall(self) -> float:
        return time.time() + self.wall_off_s

    def client(self) -> MasterClient:
        return MasterClient(self.url, self.home.ca_file, self.home.submit_token())


class ServedPage:
    """A page. `links` are those printed, `now_s` is its monotonic clock and `today` the time of day. It looks at the master
    when the test says so."""

    def __init__(self, master: ServedMaster) -> None:
        self.master, self.links, self.now_s = master, list[str](), 100.0
        self.listening = _loopback(0)
        self.port = self.listening.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.entrance = Entrance(self.port, new_word)
        self.lasting = LastingClient(master.url, master.home.ca_file, master.home.submit_token())
        self.poller = Poller(self.lasting, time.time)
        self.today = datetime(2030, 1, 31, 12, tzinfo=ZoneInfo("Europe/Berlin"))
        self.page = Page(
            self.entrance, self.poller, master.client(), lambda: self.now_s, lambda: self.today, self.links.append
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        inner = self.page.application()

        async def seen(scope, receive, send):  # type: ignore[no-untyped-def]
            self._loop = asyncio.get_running_loop()
            await inner(scope, receive, send)

        self.server = uvicorn.Server(uvicorn.Config(seen, log_config=None, ws="none", lifespan="off"))
        self.links.append(self.entrance.new_link(self.now_s))

    def look(self) -> None:
        assert self._loop is not None, "no call has come yet"
        asyncio.run_coroutine_threadsafe(self.poller.look(), self._loop).result(PATIENCE_S)

    def end_streams(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.page.over.set)

    def call(
        self, path: str, *, method: str = "GET", body: bytes | None = None, host: str | None = None, **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Call the page. `path` is below the secret one, unless it begins with a slash; headers are named with
        underscores."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)) as connection:
            whole = path if path.startswith("/") else self.entrance.path + path
            said = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, whole, body, {"Host": host or self.host, **said})
            answer = connection.getresponse()
            return answer, answer.read()

    def signed_in(self) -> str:
        """Return the cookie of a user who used the last link."""
        answer, _ = self.call(self.links[-1].partition(self.host)[2])
        assert answer.status == 303
        return str(answer.getheader("set-cookie")).partition(";")[0]


class Stream:
    """A stream of server-sent events of one viewer, one by one."""

    def __init__(self, page: ServedPage, cookie: str, query: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=PATIENCE_S)
        self._connection.request("GET", f"{page.entrance.path}events{query}", headers={"Host": page.host, "Cookie": cookie})
        self.answer = self._connection.getresponse()

    def next(self) -> tuple[str, bytes]:
        name, data = self.answer.readline(), self.answer.readline()
        assert self.answer.readline() == b"\n"
        return name.decode().removeprefix("event: ").strip(), data.removeprefix(b"data: ")

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


@contextmanager
def served(path: Path, keep_runs: int = 3) -> Iterator[ServedPage]:
    master = ServedMaster(path, keep_runs)
    with ExitStack() as stack:
        stack.callback(master.cluster.state.close)
        stack.enter_context(threaded(master.server, master.listening))
        page = ServedPage(master)
        stack.callback(page.lasting.close)
        stack.enter_context(threaded(page.server, page.listening))
        stack.callback(page.end_streams)
        yield page

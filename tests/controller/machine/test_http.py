"""Connections that are kept, closed by the server, silent or answered with nonsense. The server is made up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from controller.machine.http import HttpConnection, to_socket

OK = b"HTTP/1.1 200 OK\r\nX-Said: yes\r\nContent-Length: 2\r\n\r\n{}"
LAST = OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")
PATIENCE_S = 30.0


class Server:
    """A server with a list of answers for each connection: after the last one it is closed, None is silence until the client
    hangs up. `requests` are those of all connections, `connected` the clients' ends of these."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.scripts: list[list[bytes | None]] = []
        self.requests: list[bytes] = []
        self.connected: list[HTTPConnection] = []
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def connection(self) -> HttpConnection:
        def connect() -> HTTPConnection:
            made = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
            made.connect()
            self.connected.append(made)
            return made

        return HttpConnection(connect)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection:
                for answer in self.scripts.pop(0):
                    if not (request := connection.recv(1 << 16)):
                        break
                    self.requests.append(request)
                    if answer is None:
                        connection.recv(1)
                    else:
                        connection.sendall(answer)

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(Server()) as made:
        yield made


def status(connection: HttpConnection) -> int:
    answer = connection.ask("GET", "/a?b=1", None, {"X": "y"})
    assert (answer.body, answer.headers.get("x-said")) == (b"{}", "yes")
    return answer.status


def test_a_connection_is_kept(server: Server) -> None:
    server.scripts = [[OK, OK, OK.replace(b"200", b"404")]]
    with closing(server.connection()) as connection:
        assert [status(connection) for _ in range(3)] == [200, 200, 404]
    assert [request.split(b"\r\n")[0] for request in server.requests] == [b"GET /a?b=1 HTTP/1.1"] * 3


@pytest.mark.parametrize("last", [OK, LAST], ids=["without a word", "as it said"])
def test_a_connection_that_the_server_closed_is_opened_again(server: Server, last: bytes) -> None:
    server.scripts = [[last], [last], [OK]]
    with closing(server.connection()) as connection:
        assert [status(connection) for _ in range(3)] == [200, 200, 200]
    assert (len(server.requests), server.scripts) == (3, [])


def test_a_new_connection_that_fails_is_not_tried_again(server: Server) -> None:
    server.scripts = [[b""], [OK]]
    with closing(server.connection()) as connection:
        with pytest.raises(OSError, match="closed connection without response"):
            status(connection)
        assert len(server.requests) == 1
        assert status(connection) == 200


def test_a_silent_server_is_asked_once(server: Server) -> None:
    server.scripts = [[OK, None], [OK]]
    with closing(server.connection()) as connection:
        status(connection)
        [kept] = server.connected
        kept.sock.settimeout(0.05)  # only the silence is cut short
        with pytest.raises(TimeoutError):
            status(connection)
        assert status(connection) == 200
    assert len(server.requests) == 3


@pytest.mark.parametrize("nonsense", [b"\x00\xff\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", OK[:-1]])
def test_what_is_no_answer_is_an_error_of_the_system(server: Server, nonsense: bytes) -> None:
    server.scripts = [[nonsense]]
    with closing(server.connection()) as connection, pytest.raises(OSError, match=r"\w"):
        status(connection)


def test_without_a_server_it_is_one_too(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        to_socket(str(tmp_path / "none"), PATIENCE_S).ask("GET", "/", None, {})

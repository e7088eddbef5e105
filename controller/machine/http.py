"""HTTP requests to a master, to an engine's socket and to web hooks. No redirect is followed, and no proxy of the environment
is used.

They are made with the standard library, because an agent's requests take urllib3 more than twice as long
(docs/decisions/0014-quota-writes.md). An engine's other requests and a Kubernetes API server's have libraries of their own.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from controller.machine.tls import address_of, pinning
from stage_model.errors import Unavailable


class HttpAnswer(NamedTuple):
    """A whole answer. The names of `headers` are looked up in either case."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class HttpConnection:
    """A connection to a server, opened for the first request and kept for the next ones. `connect` returns an open one.
    Several threads must not use it at once."""

    def __init__(self, connect: Callable[[], http.client.HTTPConnection]) -> None:
        self._connect = connect
        self._kept: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> HttpAnswer:
        """Return the answer. Where a kept connection fails, the request is sent once more over a new one, because a server
        closes a quiet connection and may have started again. So asking twice must do no harm.

        Raise `TimeoutError` when the server is silent for too long, another `OSError` when there is no answer."""
        was_kept = self._kept is not None
        try:
            return self._asked(method, path, body, headers)
        except TimeoutError:
            raise
        except OSError:
            if not was_kept:
                raise
        return self._asked(method, path, body, headers)

    def close(self) -> None:
        """Close the connection; a further request opens it again."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _asked(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> HttpAnswer:
        if self._kept is None:
            self._kept = self._connect()
        over = True
        try:
            with _errors():
                self._kept.request(method, path, body, headers)
                response = self._kept.getresponse()
                answer = HttpAnswer(response.status, response.headers, response.read())
            over = response.will_close
            return answer
        finally:
            if over:
                self.close()


def to_master(url: str, ca: Path, timeout_s: float, opens_s: float | None = None) -> HttpConnection:
    """Return a connection to the master at `url`, which has to prove itself by the CA before anything is sent to it: a
    request raises `Unavailable` where another server answers or `ca` cannot be used. The connection must open within
    `opens_s` (None: `timeout_s`).

    Raise `BadInput` for a URL that cannot be a master's."""
    host, port = address_of(url)

    def connect() -> http.client.HTTPConnection:
        connection = http.client.HTTPSConnection(host, port, timeout=opens_s or timeout_s, context=pinning(ca))
        try:
            connection.connect()
            connection.sock.settimeout(timeout_s)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise  # it hung up, as a dying server does
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", "") or error.reason or error
            raise Unavailable(
                f"what answers at {url} is not the master of the CA in {ca} ({why}); no request was sent to it"
            ) from error
        return connection

    return HttpConnection(connect)


def ask_unproven(url: str, path: str, timeout_s: float, most: int) -> HttpAnswer:
    """Return the answer, of `most` bytes at most, that comes from a master's URL: nothing proves that the server is the
    master, so the request has no token. Raise `OSError` without an answer, `BadInput` for a URL that cannot be a master's."""
    host, port = address_of(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    with closing(connection), _errors():
        connection.request("GET", path, headers={"Accept": "application/json"})
        with connection.getresponse() as response:
            return HttpAnswer(response.status, response.headers, response.read(most))


def to_socket(path: str, timeout_s: float) -> HttpConnection:
    """Return a connection to the server at a Unix socket."""

    def connect() -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.settimeout(timeout_s)
            connection.sock.connect(path)
        except OSError:
            connection.close()
            raise
        return connection

    return HttpConnection(connect)


def post_to(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float, trusted: ssl.SSLContext) -> int:
    """Post to a URL over a connection of its own; return the status. The answer's body is not read. Raise `OSError` without
    an answer, `ValueError` for a host's name that no resolver takes."""
    parts = urllib.parse.urlsplit(url)
    path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout_s, context=trusted)
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    with closing(connection), _errors():
        connection.request("POST", path, body, headers)
        with connection.getresponse() as response:
            return response.status


@contextmanager
def _errors() -> Iterator[None]:
    """Turn an answer that breaks HTTP's rules into an `OSError`."""
    try:
        yield
    except http.client.HTTPException as error:
        raise OSError(str(error) or type(error).__name__) from error

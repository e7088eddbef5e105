"""The master's end of TLS for tests: a CA as a master makes it, servers with its certificate, and one without."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import TCPServer

from controller.home import Home
from controller.machine.authority import ALWAYS, certify


def make_ca(home: Home) -> None:
    """Make a CA as a master does at its start."""
    certify(home.ca_key_file, home.ca_file, home.master_certificate, ALWAYS)


def secure(server: TCPServer, home: Home) -> None:
    """Have the server speak TLS from now on, as the master of that home; its CA is made if it does not exist."""
    make_ca(home)
    server.socket = _context(home.master_certificate).wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )


def _context(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


class Squatter:
    """A server that holds a port and keeps every byte that it receives, under TLS with `certificate` if it has one."""

    def __init__(self, certificate: Path | None, port: int = 0) -> None:
        self.listening = socket.create_server(("127.0.0.1", port))
        self.context = None if certificate is None else _context(certificate)
        self.plain, self.secret = b"", b""
        self.port = self.listening.getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            connection.settimeout(10)
            try:
                self._take(connection)
            except OSError:
                pass  # it hung up
            finally:
                connection.close()

    def _take(self, connection: socket.socket) -> None:
        if self.context is None:
            self.plain += connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            self.plain += connection.recv(1 << 16)
            return
        with self.context.wrap_socket(connection, server_side=True) as talking:
            self.secret += talking.recv(1 << 16)


@contextmanager
def squatting(certificate: Path | None, port: int = 0) -> Iterator[Squatter]:
    squatter = Squatter(certificate, port)
    thread = threading.Thread(target=squatter.serve)
    thread.start()
    try:
        yield squatter
    finally:
        squatter.listening.shutdown(socket.SHUT_RDWR)
        squatter.listening.close()
        thread.join()

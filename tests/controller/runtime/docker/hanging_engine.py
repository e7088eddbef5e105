"""A socket in front of the real engine, through which a test can have it hang: requests are taken and never answered,
including those under way. No test stops the engine itself, because others use it."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

CHUNK = 65_536


class HangingEngine:
    """`hang` and `resume` as often as needed. What clients sent meanwhile reaches the engine when it resumes, as the requests
    in a stopped engine's sockets do. `url` is the `base_url` of clients, `requests` every request's first line."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path}"
        self.requests: list[str] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._closed = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def flows(self) -> bool:
        return self._flowing.is_set()

    def hang(self) -> None:
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    def close(self) -> None:
        self._closed = True
        self._flowing.set()
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            engine = _connected()
            self._sockets += [client, engine]
            threading.Thread(target=self._pump, args=(client, engine, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(engine, client, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, to_engine: bool) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                if to_engine:
                    self.requests.append(data.split(b"\r\n", 1)[0].decode(errors="replace"))
                self._flowing.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def _connected() -> socket.socket:
    where = urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
    if where.scheme == "unix":
        engine = socket.socket(socket.AF_UNIX)
        engine.connect(where.path)
        return engine
    assert where.hostname, f"DOCKER_HOST {where.geturl()!r} is neither a socket nor an address"
    return socket.create_connection((where.hostname, where.port or 2375))

"""Clients of a Docker engine, and what their errors mean to the caller."""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import docker
import docker.utils
import requests
from docker.constants import MINIMUM_DOCKER_API_VERSION
from docker.context import Context
from docker.context.config import get_current_context_name
from docker.errors import APIError, DockerException
from docker.utils.config import find_config_file

from controller.runtime.docker.chores import NoAnswer, NotYet
from stage_model.errors import RuntimeFailed, Unavailable, Unusable

REQUEST_TIMEOUT_S = 30
"""Time-out for calls that start containers or build images, which take time."""
QUICK_TIMEOUT_S = 5
"""Time-out for everything else."""


UCRED = struct.Struct("iII")
"""Layout of the kernel's `ucred`."""


DEFAULT_URL = "unix:///var/run/docker.sock"
PODMAN = "Podman Engine"
"""Name of the component by which Podman says what it is, where it answers as a Docker engine."""
LEAST_PODMAN = (5, 1)
"""Version of Podman since which its Docker API can change the limits of a running container."""


@dataclass(frozen=True, slots=True)
class EnginePlace:
    """An engine's address. `settings` are arguments of an API client; `chosen_by` says what names the engine."""

    settings: Mapping[str, Any]
    chosen_by: str

    @property
    def url(self) -> str:
        return str(self.settings.get("base_url") or DEFAULT_URL)

    @property
    def socket_path(self) -> str | None:
        """The engine's socket on this host; None for an engine that is reached in another way."""
        kind, _, path = self.url.partition("://")
        return "/" + path.lstrip("/") if kind in ("unix", "http+unix") else None


def engine_place(environment: Mapping[str, str] = os.environ) -> EnginePlace:
    """Return the engine that the `docker` command uses: DOCKER_HOST names it, else the context that DOCKER_CONTEXT or the
    command's configuration names, else it is the one at the default socket. Raise `Unavailable` for a context that does not
    exist."""
    settings = docker.utils.kwargs_from_env(environment=dict(environment))
    if "base_url" in settings:
        return EnginePlace(settings, "DOCKER_HOST")
    named = environment.get("DOCKER_CONTEXT")
    name = named or get_current_context_name()
    if name == "default":
        return EnginePlace(settings, "the default socket")
    context: Context | None = None
    # the package would look below the working directory, which may belong to any user
    if find_config_file():
        try:
            context = Context.load_context(name)
        except Exception as error:  # the package raises nothing narrower for a file that it cannot read
            raise Unavailable(f"the Docker context {name!r} cannot be read ({error}); run `docker context ls`") from error
    if context is None or not context.Host:
        where = "DOCKER_CONTEXT" if named else "Docker's configuration"
        raise Unavailable(f"{where} names the context {name!r}, which has no engine; choose one with `docker context use`")
    tls = context.tls_cfg.get("docker")
    return EnginePlace({"base_url": context.Host, **({} if tls is None else {"tls": tls})}, f"the Docker context {name!r}")


class EngineClients:
    """Clients of one engine, made when they are first needed: making them takes the engine's version."""

    def __init__(self, base_url: str | None = None) -> None:
        """Find the engine, by default that of the `docker` command. Raise `Unavailable` where `engine_place` does."""
        self.place = EnginePlace({"base_url": base_url}, "its caller") if base_url else engine_place()
        self.settings = self.place.settings
        self._clients: dict[int, docker.APIClient] = {}

    def patient(self) -> docker.APIClient:
        """Return a client. Raise `DockerException` or `OSError` when the engine does not answer, as every use of a client
        does."""
        return self._client(REQUEST_TIMEOUT_S)

    def quick(self) -> docker.APIClient:
        """Return a client like `patient`, with answers within `QUICK_TIMEOUT_S`."""
        return self._client(QUICK_TIMEOUT_S)

    def _client(self, timeout_s: int) -> docker.APIClient:
        found = self._clients.get(timeout_s)
        if found is None:
            made = docker.APIClient(version=self._version(timeout_s), timeout=timeout_s, **self.settings)
            found = self._clients.setdefault(timeout_s, made)
            if found is not made:  # two threads at once
                made.close()
        return found

    def _version(self, timeout_s: int) -> str:
        """Return the engine's own API version. The library can ask for it, too, but leaves its connection open when no engine
        answers."""
        for other in list(self._clients.values()):
            return str(other.api_version)
        with closing(docker.APIClient(version=MINIMUM_DOCKER_API_VERSION, timeout=timeout_s, **self.settings)) as asking:
            return str(asking.version(api_version=False)["ApiVersion"])

    def knock(self) -> None:
        """Raise `NoAnswer` if the engine does not answer."""
        with for_chores("a knock"):
            self.quick().ping()

    def pid(self) -> int | None:
        """Return the process of the engine or of whatever made its socket, as it is numbered here; None if it is not on this
        host or not in sight. The number comes from the kernel."""
        path = self.place.socket_path
        if path is None:
            return None
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.settimeout(QUICK_TIMEOUT_S)
            try:
                knocking.connect(path)
                credentials = knocking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size)
            except OSError:
                return None
        return int(UCRED.unpack(credentials)[0]) or None

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def connect() -> docker.APIClient:
    """Return a client that speaks the engine's own API version. Raise `Unavailable` when no engine answers."""
    engine = EngineClients()
    with there(engine.settings):
        return engine.patient()


@contextmanager
def there(settings: Mapping[str, Any]) -> Iterator[None]:
    """Turn the client's errors into `Unavailable`: where an engine must be."""
    try:
        yield
    except (DockerException, OSError) as error:
        raise Unavailable(
            f"no Docker engine answers at {settings.get('base_url', 'the default socket')} ({error}); "
            "start it (`make engine`) or choose --runtime process"
        ) from error


@contextmanager
def for_callers(what: str) -> Iterator[None]:
    """Turn the client's errors into `RuntimeFailed`: the engine is away, slow, or in trouble; later it may work."""
    try:
        yield
    except (DockerException, OSError) as error:  # requests' errors are OSErrors
        raise RuntimeFailed(f"the Docker engine failed on {what} ({error}); is it running?") from error


@contextmanager
def for_chores(what: str) -> Iterator[None]:
    """Turn the client's errors into those of chores: `NotYet` when the engine refused, `NoAnswer` when it did not answer."""
    try:
        yield
    except APIError as error:
        raise NotYet(f"the Docker engine refused {what} ({error})") from error
    except (DockerException, OSError) as error:
        raise NoAnswer(f"the Docker engine did not answer on {what} ({error})") from error


def docker_version() -> str:
    """Return the version and place of the engine that the `docker` command uses (`engine_place`). Raise `Unavailable` when no
    engine answers there, `Unusable` when the server there does not speak our protocol."""
    engine = EngineClients()
    place = engine.place
    where = f"at {place.url}, by {place.chosen_by}"
    try:
        _knock(place)
        return f"{_named(engine.quick().version(), where)} {where}"
    except (ConnectionError, FileNotFoundError, PermissionError, requests.ConnectionError) as error:
        raise Unavailable(
            f"no Docker engine answers {where} ({_first_line(error)}); start one, or use --runtime process"
        ) from error
    except (DockerException, OSError, KeyError) as error:  # requests' errors are OSErrors
        raise Unusable(
            f"what answers {where} cannot be used ({_first_line(error)}); mend it, or give --runtime process, which does not "
            f"isolate executors"
        ) from error
    finally:
        engine.close()


def _named(said: Mapping[str, Any], where: str) -> str:
    """Return the version that an engine says, with its name if it is not Docker's. Raise `Unusable` for a Podman that is too
    old."""
    version = str(said["Version"])
    if all(part.get("Name") != PODMAN for part in said.get("Components") or ()):
        return version
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < LEAST_PODMAN:
        raise Unusable(
            f"what answers {where} is Podman {version}, and before 5.1 its Docker API cannot change the limits of a running "
            "container; use a newer one or a Docker engine, or give --runtime process, which does not isolate executors"
        )
    return f"Podman {version}, with which Sparkpace was not tried,"


def _knock(place: EnginePlace) -> None:
    """Connect to a local engine's socket once: the docker package leaves its own open where none answers."""
    if place.socket_path is not None:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(10)
            probe.connect(place.socket_path)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__

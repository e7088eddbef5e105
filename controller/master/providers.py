"""The programs that start and end workers when the master asks for some (document 000, vertical autoscaling): `docker` or
`command`.

A worker is an agent that joins under the name it was given. Both are called on a thread of their own, may take long, and may
get a request again that they have carried out. `placement.growth` decides which workers are wanted."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from controller.asks.options import GrowthOptions
from placement.growth import WorkerType
from stage_model.errors import BadInput, RuntimeFailed

COMMAND_S = 120.0
"""A user's script that takes longer has failed."""
NODE_IMAGE = "sparkpace-node"
NODE_RUNTIME = "docker"
"""Runtime of the agents that `--provider docker` starts: their executors are containers of the engine that theirs are of."""
GROWN = "sparkpace.grown"
"""Label of agent containers that were started here: the cluster's id."""
SOCKET = "/var/run/docker.sock"
FOLDERS = ("/data", "/home", "/mnt", "/root", "/srv", "/usr/local", "/sys/fs/cgroup")
"""Folders where Spark, Python environments and input usually are; of /opt, where the image has its own folder, each other
folder. Further ones are named with `--provider-folder`; the environment that the master itself runs in is shown wherever it
lies."""
CONFLICT = 409
STOP_S = 20
"""A stopped agent opens its executors' quotas first."""


class Provider(Protocol):
    def start(self, name: str, kind: WorkerType) -> None:
        """Make an agent of that name and size join; return once it was begun. Raise `RuntimeFailed`."""

    def end(self, name: str) -> None:
        """End the worker; do nothing if it is gone. Raise `RuntimeFailed`."""


def agent_words(kind: WorkerType) -> list[str]:
    """Return size, pieces and labels as options of `sparkpace agent`."""
    words = ["--cores", f"{kind.cores:g}", "--memory", str(kind.memory_mb)]
    words += ["--resources", str(kind.pieces)] if kind.pieces else []
    return [*words, *(["--labels", kind.labels_text] if kind.labels else [])]


@dataclass(frozen=True, slots=True)
class CommandProvider:
    """A user's program: `PROGRAM start NAME CORES MEMORY_MB RESOURCES LABELS` and `PROGRAM end NAME` (RESOURCES and LABELS as
    gpu=1 and zone=a, or empty). Its environment names the master (SPARKPACE_MASTER), the home (SPARKPACE_HOME), where the
    token lies, and the cluster's further options of agents (SPARKPACE_AGENT_OPTIONS, as a shell reads them). Exit code 0:
    begun, or gone."""

    program: Path
    master_url: str
    home: Path
    options: Sequence[str] = ()

    def start(self, name: str, kind: WorkerType) -> None:
        resources = str(kind.pieces) if kind.pieces else ""
        self._run("start", name, f"{kind.cores:g}", str(kind.memory_mb), resources, kind.labels_text)

    def end(self, name: str) -> None:
        self._run("end", name)

    def _run(self, *words: str) -> None:
        environment = {
            **os.environ,
            "SPARKPACE_MASTER": self.master_url,
            "SPARKPACE_HOME": str(self.home),
            "SPARKPACE_AGENT_OPTIONS": shlex.join(self.options),
        }
        what = f"{self.program} {' '.join(words[:2])}"
        try:
            # its output goes nowhere but into memory: a worker that it leaves behind must not hold our log open
            done = subprocess.run(
                [str(self.program), *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_S,
                env=environment,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeFailed(f"{what} did not run: {error}") from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise RuntimeFailed(f"{what} ended with code {done.returncode}: {last[:300]}")


class DockerProvider:
    """An agent in a container of this host's engine, with its size; executors are containers next to it (dockerfiles/node).

    The agent runs as the master's user, with the engine's socket, which is as good as being root; so it is shown what
    executors may be shown: paths in a launch are the host's and must be the same inside.

    The constructor raises `Unavailable` without an engine, `BadInput` without the image."""

    def __init__(self, grown: GrowthOptions, cluster_id: str, master_url: str, home: Path) -> None:
        from controller.runtime.docker.client import connect

        self._client = connect()
        self._grown, self._cluster_id, self._url, self._home = grown, cluster_id, master_url, home
        passed = ("SPARKPACE_BASE_IMAGE", "XDG_CACHE_HOME", "HOME", "TMPDIR")
        self._environment = {name: os.environ[name] for name in passed if name in os.environ}
        if not self._client.images(name=grown.image):
            raise BadInput(
                f"--provider-image {grown.image} is not here; build it from dockerfiles/node/Dockerfile (see there)"
            )

    def start(self, name: str, kind: WorkerType) -> None:
        from docker.errors import APIError, DockerException

        words = [
            *("agent", "--home", str(self._home), "--worker-id", name, "--runtime", NODE_RUNTIME, "--master", self._url),
            *agent_words(kind),
            *self._grown.agent_options,
        ]
        try:
            made = self._client.create_container(
                self._grown.image,
                words,
                name=self._container(name),
                user=f"{os.getuid()}:{os.getgid()}",
                host_config=self._host_config(),
                environment=self._environment,
                labels={GROWN: self._cluster_id},
            )
            self._client.start(made["Id"])
        except APIError as error:
            if error.status_code == CONFLICT:
                return  # it is there already
            raise RuntimeFailed(f"its container did not start: {error.explanation}") from error
        except DockerException as error:
            raise RuntimeFailed(f"its container did not start: {error}") from error

    def _host_config(self) -> dict[str, Any]:
        """Return a configuration with the host's network and pids: executors and drivers are reached by the host's address,
        drivers are known by their pid."""
        writable = {str(self._home), tempfile.gettempdir(), self._environment.get("XDG_CACHE_HOME", ""), SOCKET}
        shown = {*map(str, (*host_folders(), *self._grown.folders)), *filter(None, writable)}
        binds: dict[str, Mapping[str, str]] = {
            path: {"bind": path, "mode": "rw" if path in writable else "ro"} for path in sorted(shown) if Path(path).exists()
        }
        made: dict[str, Any] = self._client.create_host_config(
            network_mode="host",
            pid_mode="host",
            binds=binds,
            init=True,
            security_opt=["no-new-privileges"],
            group_add=[str(Path(SOCKET).stat().st_gid)],
        )
        made["CgroupnsMode"] = "host"
        return made

    def end(self, name: str) -> None:
        from docker.errors import DockerException, NotFound

        try:
            self._client.stop(self._container(name), timeout=STOP_S)
            self._client.remove_container(self._container(name), force=True)
        except NotFound:
            return
        except DockerException as error:
            raise RuntimeFailed(f"worker {name} did not end: {error}") from error

    def _container(self, name: str) -> str:
        return f"sparkpace-agent-{self._cluster_id}-{name}"


def host_folders() -> list[Path]:
    """Return the folders of this host that an agent in a container is always shown."""
    mine = Path("/opt")
    others = [path for path in mine.iterdir() if path.name != "sparkpace"] if mine.is_dir() else []
    own = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1]]
    # the image has a system of its own
    own = [path for path in own if path not in (Path("/usr"), mine / "sparkpace")]
    return [path for path in (*map(Path, FOLDERS), *others, *own) if path.is_dir()]


def make_provider(grown: GrowthOptions, *, cluster_id: str, master_url: str, home: Path) -> Provider:
    """Return the provider asked for. Raise `BadInput`, and `Unavailable` without an engine."""
    if grown.provider == "command":
        assert grown.program is not None, "checked by the command line"
        return CommandProvider(grown.program, master_url, home, grown.agent_options)
    return DockerProvider(grown, cluster_id, master_url, home)


def check_program(program: Path | None) -> Path | None:
    """Return the absolute path of a program. Raise `BadInput` for a path that is no program."""
    if program is None:
        return None
    if not program.is_file() or not os.access(program, os.X_OK):
        raise BadInput(f"--provider-command {program} is not a program; name an executable file")
    return program.absolute()

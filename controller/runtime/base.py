"""The interface of every runtime: to see, pace and remove the executors of one worker, and to start or adopt them.

Implementations: `docker` (real), `process` (embedded default without an engine), `adopt` and `kubernetes` (executors of other
cluster managers), and in memory `tests.fakes.runtime`. One contract suite (`tests/controller/runtime/test_contract.py`) runs
over all. Cores are floats, memory is bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from controller.runtime.claimed_process import ProcessClaim, Serves
from controller.runtime.held import HeldPath

TMP_MB = 256
"""Size of /tmp in a container in MB, unless its operator says otherwise."""
CPU_PERIOD_US = 100_000
"""The cpu-period of every executor (document 004, section 2.3.2)."""


def full_image_name(image: str) -> str:
    """Return the image's name as an engine lists it: with its tag."""
    return image if not image or ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"


class ExecutorKey(NamedTuple):
    """The identity of an executor. An application's id has no slash, an executor's id no dot."""

    application_id: str
    executor_id: str

    @property
    def text(self) -> str:
        """The key in messages and logs."""
        return f"{self.application_id}/{self.executor_id}"

    @property
    def file_stem(self) -> str:
        """The key in the name of a file."""
        return f"{self.application_id}.{self.executor_id}"

    @classmethod
    def parse(cls, text: str) -> ExecutorKey:
        """Return the key with this `text`. Raise `ValueError` for other text."""
        application_id, slash, executor_id = text.partition("/")
        if not slash:
            raise ValueError(f"{text!r:.100} is not an executor's key; give APPLICATION/EXECUTOR")
        return cls(application_id, executor_id)

    @classmethod
    def of_file(cls, path: Path) -> ExecutorKey:
        """Return the key in the name of a file that `file_stem` has named."""
        application_id, _, executor_id = path.stem.rpartition(".")
        return cls(application_id, executor_id)


@dataclass(frozen=True, slots=True)
class Mask:
    """Something empty and read-only in the place of a path inside; `folder`: of a directory, else of a file."""

    path: Path
    folder: bool


@dataclass(frozen=True, slots=True)
class Bind:
    """A host path seen at the same path inside, except for what is masked; binds deeper than a mask lie over it. A runtime
    without a file system of its own can mask nothing. `held` is the file or directory that was checked and is to be seen
    there, whatever the path names by then (None: only the agent can change that); `firm`: the bind's own path can lead
    nowhere else."""

    path: Path
    writable: bool = False
    masks: tuple[Mask, ...] = ()
    held: HeldPath | None = field(default=None, compare=False)
    firm: bool = field(default=True, compare=False)


OWN_ADDRESS = "{address}"
"""Placeholder among the arguments: an executor in its application's own network finds its address in its place."""


@dataclass(frozen=True, slots=True)
class OwnNetwork:
    """The network of an application on this host, only for its executors. From there they reach the driver's TCP `ports` at
    its IPv4 `address` on this host (none: they are not known) and the outside; `closed`: not the outside."""

    address: str
    ports: tuple[int, ...]
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything needed to start one executor. `argv[0]` is the program; stdout and stderr go to files in `log_dir`. Without
    a `network` the executor has the host's, as it always has in a runtime without networks. `umask` holds the permissions
    that its files lack (None: the default of the runtime). `groups` are its supplementary groups."""

    key: ExecutorKey
    argv: Sequence[str]
    environment: Mapping[str, str]
    binds: Sequence[Bind]
    working_dir: Path
    log_dir: Path
    memory_bytes: int
    cores: float
    uid: int
    gid: int
    groups: Sequence[int] = ()
    umask: int | None = None
    image: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    network: OwnNetwork | None = None


@dataclass(frozen=True, slots=True)
class Adoption:
    """An executor that another service has started: its process as the executor claims it, and what that process must be.
    `host` is the executor's address as its driver knows it; the executor has `slots`. `watched`: nothing is written and no
    signal sent for it, not now and not when it is let go."""

    key: ExecutorKey
    claim: ProcessClaim
    serves: Serves
    cores: float
    host: str = ""
    slots: int = 1
    watched: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A program that is run to its end as its submitter; binds, cores and memory as far as the runtime has them for plain
    programs. None for `cores` or `memory_bytes`: no limit."""

    argv: Sequence[str]
    uid: int
    gid: int
    binds: Sequence[Bind] = ()
    image: str | None = None
    cores: float | None = None
    memory_bytes: int | None = None
    timeout_s: float = 60.0


class JavaProgram(NamedTuple):
    """An executor's `argv[0]` in `program`; `identity` differs if it might be another Java."""

    program: str
    identity: str


@dataclass(frozen=True, slots=True)
class TrafficPlace:
    """The place where the kernel counts and limits what a running executor reads, writes, receives and sends. `pid` is its
    first process; `io` the directory of its control group for block devices (None: it has none); `bridge` the interface of
    its application's own network on this host, empty if it has the host's network. `watched`: nothing is ever written
    there."""

    pid: int
    io: Path | None
    bridge: str = ""
    watched: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """The state of an executor now. `quota_cores` (None: no quota; never inf, which JSON cannot say) and
    `memory_limit_bytes` are read back, not remembered; `cpu_s` counts since the executor's start; `counted` false: the
    runtime cannot count CPU, so the executor's own figure is used. `throttled_s`: seconds since its start that its quota held
    its threads back, summed over CPUs (`Usage`); None: not known. `memory_limit_bytes` None: no limit holds its memory back,
    and no runtime can set one afterwards. `node`: the node whose cores the executor shares, where there are several nodes.
    `remark`: what its operator should know, `risk`: its user, too. `most_cores`: no quota is written above it, because the
    executor's owner allows no more; `least_cores`: none below it, because so much is set aside for the executor.
    `ordered_cores`: the newest quota where a server puts it into force some time later. `watched`: nothing is ever written
    for it."""

    key: ExecutorKey
    running: bool
    quota_cores: float | None
    cpu_s: float
    memory_bytes: int
    exit_code: int | None = None
    reason: str = ""
    pid: int | None = None
    memory_limit_bytes: int | None = None
    remark: str = ""
    risk: str = ""
    counted: bool = True
    node: str = ""
    most_cores: float = math.inf
    throttled_s: float | None = None
    least_cores: float = 0.0
    ordered_cores: float | None = None
    watched: bool = False

    @property
    def newest_quota(self) -> float | None:
        """The newest quota in cores: the ordered one, or, if none was ordered, the one in force; None: no quota."""
        return self.quota_cores if self.ordered_cores is None else self.ordered_cores


class Runtime(Protocol):
    """The executors of one worker, seen and paced. Only those of the runtime's own cluster id and worker id are ever seen or
    touched. How they start: `Starter`, `Adopter`. Methods that only some runtimes need have a default here."""

    def observe(self) -> dict[ExecutorKey, Observed]:
        """Return all executors of this worker, ended ones included until removed. The runtime waits for no engine once an
        engine has answered, in this life of the agent or an earlier one; so facts that only an engine knows may be a little
        old."""

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        """Set the CPU quota; return False when the executor is gone (ordinary, not an error). `cores` >= 0.01. The quota
        holds at once, except where only an engine can set it: then once the engine has.

        Several threads may call it at once, each for another executor.
        """

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:
        """Set the memory limit, without swap; return False when the executor is gone, or has no limit that could be changed.

        `memory_bytes` >= 16 MiB. Raises `RuntimeFailed` when the executor uses more now: lowering must never kill it.
        """

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:
        """End an executor (SIGTERM, after `grace_s` SIGKILL), or let an adopted one go; do nothing if it is gone. The
        executor stays visible until `remove`.

        A second call sends SIGTERM again, because a container that has only begun may not have received it, and does not
        prolong the grace.
        """

    def remove(self, key: ExecutorKey) -> None:
        """Forget an ended executor and free what it held, an engine's part in the background. Raise `RuntimeFailed` while the
        executor runs."""

    def place(self, key: ExecutorKey) -> TrafficPlace | None:  # noqa: ARG002 - an implementation looks
        """Return where the kernel counts a running executor's traffic; None if that is not seen from here. Any thread may
        call it."""
        return None

    def held_back(self) -> dict[ExecutorKey, str]:
        """Return the running executors that may not have as much as their newest quota yet, because a server has not accepted
        it, each with the reason as a sentence."""
        return {}

    def alive(self) -> bool:
        """Return True if the runtime's work in the background goes on: a watchdog's question."""

    def close(self) -> None:
        """Let go of connections; executors go on."""


class Starter(Runtime, Protocol):
    """A runtime that starts its executors itself."""

    def start(self, launch: Launch) -> None:
        """Start the executor, or do nothing if that key already runs. Raise `RuntimeRefused` when it can never start here
        (missing image, forbidden path), `RuntimeFailed` when a later try may work."""

    def java(self, java_home: str, image: str | None) -> JavaProgram:
        """Return the Java of executors in `image`; `java_home` is the driver's. Raise as `start` does."""

    def run_program(self, program: Program) -> str:
        """Run the program to its end and return what it wrote to standard output; one at a time.

        Raises `RuntimeRefused` when the program does not run there, fails or takes too long; `RuntimeFailed` when that cannot
        be found out.
        """

    def images(self) -> tuple[str, ...]:
        """Return the names of the executor images that are here already; none where executors have no images."""


class Adopter(Runtime, Protocol):
    """A runtime whose executors other services start."""

    def adopt(self, adoption: Adoption) -> None:
        """Pace the executor from now on, or do nothing if it is paced already. Raise `RuntimeRefused` for an executor that is
        not what it says or cannot be paced here, `RuntimeFailed` when a later try may work."""

"""Table of the runtimes: one row each. All that other modules must know of a runtime is a field of its row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from controller.runtime.base import TMP_MB, Adopter, Starter
from controller.runtime.networks import NetworkPool
from stage_model.errors import Unavailable, Unusable


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a runtime's executors: a cluster on one worker. `folder` is the agent's own; `image` the name of a
    container image (None: the runtime's own); `pool` is where networks of applications come from, where there are any;
    `tmp_mb` of /tmp in a container; `signals`: executors that cannot be paced otherwise may be stopped and continued;
    `namespace`: Kubernetes' (None: all)."""

    cluster_id: str
    worker_id: str
    folder: Path
    image: str | None = None
    pool: NetworkPool | None = None
    tmp_mb: int = TMP_MB
    signals: bool = False
    namespace: str | None = None


class RuntimeModule(Protocol):
    """Functions that a row's module offers."""

    def check(self, namespace: str | None) -> str:
        """Return what was found of the thing that the runtime needs on this machine; empty if it needs nothing. Raise
        `Unavailable` where the runtime cannot work. `namespace`: as in `Owner`."""
        ...

    def make(self, owner: Owner) -> Starter | Adopter:
        """Make the runtime. Raise `Unavailable` when it cannot work and has never run here."""
        ...

    def end_all(self, owner: Owner) -> int:
        """End and remove the executors that outlived their agent; return how many there were. Raise `PaceError` for executors
        that cannot be removed: the next call tries again."""
        ...

    def driver_address(self) -> str:
        """Return an address of this machine for drivers that executors in networks of their own reach. Raise `Unavailable`
        without such an address. Only the modules of rows with `networks` offer this function."""
        ...


@dataclass(frozen=True, slots=True)
class RuntimeRow:
    """The facts about one runtime that others need."""

    name: str
    module: str
    """Module with the functions of `RuntimeModule`, imported when used: an agent carries only its own runtime's libraries."""
    starts: bool = True
    """True if the runtime starts its executors (`Starter`), False if other cluster managers do (`Adopter`)."""
    mounts: bool = False
    """True if executors see only those files of the host that are mounted for them."""
    networks: bool = False
    """True if each application can have a network of its own."""
    recorded: bool = True
    """True if records are enough to end executors that outlived their agent; else an engine has to be there for that."""
    inside: bool = False
    """True if executors are processes next to the agent: a memory limit of a container around it is theirs, too."""
    everywhere: bool = False
    """True if executors may be on any machine, not only on the agent's; the agent's cores are then those of one node."""
    looks_for: str = ""
    """Name of what `check` looks for on this machine, for `sparkpace doctor`; empty if `doctor` does not show that."""
    limits: str = "executors are as their cluster manager starts them"
    """Limits of executors besides their memory and quota, for `sparkpace doctor`."""
    prepares: str = "executors' Java"
    """Name of what `Starter.java` makes or finds, to show while it is made."""
    paces: str = ""
    """Name of the executors that other cluster managers start, for a person."""
    spark_master: str = ""
    """Example of a Spark master whose executors those are."""

    def load(self) -> RuntimeModule:
        return cast(RuntimeModule, import_module(self.module))

    def check(self, namespace: str | None = None) -> str:
        """Return what `RuntimeModule.check` returns, and raise what it raises."""
        return self.load().check(namespace)

    def own_networks(self, network: str) -> bool:
        """Return True if each application has a network of its own under the option `--network`."""
        return self.networks and network != "host"


RUNTIMES: Mapping[str, RuntimeRow] = {
    row.name: row
    for row in (
        RuntimeRow(
            "docker",
            "controller.runtime.docker.runtime",
            mounts=True,
            networks=True,
            recorded=False,
            looks_for="Docker engine",
            limits="containers: own file system (read-only), bounded /tmp, processes, open files, memory and output",
            prepares="executor image",
        ),
        RuntimeRow(
            "process",
            "controller.runtime.process.runtime",
            inside=True,
            limits="only CPU, core dumps, output and the local directory are bounded",
        ),
        RuntimeRow(
            "adopt",
            "controller.runtime.adopt.runtime",
            starts=False,
            paces="executors of this machine",
            spark_master="spark://HOST:PORT",
        ),
        RuntimeRow(
            "kubernetes",
            "controller.runtime.kubernetes.runtime",
            starts=False,
            everywhere=True,
            paces="Spark executors' pods of a whole Kubernetes cluster",
            spark_master="k8s://URL",
        ),
    )
}
"""Rows by name. `--runtime auto` takes the first row that starts executors and works on this machine."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A runtime that works here. `why_not_better` says why the runtimes before it in the table were not taken; it is empty if
    this runtime is the first or was asked for."""

    name: str
    why_not_better: str = ""


def choose_runtime(wanted: str, namespace: str | None = None) -> Choice:
    """Return the runtime asked for; for "auto" the first one that works here. Raise `Unavailable` if that does not work.
    Raise `Unusable` with "auto" if a better runtime is here and cannot be used, because an engine that is too old or too new
    must not cost isolation."""
    if wanted != "auto":
        RUNTIMES[wanted].check(namespace)
        return Choice(wanted)
    *others, last = (row for row in RUNTIMES.values() if row.starts)
    reasons = []
    for row in others:
        try:
            row.check()
        except Unusable:
            raise
        except Unavailable as error:
            reasons.append(str(error))
            continue
        return Choice(row.name, "; ".join(reasons))
    last.check()
    return Choice(last.name, "; ".join(reasons))

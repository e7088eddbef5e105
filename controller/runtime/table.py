"""Table of the runtimes by name. A new runtime is a module that offers what `RuntimeModule` says, and a row below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from controller.runtime.base import TMP_MB, Adopter, Starter
from controller.runtime.networks import NetworkPool
from stage_model.errors import Unavailable, Unusable

RUNTIMES: Mapping[str, str] = {
    "docker": "controller.runtime.docker.runtime",
    "process": "controller.runtime.process.runtime",
    "adopt": "controller.runtime.adopt.runtime",
    "kubernetes": "controller.runtime.kubernetes.runtime",
}
"""Modules, imported when used: an agent carries only the libraries of its own runtime."""
STARTING = ("docker", "process")
"""Runtimes that start executors themselves: `auto` takes the first one that works on this machine."""
MOUNTING = ("docker",)
"""Runtimes whose executors see only those files of the host that are mounted for them."""
ADOPTING = tuple(name for name in RUNTIMES if name not in STARTING)
"""Runtimes whose executors other cluster managers start."""
EVERYWHERE = ("kubernetes",)
"""Runtimes of `ADOPTING` whose executors may be on any machine, not only on the agent's."""


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

    def check(self) -> None:
        """Raise `Unavailable` where the runtime cannot work on this machine."""

    def make(self, owner: Owner) -> Starter | Adopter:
        """Make the runtime. Raise `Unavailable` when it cannot work and has never run here."""
        ...

    def driver_address(self) -> str:
        """Return an address of this machine for drivers, which executors reach that have networks of their own where there
        are any. Raise `Unavailable` without such an address."""
        ...

    def end_all(self, owner: Owner) -> int:
        """End and remove the executors that outlived their agent; return how many there were. Raise `PaceError` for those
        that cannot be removed: the next call tries again."""
        ...


def runtime_module(name: str) -> RuntimeModule:
    return cast(RuntimeModule, import_module(RUNTIMES[name]))


@dataclass(frozen=True, slots=True)
class Choice:
    """A runtime that works here. `why_not_better` says why the runtimes before it in the table were not taken; it is empty if
    this runtime is the first or was asked for."""

    name: str
    why_not_better: str = ""


def choose_runtime(wanted: str) -> Choice:
    """Return the runtime asked for; for "auto" the first one that works here. Raise `Unavailable` if that does not work.
    Raise `Unusable` with "auto" if a better runtime is here and cannot be used, because an engine that is too old or too new
    must not cost isolation."""
    if wanted != "auto":
        runtime_module(wanted).check()
        return Choice(wanted)
    *others, last = STARTING
    reasons = []
    for name in others:
        try:
            runtime_module(name).check()
        except Unusable:
            raise
        except Unavailable as error:
            reasons.append(str(error))
            continue
        return Choice(name, "; ".join(reasons))
    return Choice(choose_runtime(last).name, "; ".join(reasons))

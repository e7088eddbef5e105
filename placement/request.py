"""An executor that is to be placed, and the questions about it that placement asks the memory manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from placement.data_wait import Patience
from placement.labels import Requirement
from placement.resources import NOTHING, ResourceSet
from placement.topology import Location
from placement.worker import WorkerState


class Memory(Protocol):
    """The memory manager's answers about one executor; sizes are MiB.

    Placement asks these questions and knows no rule of memory; the memory manager (`master_memory.room.Newcomer`) answers
    them and knows nothing of placement. So either can be changed, or put to another use (the simulator of document 000
    answers for CPU, too), without the other."""

    @property
    def least_mb(self) -> int:
        """The smallest container that the executor could have on any worker."""

    def ever(self, worker: WorkerState) -> bool:
        """Check that the executor would fit the worker by itself."""

    def now(self, worker: WorkerState) -> bool:
        """Check that the executor may join the executors on the worker; false where it would not even fit by itself."""

    def squeezed(self, worker: WorkerState) -> tuple[str, ...] | None:
        """Return the keys of executors of lower priority that are brought down to their floor if the executor joins; None
        where that is not enough."""

    def lacking(self, workers: Sequence[WorkerState]) -> str:
        """Return what memory lacks on these workers, as one clause for people."""


@dataclass(frozen=True, slots=True)
class Request:
    """An executor that is to be placed.

    `cores` is its planned peak; `needs_peak`: its deadline needs all of them, so that a smaller worker has no room. `policy`
    chooses among the workers that fit and are best located. `prefer` are the hosts of its input with their share of it (they
    sum to 1), `preferred_locations` the same with where these are; `patience` says how it waits for one of these hosts (None:
    it does not); `local` is the driver's host. `evict`: it may have executors of lower priority ended. `ahead` is the number
    that wait and come first; `kept` are the workers that these could use sooner or later (`plan.ever_fitting`), or where room
    is being made for one of them."""

    application_id: str
    priority: int
    cores: float
    policy: str = "spread"
    pieces: ResourceSet = NOTHING
    ports: tuple[int, ...] = ()
    labels: tuple[Requirement, ...] = ()
    group: str = ""
    apart: frozenset[str] = frozenset()
    image: str = ""
    prefer: Mapping[str, float] = field(default_factory=dict)
    preferred_locations: tuple[tuple[str, Location, float], ...] = ()
    patience: Patience | None = None
    local: str = ""
    evict: bool = False
    ahead: int = 0
    kept: frozenset[str] = frozenset()
    needs_peak: bool = False

    @property
    def waits_for_data(self) -> bool:
        """True if the application waits for a worker that has its input."""
        return self.patience is not None and self.patience.under_way is not None

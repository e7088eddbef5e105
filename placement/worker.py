"""A worker as placement sees it, with the executors on it.

CPU never makes an executor wait: `cores` of an occupant are the peak that is planned for it, and count only for choosing
among workers (`scores.has_room`); the quota is squeezed instead. Memory is MiB, and the memory manager decides on it
(`request.Memory`). Pieces (gpu and what workers advertise) and ports make an executor wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, field

from placement.resources import NOTHING, SCALE, Held, Pool, ResourceSet
from placement.topology import NOWHERE, Location


@dataclass(frozen=True, slots=True)
class Occupant:
    """An executor on a worker, running or promised to it: `cores` is its planned peak, `least_mb` the smallest container it
    runs in, `held` the pieces it has. `group` is the group that others may want to be apart from, `apart` are the groups that
    the executor shuns."""

    key: str
    application_id: str
    priority: int
    cores: float
    least_mb: int
    held: Mapping[str, Held] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    group: str = ""
    apart: frozenset[str] = frozenset()
    ending: bool = False
    """True if the executor is being ended: its pieces and ports are taken until it is gone, all else is free."""
    stays: bool = False
    """True if the executor is never ended for another one."""
    shares: bool = False
    """True if it has no deadline: such executors of a priority share cores in proportion to their peaks."""


@dataclass(slots=True, eq=False)
class WorkerState:
    """One worker. The worker's offer is fixed; occupants come and go, and sums over them are kept, so that a decision among
    thousands of workers looks at few of their executors."""

    worker_id: str
    _: KW_ONLY
    cores: float
    memory_mb: int
    host: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    pieces: ResourceSet = NOTHING
    location: Location = NOWHERE
    images: Collection[str] = ()
    pressed: bool = False
    """True while its machine is short of memory or disk, so that executors there make room."""
    occupants: dict[str, Occupant] = field(init=False, default_factory=dict)
    by_application: dict[str, int] = field(init=False)
    """Number of executors that each application has here."""
    ports: set[int] = field(init=False)
    shunned: set[str] = field(init=False)
    """Groups that an occupant wants to be apart from."""
    free_mb: int = field(init=False)
    """MiB free with all occupants at their least."""
    cores_of: dict[int, float] = field(init=False)
    """Planned cores by priority; the cores of executors that do not run yet are the load among them."""
    shared_of: dict[int, float] = field(init=False)
    """The part of them that is planned for executors which share."""
    pools: dict[str, Pool] = field(init=False)

    def __post_init__(self) -> None:
        self._sum()

    def occupy(self, occupants: Iterable[Occupant]) -> None:
        """Make these the only occupants from now on."""
        self.occupants = {occupant.key: occupant for occupant in occupants}
        self._sum()

    def add(self, occupant: Occupant) -> None:
        """Add an executor; it replaces an executor of the same key."""
        self.occupants[occupant.key] = occupant
        self._sum()

    def remove(self, key: str) -> None:
        """Remove an executor that is gone; nothing happens if it was not here."""
        if self.occupants.pop(key, None) is not None:
            self._sum()

    def without(self, keys: Collection[str]) -> WorkerState:
        """Return the same worker as if the occupants with these keys had gone."""
        left = copy(self)
        left.occupy(occupant for key, occupant in self.occupants.items() if key not in keys)
        return left

    def _sum(self) -> None:
        """Compute every sum again, so that no sum drifts: a worker has few executors."""
        self.by_application, self.cores_of, self.shared_of = {}, {}, {}
        self.ports, self.shunned = set(), set()
        self.free_mb = self.memory_mb
        held: dict[str, list[Held]] = {name: [] for name in self.pieces}
        for occupant in self.occupants.values():
            self.by_application[occupant.application_id] = self.by_application.get(occupant.application_id, 0) + 1
            self.ports.update(occupant.ports)
            self.shunned |= occupant.apart
            self.free_mb -= occupant.least_mb
            self.cores_of[occupant.priority] = self.cores_of.get(occupant.priority, 0.0) + occupant.cores
            if occupant.shares:
                self.shared_of[occupant.priority] = self.shared_of.get(occupant.priority, 0.0) + occupant.cores
            for name, pieces in occupant.held.items():
                held.setdefault(name, []).append(pieces)
        self.pools = {name: Pool(self.pieces[name] // SCALE, taken) for name, taken in held.items()}

    def free_cores(self, priority: int) -> float:
        """Return the cores that are not planned for executors which would not be squeezed for one of that priority:
        preemption at run time ignores lower-priority use when placing (document 003). It is below 0 where more are planned
        than the worker has."""
        return self.cores - sum(cores for other, cores in self.cores_of.items() if other >= priority)

    def share(self, priority: int, cores: float) -> float:
        """Return the cores that an executor of that priority would have if it had no deadline and could use `cores`: the
        cores that are free, or its part of what other executors leave to those without a deadline, which agents divide in
        proportion (`arbitrate`). It is below 0 where more is planned for these others than the worker has."""
        free, shared = self.free_cores(priority), self.shared_of.get(priority, 0.0)
        return max(free, (free + shared) * cores / (shared + cores)) if shared else free

    def free_pieces(self, name: str) -> int:
        """Return the free units of a resource."""
        pool = self.pools.get(name)
        return pool.free_units if pool else 0

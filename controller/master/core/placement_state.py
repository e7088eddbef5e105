"""The executors that an application wants, what keeps it from them, and what is worked out for its placement. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.wire.driver import ExecutorWish
from master_memory.room import Newcomer
from placement.growth import WorkerType
from placement.request import Request
from placement.worker import WorkerState
from stage_model.forecast.estimate import ApplicationEstimate


@dataclass(frozen=True, slots=True)
class PlannedCores:
    """The cores planned for one executor, and what they were worked out from (`placing`)."""

    estimate: ApplicationEstimate | None
    deadline_s: float | None
    cores: float


@dataclass(frozen=True, slots=True)
class CachedRequest:
    """The request of an application to a worker for executors of a resource profile, before other applications are looked at,
    kept until the application or a worker changes (`placing`). `shape` is what decides on `ever`, the workers that will do;
    `passes` says whether a worker has now all that the request asks for except memory."""

    request: Request
    memory: Newcomer
    passes: Callable[[WorkerState], bool]
    shape: Hashable
    ever: frozenset[str]


@dataclass(frozen=True, slots=True)
class FurtherWorkers:
    """Further workers that a deadline, `deadline_s` after submission, asks for: of `kind`, until `total` workers could take
    an executor. `waiting` is the reason to wait for them, for people.

    `awaited`: the workers that the deadline counts on and that have not joined, in the order in which they come; empty once a
    worker has failed to come. They are expected at `comes_s` (monotonic). Earlier deadlines do not wait for `own` of them.
    `there` are the workers that could take an executor at the last look."""

    kind: WorkerType
    total: int
    deadline_s: float | None
    waiting: str
    awaited: tuple[WorkerType, ...]
    comes_s: float
    own: int
    there: frozenset[str]


@dataclass(slots=True)
class PlacementState:
    """The part of an application that its placement rests on. `wanted` is what Spark asks for, by resource profile;
    `unwanted` are executors that it has killed."""

    wanted: dict[str, ExecutorWish] = field(default_factory=dict)
    unwanted: set[str] = field(default_factory=set)
    data: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the input by host, as the driver reported them."""
    planned_cores: PlannedCores | None = None
    requests: dict[str, CachedRequest] = field(default_factory=dict)
    """Requests by resource profile, until the application or a worker changes (`Changes.application`)."""
    infeasible: WorkerType | None = None
    """The worker that the application would need, where none is large enough or has what it asks for."""
    further: FurtherWorkers | None = None
    """The further workers that are waited for, because the deadline needs them. A restart of the master forgets them."""
    further_judged_s: float = -math.inf
    """Time at which further workers were last looked for, or had come."""
    unhelped_s: float | None = None
    """The deadline, in seconds after submission, of which the user was informed that no further worker is started for it."""
    evicting: set[str] = field(default_factory=set)
    """Workers on which other executors end for the application. Each worker is kept for the application until it has an
    executor there, or wants or may have no further executor."""
    claimed: set[str] = field(default_factory=set)
    """Workers that have joined for its deadline, or because it fits on no other. Each is kept for the application, except
    from higher priorities, as long as a worker of `evicting` is. A restart of the master forgets them."""
    over_share: bool = False
    """True if its user has no memory left for a further executor of it."""
    waiting: str = ""
    """The reason why it has no executor, or lacks some, for people; empty without one."""
    waited_for: str = ""
    """The last reason to wait before its first task. A restart of the master forgets it."""
    lost: int = 0
    """Number of executors that failed."""
    failures_in_a_row: int = 0

    @property
    def awaited(self) -> tuple[WorkerType, ...]:
        """The workers that its deadline counts on and that have not joined yet."""
        return () if self.further is None else self.further.awaited

    def keep_none(self) -> None:
        """Let others have the workers that are kept for the application."""
        self.evicting.clear()
        self.claimed.clear()

    def keep_no_more(self, worker_id: str) -> None:
        """Keep this worker no longer, because the application has an executor there."""
        self.evicting.discard(worker_id)
        self.claimed.discard(worker_id)

    @property
    def first_wish(self) -> tuple[str, ExecutorWish]:
        """The resource profile and the wish that count for the application's capacity (`Workers.capacity`)."""
        return next(iter(self.wanted.items()), ("0", ExecutorWish()))

    @property
    def wants_any(self) -> bool:
        """True if Spark wants an executor."""
        return any(wish.count is None or wish.count > 0 for wish in self.wanted.values())

    def satisfied_by(self, have: Mapping[str, int]) -> bool:
        """Return True if Spark wants no more executors than there are, by resource profile."""
        return all(wish.count is not None and have[name] >= wish.count for name, wish in self.wanted.items())

    def fail(self, *, steady: bool) -> None:
        """Count an executor that failed. The failure of a `steady` executor, which had run for long, begins a new row."""
        self.lost += 1
        self.failures_in_a_row = 1 if steady else self.failures_in_a_row + 1

    def shares(self, preferred: Sequence[str]) -> dict[str, float]:
        """Return each host's share of the input: as Hadoop reported it, else the `preferred` hosts, alike."""
        whole = sum(self.data.values())
        if whole:
            return {host: size / whole for host, size in self.data.items()}
        return {host: 1 / len(preferred) for host in preferred}

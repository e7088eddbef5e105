"""The memory limits and orders that a period of a worker needs, in the safe order: the pure decision about running executors.

The master says what off-heap budget each executor should have; this module gets there without a container ever being smaller
than the memory in use in it, and without the limits on this worker adding up to more than it offers: growing = limit, then
order; shrinking = order, acknowledgement, then limit; a start only where there is room for it. All sizes are MiB. Not here:
how the budgets are divided (`split`), files and runtime (`controller.agent.executors.resizing`). See
docs/decisions/0012-elastic-memory.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Key = tuple[str, str]
"""Application and executor of a container."""
MARGIN_MB = 32
"""MiB by which a limit stays above the memory in use: under a limit equal to that, the next allocation would fail."""
STEP_MB = 64
"""Smallest move, in MiB, on the way to a target: smaller ones wait for more, because each costs a write through the
engine."""


@dataclass(frozen=True, slots=True)
class BudgetOrder:
    """The last order written. `number` grows with every order, so that an answer to an older order is known as such."""

    number: int
    budget_mb: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The executor's answer: the number of the order it looked at, its budget now, and what tasks and cache hold of it."""

    number: int
    budget_mb: int
    execution_mb: int = 0
    storage_mb: int = 0


@dataclass(frozen=True, slots=True)
class Container:
    """One executor as the period finds it.

    `fixed_mb` is what the executor needs besides elastic off-heap memory, of which `floor_mb` is the least (None: it has no
    such memory, and nothing is ordered). `wanted_mb` is the master's word (None: the master says nothing). `limit_mb` is read
    back while the executor runs (None: nothing is enforced there), `used_mb` what it uses now. `begun_mb`: the limit it is
    being started with.
    """

    key: Key
    fixed_mb: int
    floor_mb: int | None = None
    wanted_mb: int | None = None
    running: bool = False
    limit_mb: int | None = None
    used_mb: int = 0
    begun_mb: int | None = None
    order: BudgetOrder | None = None
    answer: Answer | None = None

    @property
    def shrinks(self) -> bool:
        """True if the executor is still above what it was ordered."""
        return self.order is not None and self.answer is not None and self.answer.budget_mb > self.order.budget_mb

    @property
    def target_mb(self) -> int | None:
        """The budget to reach; None: the budget stays as it is."""
        return None if self.floor_mb is None or self.wanted_mb is None else max(self.floor_mb, self.wanted_mb)

    @property
    def claim_mb(self) -> int:
        """The memory that the executor may hold of the worker now: its limit, or without one what it was ordered or has not
        given up yet."""
        if not self.running:
            return self.begun_mb or 0
        if self.limit_mb is not None:
            return self.limit_mb
        return self.fixed_mb + max(self.order.budget_mb if self.order else 0, self.answer.budget_mb if self.answer else 0)


@dataclass(frozen=True, slots=True)
class SetLimit:
    """A limit to set. The executor's further moves are left out if that fails."""

    key: Key
    limit_mb: int


@dataclass(frozen=True, slots=True)
class GiveOrder:
    key: Key
    order: BudgetOrder


@dataclass(frozen=True, slots=True)
class Begin:
    """The executor may be started with this limit; its order, if there is one, comes before."""

    key: Key
    limit_mb: int


Move = SetLimit | GiveOrder | Begin


@dataclass(frozen=True, slots=True)
class Moves:
    """`release` comes first; `take` counts on all of it, so `take` is left out in a period where any of `release` failed."""

    release: tuple[Move, ...]
    take: tuple[Move, ...]


def moves(containers: Sequence[Container], capacity_mb: int) -> Moves:
    """Return the moves of this period; `containers` has the executors that run or should run, in the master's order.

    Starts come before growth, because a waiting executor has nothing and a growing executor has something; a start that does
    not fit yet keeps later starts and all growth from taking the room it waits for. Limits together stay within
    `capacity_mb`, or shrink towards it if they were above.
    """
    release: list[Move] = []
    free_mb = capacity_mb
    for container in containers:
        shrunk, lowered_mb = _shrunk(container), _lowered_mb(container)
        if shrunk is not None:
            release.append(GiveOrder(container.key, shrunk))
        if lowered_mb is not None:
            release.append(SetLimit(container.key, lowered_mb))
        free_mb -= container.claim_mb if lowered_mb is None else lowered_mb
    take: list[Move] = []
    waits = False
    for container in containers:
        if container.running or container.begun_mb is not None:
            continue
        waits = waits or free_mb < container.fixed_mb + (container.floor_mb or 0)
        if not waits:
            begun, taken_mb = _begun(container, free_mb)
            take, free_mb = [*take, *begun], free_mb - taken_mb
    for container in () if waits else containers:
        grown, taken_mb = _grown(container, free_mb)
        take, free_mb = [*take, *grown], free_mb - taken_mb
    return Moves(tuple(release), tuple(take))


def _shrunk(container: Container) -> BudgetOrder | None:
    """Return the order to shrink, if it is due; an executor without an order (its file was lost) gets an order for what it
    should have."""
    if not container.running or container.target_mb is None or container.floor_mb is None:
        return None
    if container.order is None:
        room_mb = container.target_mb if container.limit_mb is None else container.limit_mb - container.fixed_mb
        number = container.answer.number if container.answer else 0
        return BudgetOrder(number + 1, max(container.floor_mb, min(container.target_mb, room_mb)))
    due = container.target_mb < container.order.budget_mb
    return BudgetOrder(container.order.number + 1, container.target_mb) if due else None


def _lowered_mb(container: Container) -> int | None:
    """Return the lower limit that the executor's answer and its use of memory allow, if it is worth writing."""
    limit_mb, order, answer = container.limit_mb, container.order, container.answer
    if not container.running or container.floor_mb is None or limit_mb is None or order is None or answer is None:
        return None
    if answer.number != order.number:
        return None  # an answer to an older order says nothing about this order
    target_mb = container.fixed_mb + max(order.budget_mb, container.target_mb or 0)
    least_mb = max(target_mb, container.fixed_mb + answer.budget_mb, container.used_mb + MARGIN_MB)
    return least_mb if least_mb <= limit_mb - (1 if least_mb == target_mb else STEP_MB) else None


def _begun(container: Container, free_mb: int) -> tuple[list[Move], int]:
    """Return the moves of a start, and the room they take."""
    if container.floor_mb is None:
        return [Begin(container.key, container.fixed_mb)], container.fixed_mb
    target_mb = container.floor_mb if container.target_mb is None else container.target_mb
    budget_mb = min(target_mb, free_mb - container.fixed_mb)
    number = max(container.order.number if container.order else 0, container.answer.number if container.answer else 0) + 1
    limit_mb = container.fixed_mb + budget_mb
    return [GiveOrder(container.key, BudgetOrder(number, budget_mb)), Begin(container.key, limit_mb)], limit_mb


def _grown(container: Container, free_mb: int) -> tuple[list[Move], int]:
    """Return the limit and order towards a larger budget as far as there is room, and the room they take."""
    target_mb, order = container.target_mb, container.order
    if not container.running or target_mb is None or order is None or target_mb < order.budget_mb:
        return [], 0
    has_mb = order.budget_mb
    budget_mb = min(target_mb, container.claim_mb - container.fixed_mb + max(0, free_mb))
    taken_mb = max(0, container.fixed_mb + budget_mb - container.claim_mb)
    if budget_mb < has_mb or (budget_mb < target_mb and budget_mb - has_mb < STEP_MB):
        return [], 0
    todo: list[Move] = []
    if taken_mb and container.limit_mb is not None:
        todo.append(SetLimit(container.key, container.fixed_mb + budget_mb))
    if budget_mb > has_mb:
        todo.append(GiveOrder(container.key, BudgetOrder(order.number + 1, budget_mb)))
    return todo, taken_mb

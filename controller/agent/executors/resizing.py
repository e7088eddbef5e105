"""The executors' memory on this worker: reads its state, lets `master_memory.resize` decide, writes orders and limits.

Orders are small files in a directory per executor that its container sees read-only; the newest one is also this agent's
memory of its last order, so a restarted agent goes on with its number. Answers come with the progress file.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from controller.agent.executors.known import KnownExecutor
from controller.agent.executors.launch import make_orders_dir
from controller.agent.executors.launcher import Launcher
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.states import ExecutorState
from controller.wire.worker import Desired, ExecutorSpec, WorkerInfo
from master_memory.resize import Answer, Begin, BudgetOrder, Container, GiveOrder, Move, SetLimit, moves
from stage_model.decoding import UNREADABLE
from stage_model.errors import RuntimeFailed
from stage_model.progress import MemoryProgress

log = logging.getLogger("sparkpace.agent")

NAME = "memory.json"
SHRINKING_CORES = 1.0
"""Cores of a squeezed executor while it shrinks: eviction and spilling are work, and others wait for it. It gets at most half
of the worker, so that it does not squeeze everyone else."""


SLOW_S = 30.0
"""Time after which a shrink is reported: another executor may be waiting for it."""


class OrderFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file that the executor reads."""

    number: int
    off_heap_bytes: int


class Resizing:
    """Memory of the executors. `note` takes a line for the master. `share` is called once a period; the rest are questions
    about the last call."""

    def __init__(self, worker: WorkerInfo, launcher: Launcher, note: Callable[[str], None]) -> None:
        self._worker, self._launcher, self._note = worker, launcher, note
        self._site, self._runtime = launcher.site, launcher.runtime
        self._orders: dict[ExecutorKey, BudgetOrder | None] = {}
        self._begun: dict[ExecutorKey, int] = {}
        self._containers: dict[ExecutorKey, Container] = {}
        self._complaints: dict[ExecutorKey, set[str]] = {}
        self._shrinks_since: dict[ExecutorKey, float] = {}

    def share(
        self,
        desired: Desired,
        observed: Mapping[ExecutorKey, Observed],
        known: Mapping[ExecutorKey, KnownExecutor],
        floored: Collection[str],
    ) -> None:
        """Decide one period's orders and limits, and which executors may be started. The budgets of `floored` applications
        are their floors."""
        starting = self._starting(desired, observed)
        crossed = [key for key in self._begun if key not in {*starting, *observed} and self._launcher.busy(key)]
        self._begun = {key: limit for key, limit in self._begun.items() if key in {*starting, *crossed}}
        here = [*starting, *crossed, *(key for key, seen in observed.items() if seen.running)]
        self._containers = {}
        for key in here:
            one, seen = known.get(key), observed.get(key)
            spec = one.spec if one else None
            limit_mb = _mb(seen.memory_limit_bytes) if seen else None
            elastic = spec is not None and spec.off_heap_floor_mb is not None
            watched = spec is not None and spec.watched
            self._containers[key] = Container(
                key=key,
                fixed_mb=spec.memory_mb if spec else limit_mb or 0,
                # a watched executor gets no order once it runs
                floor_mb=spec.off_heap_floor_mb if spec and not (watched and seen) else None,
                wanted_mb=0 if key.application_id in floored else _wanted_mb(spec, desired.budgets_mb.get(key.text)),
                running=seen is not None,
                limit_mb=limit_mb,
                used_mb=_mb(seen.memory_bytes) or 0 if seen else 0,
                begun_mb=self._begun.get(key),
                order=self._order(key) if elastic else None,
                answer=_answer(one.memory) if one and elastic else None,
            )
        self._say_unenforced()
        self._say_slow()
        found = moves(list(self._containers.values()), self._worker.memory_mb)
        if self._do(found.release):
            self._do(found.take)

    def may_start(self, key: ExecutorKey) -> int | None:
        """Return the memory limit in MiB that an executor is to be started with; None: there is no room for it yet."""
        return self._begun.get(key)

    def least_cores(self, key: ExecutorKey) -> float:
        """Return the cores that the executor must have now for the sake of its memory."""
        container = self._containers.get(key)
        return min(SHRINKING_CORES, self._worker.cores / 2) if container and container.shrinks else 0.0

    def container(self, key: ExecutorKey) -> Container | None:
        """Return the container as found in this period; None for an executor that does not run."""
        return self._containers.get(key)

    def forget(self, key: ExecutorKey) -> None:
        """Forget an executor that is over, which the master knows."""
        for kept in (self._orders, self._begun, self._containers, self._complaints, self._shrinks_since):
            kept.pop(key, None)
        shutil.rmtree(self._site.orders_dir(key), ignore_errors=True)
        with contextlib.suppress(OSError):  # others of the application may be there
            self._site.orders_dir(key).parent.rmdir()

    # ------------------------------------------------------------------ looking

    def _starting(self, desired: Desired, observed: Mapping[ExecutorKey, Observed]) -> list[ExecutorKey]:
        """Return the executors that should run and do not, in the master's order."""
        keys = (ExecutorKey(spec.application_id, spec.executor_id) for spec in desired.executors)
        return [
            key
            for key in keys
            if key not in observed
            and key.text not in desired.stopped
            and self._launcher.state(key) is not ExecutorState.REFUSED
        ]

    def _order(self, key: ExecutorKey) -> BudgetOrder | None:
        """Return the last order given; after a restart of this agent, from its file."""
        if key not in self._orders:
            try:
                found = msgspec.json.decode((self._site.orders_dir(key) / NAME).read_bytes(), type=OrderFile)
                self._orders[key] = BudgetOrder(found.number, found.off_heap_bytes >> 20)
            except (OSError, *UNREADABLE):
                self._orders[key] = None
        return self._orders[key]

    def _say_unenforced(self) -> None:
        for key, container in self._containers.items():
            if container.running and container.limit_mb is None and container.floor_mb is not None:
                self._complain(key, "free", "nothing here can limit its memory; only its off-heap budget is kept")

    def _say_slow(self) -> None:
        now_s = self._launcher.clock()
        over = {key: c for key, c in self._containers.items() if c.shrinks}
        self._shrinks_since = {key: self._shrinks_since.get(key, now_s) for key in over}
        for key in self._complaints.keys() - over.keys():
            self._complaints[key].discard("slow")
        for key, container in over.items():
            if now_s - self._shrinks_since[key] > SLOW_S and container.answer and container.order:
                self._complain(
                    key,
                    "slow",
                    f"it has not come down to {container.order.budget_mb} MiB of off-heap memory for {SLOW_S:g} s; its tasks "
                    f"hold {container.answer.execution_mb} MiB",
                )

    # ------------------------------------------------------------------ doing

    def _do(self, todo: Iterable[Move]) -> bool:
        """Make the moves; return True if all went well. After a failed move the executor's further moves are left out."""
        failed: set[ExecutorKey] = set()
        for move in todo:
            key = ExecutorKey(*move.key)
            if key in failed:
                continue
            try:
                self._make(key, move)
                self._complaints.get(key, set()).discard("failed")
            except (RuntimeFailed, OSError) as error:
                failed.add(key)
                self._complain(key, "failed", f"{error}; tried again every period")
        return not failed

    def _make(self, key: ExecutorKey, move: Move) -> None:
        match move:
            case SetLimit():
                self._runtime.set_memory_limit(key, move.limit_mb << 20)
                log.info("memory limit %s -> %d MiB", key.text, move.limit_mb)
            case GiveOrder():
                write_order(make_orders_dir(self._site, key), move.order)
                self._orders[key] = move.order
                if key in self._containers:  # at once: an executor that shrinks from now on gets its core now
                    self._containers[key] = replace(self._containers[key], order=move.order)
                log.info("off-heap %s -> %d MiB (order %d)", key.text, move.order.budget_mb, move.order.number)
            case Begin():
                self._begun[key] = move.limit_mb

    def _complain(self, key: ExecutorKey, kind: str, text: str) -> None:
        """Complain once as long as the fault goes on; its numbers may change meanwhile."""
        kinds = self._complaints.setdefault(key, set())
        if kind not in kinds:
            kinds.add(kind)
            self._note(f"memory of executor {key.executor_id} of {key.application_id}: {text}")


def write_order(directory: Path, order: BudgetOrder) -> None:
    """Write the order whole or not at all, readable by the executor's user. Raise `OSError`."""
    new = directory / f"{NAME}.new"
    new.write_bytes(msgspec.json.encode(OrderFile(number=order.number, off_heap_bytes=order.budget_mb << 20)))
    new.chmod(0o644)
    new.replace(directory / NAME)


def _answer(progress: MemoryProgress | None) -> Answer | None:
    """Return the answer in whole MiB, the budget rounded up: a limit must not be lowered below it."""
    if progress is None:
        return None
    return Answer(progress.order, -(-progress.budget >> 20), -(-progress.execution >> 20), -(-progress.storage >> 20))


def _wanted_mb(spec: ExecutorSpec | None, budget_mb: int | None) -> int | None:
    """Return the budget to reach. A watched executor keeps its first budget and never makes room for others. So that budget
    is at most the executor's other memory, which leaves as much to the next application."""
    if budget_mb is None or spec is None or not spec.watched:
        return budget_mb
    return min(budget_mb, spec.memory_mb)


def _mb(size_bytes: int | None) -> int | None:
    return None if size_bytes is None else size_bytes >> 20

"""CPU quotas without control groups: a thread that stops and continues whole process trees.

Every `TICK_S` each executor's budget grows by its cores and shrinks by the CPU its processes used; in debt it is
stopped until it has half a window's budget again. CPU beyond the budget in one tick is repaid, so the mean over seconds
follows the quota (over 4 s, a tree wanting 2 cores: within 3% from 0.3 cores up, 10% at 0.1), while within a second the share
is coarse: on C CPUs a tick may overshoot by C * `TICK_S` core-seconds. Not seen: CPU of a process before its first scan
(`SCAN_S`) and of processes that live less than a tick. `close` continues everything; if the agent is killed with SIGKILL,
stopped executors wait for the next agent's adoption.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.machine import process_tree
from controller.machine.process import Process
from controller.runtime.base import ExecutorKey

WINDOW_S = 0.1
"""Seconds of budget that can be saved up at most: as long as a cgroup period."""
TICK_S = 0.02
SCAN_S = 0.2
"""Interval between two looks for new processes of a tree."""
MAX_DEBT_S = 2.0
"""Seconds of quota that can be owed: a stalled pacer thread must not stop an executor for long."""

log = logging.getLogger(__name__)


Members = Callable[[Process], tuple[int, ...]]


@dataclass(slots=True)
class Budget:
    """CPU budget of a tree of `cores`, which says when the tree may run. Pure."""

    cores: float
    credit_s: float = 0.0
    running: bool = True
    stopped_s: float = 0.0

    def step(self, elapsed_s: float, used_s: float) -> bool:
        """Book `used_s` CPU seconds of the last `elapsed_s` seconds; return True if the tree may run until the next step."""
        if not self.running:
            self.stopped_s += elapsed_s
        credit = self.credit_s + self.cores * elapsed_s - used_s
        self.credit_s = min(self.cores * WINDOW_S, max(-self.cores * MAX_DEBT_S, credit))
        if self.credit_s < 0:
            self.running = False
        elif self.credit_s >= self.cores * WINDOW_S / 2:
            self.running = True
        return self.running


@dataclass(slots=True)
class _Tree:
    leader: Process
    budget: Budget
    pids: tuple[int, ...] = ()
    scanned_at: float = float("-inf")
    cpu_s: dict[int, float] = field(default_factory=dict)
    stopped: bool = False


class Pacer:
    """Quotas by SIGSTOP and SIGCONT. The thread runs from the first `set_cores` to `close`. `members` are the processes of an
    executor."""

    def __init__(self, members: Members = process_tree.members) -> None:
        self._members = members
        self._trees: dict[ExecutorKey, _Tree] = {}
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        """True if the thread runs, or is not needed yet."""
        return self._thread is None or self._thread.is_alive()

    def set_cores(self, key: ExecutorKey, leader: Process, cores: float) -> None:
        """Pace the tree at `cores` from now on."""
        with self._lock:
            tree = self._trees.setdefault(key, _Tree(leader, Budget(cores)))
            tree.budget.cores = cores
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pacer", daemon=True)
                self._thread.start()

    def cores(self, key: ExecutorKey) -> float | None:
        with self._lock:
            return self._trees[key].budget.cores if key in self._trees else None

    def stopped_s(self, key: ExecutorKey) -> float:
        """Return the seconds that the tree has stood still since pacing began. A second counts once, however many threads
        there are."""
        with self._lock:
            return self._trees[key].budget.stopped_s if key in self._trees else 0.0

    def forget(self, key: ExecutorKey) -> None:
        """Let the tree run freely; do nothing if it is not paced."""
        with self._lock:
            tree = self._trees.pop(key, None)
            if tree is not None:
                self._continue(tree)

    def close(self) -> None:
        """End the thread and continue every tree."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        for key in list(self._trees):
            self.forget(key)

    def _run(self) -> None:
        before = time.monotonic()
        while not self._done.wait(TICK_S):
            now = time.monotonic()
            with self._lock:
                for key, tree in self._trees.items():
                    try:
                        self._step(tree, now, now - before)
                    except Exception:  # the last barrier of this thread: an executor must never stay stopped
                        log.exception("pacing executor %s failed; it runs freely until the next tick", key.text)
                        self._continue(tree)
            before = now

    def _step(self, tree: _Tree, now: float, elapsed_s: float) -> None:
        if now - tree.scanned_at >= SCAN_S:
            tree.pids, tree.scanned_at = self._members(tree.leader), now
            if tree.stopped:  # also processes found just now
                process_tree.signal_all(tree.pids, signal.SIGSTOP)
        cpu_s = {pid: used for pid in tree.pids if (used := process_tree.cpu_clock_s(pid)) is not None}
        # A process seen for the first time has no earlier reading: what it used before is not charged.
        used_s = sum(used - tree.cpu_s.get(pid, used) for pid, used in cpu_s.items())
        tree.cpu_s = cpu_s
        may_run = tree.budget.step(elapsed_s, used_s)
        if may_run and tree.stopped:
            self._continue(tree)
        elif not may_run and not tree.stopped:
            process_tree.signal_all(tree.pids, signal.SIGSTOP)
            tree.stopped = True

    def _continue(self, tree: _Tree) -> None:
        # also processes that have lost the process they descend from meanwhile
        process_tree.signal_all((*tree.pids, *self._members(tree.leader)), signal.SIGCONT)
        tree.stopped = False
        tree.budget.running = True

"""The fake runtime: executors in memory, for tests.

CPU advances with an injected clock at min(quota, demand) cores; a test sets demands and injects exits through
`FakeHost`, which stands for the machine: it outlives a `FakeRuntime`, so adoption can be tested. No programs run (a test
says what they would do), no logs are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from controller.runtime import launching
from controller.runtime.base import ExecutorKey, JavaProgram, Launch, Observed, Program, Starter
from stage_model.errors import RuntimeRefused

_Place = tuple[str, str, ExecutorKey]


@dataclass(slots=True)
class _Executor:
    launch: Launch
    now: Observed
    demand_cores: float
    counted_to_s: float
    kill_at: float | None = None
    ignores_sigterm: bool = False


@dataclass(slots=True)
class FakeHost:
    """A machine. `clock` gives seconds; `default_demand_cores` is what a new executor would use if it could."""

    clock: Callable[[], float]
    default_demand_cores: float = math.inf
    run: Callable[[Program], str] = lambda _: "3.11\n"
    """Action of a program, and the text that it prints; by default the answer of a Python asked for its version."""
    refused_images: set[str] = field(default_factory=set)
    executors: dict[_Place, _Executor] = field(default_factory=dict)
    faults: dict[tuple[str, ExecutorKey | None], Exception] = field(default_factory=dict)
    """Errors that calls of a runtime raise, by the name of the function and the executor, if it has one."""

    def set_demand(self, key: ExecutorKey, cores: float) -> None:
        """Have the executor use `cores` from now on if its quota allows."""
        for executor in self._of(key):
            self.advance(executor)
            executor.demand_cores = cores

    def ignore_sigterm(self, key: ExecutorKey) -> None:
        """Let only SIGKILL end the executor from now on."""
        for executor in self._of(key):
            executor.ignores_sigterm = True

    def set_memory(self, key: ExecutorKey, memory_bytes: int) -> None:
        for executor in self._of(key):
            executor.now = replace(executor.now, memory_bytes=memory_bytes)

    def exit(self, key: ExecutorKey, code: int, reason: str = "") -> None:
        """End the executor now, by itself or from outside; do nothing if it has ended already."""
        for executor in self._of(key):
            self.end(executor, code, reason)

    def end(self, executor: _Executor, code: int, reason: str = "") -> None:
        if executor.now.running:
            self.advance(executor)
            executor.now = replace(
                executor.now,
                running=False,
                quota_cores=None,
                memory_bytes=0,
                exit_code=code,
                reason=reason,
                pid=None,
                memory_limit_bytes=None,
            )

    def advance(self, executor: _Executor) -> None:
        """Count CPU up to the clock's now, and carry out a kill that is due."""
        now_s = self.clock()
        until_s = min(now_s, executor.kill_at) if executor.kill_at is not None else now_s
        if executor.now.running and until_s > executor.counted_to_s:
            quota = executor.now.quota_cores if executor.now.quota_cores is not None else math.inf
            wanted_s = executor.demand_cores * (until_s - executor.counted_to_s)
            used_s = min(wanted_s, quota * (until_s - executor.counted_to_s))
            cpu_s, throttled_s = executor.now.cpu_s + used_s, (executor.now.throttled_s or 0.0) + wanted_s - used_s
            executor.now = replace(executor.now, cpu_s=cpu_s, throttled_s=throttled_s)
        executor.counted_to_s = until_s
        if executor.kill_at is not None and now_s >= executor.kill_at:
            executor.kill_at = None
            self.end(executor, 137)

    def fail(self, function: str, key: ExecutorKey | None = None) -> None:
        """Raise the error that the test has set for this call, if there is one."""
        if (function, key) in self.faults:
            raise self.faults[function, key]

    def _of(self, key: ExecutorKey) -> list[_Executor]:
        return [executor for (_, _, other), executor in self.executors.items() if other == key]


class FakeRuntime(Starter):
    """The view of a `FakeHost` that one worker has."""

    def __init__(self, host: FakeHost, cluster_id: str, worker_id: str) -> None:
        self._host = host
        self._cluster_id = cluster_id
        self._worker_id = worker_id

    def _place(self, key: ExecutorKey) -> _Place:
        return (self._cluster_id, self._worker_id, key)

    def start(self, launch: Launch) -> None:
        self._host.fail("start", launch.key)
        launching.checked_cores(launch.cores)
        if launch.image in self._host.refused_images:
            raise RuntimeRefused(f"image {launch.image!r} is not on this worker; load it, or leave out --image")
        place = self._place(launch.key)
        if place in self._host.executors and self._look(place).running:
            return
        pid = 1000 + len(self._host.executors)
        self._host.executors[place] = _Executor(
            launch,
            Observed(
                launch.key, True, launch.cores, 0.0, launch.memory_bytes // 2, pid=pid, memory_limit_bytes=launch.memory_bytes
            ),
            self._host.default_demand_cores,
            self._host.clock(),
        )

    def observe(self) -> dict[ExecutorKey, Observed]:
        mine = [place for place in self._host.executors if place[:2] == (self._cluster_id, self._worker_id)]
        return {place[2]: self._look(place) for place in mine}

    def _look(self, place: _Place) -> Observed:
        executor = self._host.executors[place]
        self._host.advance(executor)
        return executor.now

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        self._host.fail("set_quota", key)
        launching.checked_cores(cores)
        place = self._place(key)
        if place not in self._host.executors or not self._look(place).running:
            return False
        executor = self._host.executors[place]
        executor.now = replace(executor.now, quota_cores=cores)
        return True

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:
        self._host.fail("set_memory_limit", key)
        launching.checked_memory(memory_bytes)
        place = self._place(key)
        if place not in self._host.executors or not self._look(place).running:
            return False
        executor = self._host.executors[place]
        if executor.now.memory_bytes > memory_bytes:
            raise launching.in_use(key, executor.now.memory_bytes, memory_bytes)
        executor.now = replace(executor.now, memory_limit_bytes=memory_bytes)
        return True

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:
        self._host.fail("stop", key)
        place = self._place(key)
        if place not in self._host.executors or not self._look(place).running:
            return
        executor = self._host.executors[place]
        if grace_s <= 0:
            self._host.end(executor, 137)
        elif not executor.ignores_sigterm:
            self._host.end(executor, 143)
        else:
            kill_at = self._host.clock() + grace_s
            executor.kill_at = min(kill_at, executor.kill_at) if executor.kill_at is not None else kill_at

    def remove(self, key: ExecutorKey) -> None:
        place = self._place(key)
        if place not in self._host.executors:
            return
        if self._look(place).running:
            raise launching.still_runs(key)
        del self._host.executors[place]

    def java(self, java_home: str, image: str | None) -> JavaProgram:
        return JavaProgram(f"{java_home}/bin/java", f"{java_home} {image}")

    def run_program(self, program: Program) -> str:
        return self._host.run(program)

    def images(self) -> tuple[str, ...]:
        self._host.fail("images")
        return ()

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""

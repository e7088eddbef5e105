"""Hosts are cut off, come back and start again, and so does the master, in any order: no executor id lives twice, no place is
ever taken twice, and in the end every application has what it wants."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.master.core.core import ClusterOptions
from controller.master.core.workers import STALE_S
from controller.runtime.base import ExecutorKey
from controller.wire.driver import ExecutorWish
from controller.wire.worker import Desired
from tests.fakes.cluster import report
from tests.fakes.placed import Scene

LOST_S = ClusterOptions().lost_after_s
ROOM: dict[str, Any] = {"memory_mb": 16000}
HOSTS: dict[str, dict[str, Any]] = {
    "w1": ROOM,
    "w2": {**ROOM, "resources": {"gpu": 1}},
    "w3": {**ROOM, "resources": {"gpu": 1}},
}
GPU = {"placement_resources": "gpu=1"}
WANTED: dict[str, tuple[int, dict[str, str]]] = {"both": (2, {}), "first": (1, GPU), "second": (1, GPU)}
BACK_S = 15


@dataclass(slots=True)
class Host:
    """A host whose agent obeys the last orders that have reached it, also while it is cut off."""

    linked: bool = True
    orders: Desired | None = None
    running: set[ExecutorKey] = field(default_factory=set)
    ended: set[ExecutorKey] = field(default_factory=set)

    def start(self) -> None:
        if self.orders is not None:
            keys = {ExecutorKey(spec.application_id, spec.executor_id) for spec in self.orders.executors}
            self.running |= keys - self.ended - self._stopped()

    def stop(self) -> None:
        """End what has to end; what had ended before, and was reported, is removed."""
        self.ended -= self._stopped()
        self.ended |= self.running & self._stopped()
        self.running -= self._stopped()

    def _stopped(self) -> set[ExecutorKey]:
        return {ExecutorKey.parse(text) for text in self.orders.stopped} if self.orders is not None else set()


class World(Scene):
    """A master, hosts, and applications whose drivers are on the master's host."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, **HOSTS)
        self.hosts = {name: Host() for name in HOSTS}
        self.jobs = {self.register(name, count, **conf): count for name, (count, conf) in WANTED.items()}
        self.gone: defaultdict[str, set[str]] = defaultdict(set)
        """Executors whose end was reported to each driver."""
        self.passes(2)

    # ------------------------------------------------------------------ events

    def cut(self, name: str) -> None:
        self.hosts[name].linked = False

    def heals(self, name: str) -> None:
        self.hosts[name].linked = True

    def reboots(self, name: str) -> None:
        host = self.hosts[name]
        host.ended |= host.running
        host.running.clear()

    def restarts(self) -> None:
        self.state.store.close()
        self.cluster.restart()

    def passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.cluster.now_s += 1.0
            for name, host in self.hosts.items():
                host.start()
                self.check_places()
                host.stop()
                if host.linked:
                    self.tells(name, host)
            for job, count in self.jobs.items():
                said = self.cluster.driver(job, wanted={"0": ExecutorWish(count=count)})
                self.gone[job] |= {one.executor_id for one in said.gone}
            self.state.tick(self.cluster.now_s)
            self.check_books()

    def tells(self, name: str, host: Host) -> None:
        reports = [report(*key) for key in host.running] + [report(*key, "exited", exit_code=137) for key in host.ended]
        host.orders = self.cluster.sync(self.state.workers.by_id[name].info, *reports).desired

    # ------------------------------------------------------------------ what holds

    def check_places(self) -> None:
        """Check what really runs: on each host one executor of an application, and one with its gpu."""
        everywhere = Counter(key for host in self.hosts.values() for key in host.running)
        assert max(everywhere.values(), default=0) <= 1, "an id lives twice"
        with_gpu = {job for job, (_, conf) in zip(self.jobs, WANTED.values(), strict=True) if conf}
        for host in self.hosts.values():
            here = Counter(key.application_id for key in host.running)
            assert max(here.values(), default=0) <= 1
            assert sum(count for job, count in here.items() if job in with_gpu) <= 1

    def check_books(self) -> None:
        """Check what the master knows: one live executor of an application on each worker, and no live executor whose end was
        reported to its driver."""
        for job in self.jobs:
            live = {e.record.executor_id: e.record.worker_id for e in self.state.applications[job].live_executors()}
            assert len(set(live.values())) == len(live)
            assert not live.keys() & self.gone[job]
            assert not self.state.applications[job].faults
        assert not self.state.parts.failures

    def check_end(self) -> None:
        """Check that all goes on as if nothing had happened, once every host is back."""
        for host in self.hosts.values():
            host.linked = True
        self.passes(BACK_S)
        running = Counter(key.application_id for host in self.hosts.values() for key in host.running)
        for job, count in self.jobs.items():
            application = self.state.applications[job]
            assert running[job] == (0 if application.ended else count)
            assert all(not worker.silence for worker in self.state.workers.by_id.values())


hosts = st.sampled_from(tuple(HOSTS))
steps = st.one_of(
    st.tuples(st.just("passes"), st.sampled_from((1, 3, int(STALE_S) + 1, int(LOST_S) + 1))),
    st.tuples(st.just("cut"), hosts),
    st.tuples(st.just("cut"), hosts),
    st.tuples(st.just("heals"), hosts),
    st.tuples(st.just("reboots"), hosts),
    st.just(("restarts",)),
)
AWAY = ("passes", int(LOST_S) + 1)


@settings(deadline=None, max_examples=30)
@given(st.lists(steps, min_size=3, max_size=15))
@example([("cut", "w2"), AWAY, ("heals", "w2"), ("passes", 3), ("cut", "w3"), AWAY])
@example([("cut", "w2"), AWAY, ("restarts",), ("heals", "w2")])
@example([("cut", "w2"), ("reboots", "w2"), AWAY, ("heals", "w2")])
@example([("cut", name) for name in HOSTS] + [AWAY, ("heals", "w1"), AWAY])
def test_after_any_cuts_and_returns_no_id_lives_twice_and_no_place_is_doubled(history: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for kind, *how in history:
            getattr(world, kind)(*how)
        world.check_end()
        world.state.store.close()

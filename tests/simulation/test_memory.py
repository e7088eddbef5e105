"""Master, agent and executors together, in memory: the scenario of docs/concepts.md, period by period.

The real `ClusterState` and `Agent` talk over the fake runtime; executors are stories that read their order and shrink as fast
as their kind of memory allows. What Spark really does is `tests/integration/test_memory.py`'s to show.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from controller.agent.executors.resizing import NAME
from controller.runtime.base import ExecutorKey
from controller.wire.command import ApplicationView
from stage_model.progress import MemoryProgress
from tests.fakes.cluster import FakeCluster
from tests.fakes.placed import ELASTIC
from tests.fakes.worker import FakeWorker, spark_in

MB = 1 << 20
M = 8000
H = 1024 + 384
ALONE, SHARED = M - H, (M - 2 * H) // 2


@dataclass
class Plugin:
    """An executor: `mb_per_s` is how fast it gives memory back."""

    mb_per_s: int = 10_000
    number: int = 0
    budget_mb: int = 64


class World:
    """A world in which a second is a period; each party gets a message of the others once in it."""

    def __init__(self, place: Path) -> None:
        self.spark = spark_in(place)
        (place / "master").mkdir()
        self.cluster = FakeCluster(place / "master")
        self.worker = FakeWorker(place / "worker")
        self.worker.agent.worker = msgspec.structs.replace(self.worker.agent.worker, memory_mb=M)
        self.worker.agent.resizing._worker = self.worker.agent.worker
        self.plugins: dict[ExecutorKey, Plugin] = {}
        self.speeds: dict[str, int] = {}
        self.second()

    def submit(self, name: str, mb_per_s: int = 10_000) -> str:
        application_id = self.cluster.register(name=name, instance=name, conf=ELASTIC, **self.spark)
        self.speeds[application_id] = mb_per_s
        return application_id

    def second(self) -> None:
        self.cluster.tick(1)
        sent = self.worker.tick()
        reply = self.cluster.state.agents.sync("w1", sent, self.cluster.now_s)
        self.worker.agent.receive(reply.desired, self.worker.now_s)
        self.act()
        running = [seen for seen in self.worker.runtime.observe().values() if seen.running]
        assert sum(seen.memory_limit_bytes or 0 for seen in running) <= M * MB

    def act(self) -> None:
        for key, seen in self.worker.runtime.observe().items():
            if not seen.running or not (self.worker.site.orders_dir(key) / NAME).exists():
                continue
            plugin = self.plugins.setdefault(key, Plugin(self.speeds[key.application_id]))
            plugin.number, wanted = self.worker.order(key)
            plugin.budget_mb = max(wanted, plugin.budget_mb - plugin.mb_per_s)
            self.worker.host.set_memory(key, (H // 2 + plugin.budget_mb) * MB)
            assert H + plugin.budget_mb <= (seen.memory_limit_bytes or 0) // MB
            self.worker.progress(key, memory=MemoryProgress(order=plugin.number, budget=plugin.budget_mb * MB))

    def until(self, budgets: dict[str, int], most_s: int) -> int:
        """Return the seconds until these have acknowledged these budgets."""
        for second in range(most_s + 1):
            if all(self.view(key).off_heap_mb == budget for key, budget in budgets.items()):
                return second
            self.second()
        raise AssertionError({key: self.view(key).off_heap_mb for key in budgets})

    def view(self, application_id: str) -> ApplicationView:
        return self.cluster.state.core.commands.view(application_id, self.cluster.now_s)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_first_shrinks_the_second_starts_and_the_first_grows_again(world: World) -> None:
    first = world.submit("first")
    world.until({first: ALONE}, 4)
    second = world.submit("second")
    # order, answer, limit and start, answer: a period each, and one until the report reaches the master
    world.until({first: SHARED, second: SHARED}, 6)
    assert world.view(first).memory_mb == world.view(second).memory_mb == H + SHARED
    world.cluster.driver(second, ended=True)
    world.until({first: ALONE}, 6)
    assert world.view(first).memory_mb == M


def test_a_second_starts_small_while_the_first_gives_back_slowly(world: World) -> None:
    first = world.submit("first", mb_per_s=200)
    world.until({first: ALONE}, 4)
    second = world.submit("second")
    waited_s = 0
    while not world.view(second).executors:
        world.second()
        waited_s += 1
    # H + 64 are free after 8 s at 200 MB/s; the whole shrink takes 20 s
    assert waited_s < 14
    assert world.view(first).off_heap_mb > SHARED
    world.until({first: SHARED, second: SHARED}, 25)


def test_a_third_waits_and_starts_by_itself(world: World) -> None:
    first, second = world.submit("first"), world.submit("second")
    world.until({first: SHARED, second: SHARED}, 6)
    third = world.submit("third")
    fourth = world.submit("fourth")
    world.second()
    assert [world.view(i).queue_position for i in (third, fourth)] == [1, 2]
    world.cluster.state.commands.kill(first, world.cluster.now_s)
    world.until({second: SHARED, third: SHARED}, 8)
    assert [world.view(i).queue_position for i in (third, fourth)] == [None, 1]


def test_a_restart_of_master_and_agent_in_the_middle_of_a_shrink_changes_nothing(world: World) -> None:
    first = world.submit("first", mb_per_s=500)
    world.until({first: ALONE}, 4)
    second = world.submit("second")
    for _ in range(3):
        world.second()
    world.cluster.restart()
    budget = world.worker.agent.resizing
    world.worker.restart()
    world.worker.agent.worker = world.worker.agent.resizing._worker = budget._worker
    world.until({first: SHARED, second: SHARED}, 15)


def test_an_executor_that_is_lost_is_replaced_within_its_share(world: World) -> None:
    first, second = world.submit("first"), world.submit("second")
    world.until({first: SHARED, second: SHARED}, 6)
    world.worker.host.exit(ExecutorKey(second, "1"), 137)
    for _ in range(2):
        world.second()
    assert world.view(second).off_heap_mb == 0
    world.until({first: SHARED, second: SHARED}, 6)
    [executor] = world.cluster.state.applications[second].live_executors()
    assert executor.record.executor_id == "2"

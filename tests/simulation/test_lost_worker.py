"""Agents and a master that speak by its real API, in virtual time: one is cut off for longer than it may be, and comes back.

The executors are the fake runtime's. Tests on real Spark show what Spark does with lost ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.agent.link import Link, OrderFilter
from controller.master.core.core import ClusterOptions
from controller.runtime.base import ExecutorKey
from controller.wire.driver import ExecutorWish
from tests.fakes.served import ServedMaster, threaded
from tests.fakes.worker import FakeWorker, spark_in

LOST_S = int(ClusterOptions().lost_after_s)
NAMES = ("w1", "w2")


class Linked:
    """A worker whose agent is linked to a served master."""

    def __init__(self, folder: Path, master: ServedMaster, name: str) -> None:
        self.worker = FakeWorker(folder / name, worker_id=name)
        master.home.make_agent_token(name)
        orders = OrderFilter(master.cluster.state.identity.cluster_id)
        token = master.home.agent_token(name)
        self.link = Link(master.url, master.home.ca_file, lambda: token, name, orders, lambda: None)

    def second(self, *, cut: bool) -> None:
        self.link.post(self.worker.tick())
        if not cut:
            self.link._sync()
            for answer in self.link.take():
                self.worker.agent.receive(answer.reply.desired, self.worker.now_s)
                self.worker.agent.outbox.acknowledge(answer.reply.samples_acknowledged, answer.sent.notes, self.worker.now_s)


class World:
    """A master with two workers, and a job that wants an executor on each of them."""

    def __init__(self, place: Path, master: ServedMaster) -> None:
        self.master, self.cluster = master, master.cluster
        self.workers = {name: Linked(place, master, name) for name in NAMES}
        self.job, self.gone = "", set[str]()
        self.pass_by(1)
        self.job = self.cluster.register(wanted=self.wish, **spark_in(place))
        self.pass_by(3)

    @property
    def wish(self) -> dict[str, ExecutorWish]:
        return {"0": ExecutorWish(count=len(NAMES))}

    def pass_by(self, seconds: int, *cut: str) -> None:
        for _ in range(seconds):
            self.cluster.now_s += 1
            for name, linked in self.workers.items():
                linked.second(cut=name in cut)
                assert len(linked.worker.running()) <= 1, "no place is taken twice"
            if self.job:
                self.gone = {one.executor_id for one in self.cluster.driver(self.job, wanted=self.wish).gone}
            self.cluster.tick()

    def close(self) -> None:
        for linked in self.workers.values():
            linked.link._reports.close()

    def running(self, name: str) -> set[ExecutorKey]:
        return self.workers[name].worker.running()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    master = ServedMaster(tmp_path / "master")
    serving = threaded(master.server, master.listening)
    with closing(master.cluster.state), serving, closing(World(tmp_path, master)) as made:
        yield made


@pytest.mark.parametrize("restarts", [False, True])
def test_an_agent_that_was_cut_off_for_too_long_ends_what_was_given_up(world: World, restarts: bool) -> None:
    """The agent may have started again meanwhile and found its executor, which makes no difference."""
    kept, late = world.running("w1"), world.running("w2")
    world.pass_by(25, "w2")
    world.pass_by(2)
    assert (world.running("w2"), world.gone) == (late, set())
    world.pass_by(LOST_S + 1, "w2")
    assert world.gone == {key.executor_id for key in late}
    assert world.running("w2") == late, "it goes on where nothing can end it"
    if restarts:
        world.workers["w2"].worker.restart()
    world.pass_by(8)
    [new] = world.running("w2")
    assert new not in late
    assert (world.running("w1"), world.gone) == (kept, {key.executor_id for key in late})

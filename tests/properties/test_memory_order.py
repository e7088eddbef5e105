"""Executors of one worker, its agent and the master as a story: containers are never too small, never promised twice, and it
settles.

The agent sees answers late, executors shrink as slowly as their tasks allow, applications come and go meanwhile. After each
single step the container of every executor must hold what runs in it, and all limits must fit the worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from controller.runtime.base import ExecutorKey
from master_memory.resize import Answer, Begin, BudgetOrder, Container, GiveOrder, Move, SetLimit, moves
from master_memory.split import Need, admits, equal

CAPACITY = 10_000


@dataclass
class Real:
    """An executor in truth, whatever its agent and master believe."""

    need: Need
    limit_mb: int | None = None
    budget_mb: int = 0
    number: int = 0
    order: BudgetOrder | None = None
    answer: Answer | None = None
    held_mb: int = 0
    """Memory that its tasks do not let go."""


@dataclass
class World:
    real: dict[str, Real] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)

    def wanted(self) -> dict[str, int]:
        return equal(CAPACITY, [one.need for key, one in self.real.items() if key not in self.leaving])

    def containers(self) -> list[Container]:
        wanted = self.wanted()
        return [
            Container(
                key=ExecutorKey(key, "1"),
                fixed_mb=one.need.fixed_mb,
                floor_mb=one.need.floor_mb,
                wanted_mb=wanted.get(key),
                running=one.limit_mb is not None,
                limit_mb=one.limit_mb,
                used_mb=one.need.fixed_mb // 2 + one.budget_mb,
                order=one.order,
                answer=one.answer,
            )
            for key, one in self.real.items()
            if one.limit_mb is not None or key not in self.leaving
        ]

    def tick(self) -> None:
        found = moves(self.containers(), CAPACITY)
        for move in (*found.release, *found.take):
            self.do(move)
            self.check()

    def do(self, move: Move) -> None:
        one = self.real[move.key[0]]
        match move:
            case SetLimit():
                one.limit_mb = move.limit_mb
            case Begin():
                one.limit_mb = move.limit_mb
            case GiveOrder():
                assert one.order is None or move.order.number > one.order.number
                one.order = move.order

    def happen(self, number: int, what: str, which: int, amount: int) -> None:
        if what == "tick":
            self.tick()
        elif what == "arrive":
            newcomer = Need(f"app-{number}", which, 64 if amount else None)
            present = [one.need for name, one in self.real.items() if name not in self.leaving]
            if admits(CAPACITY, present, newcomer):
                self.real[newcomer.key] = Real(newcomer)
        elif self.real:
            self.happen_to(list(self.real)[which % len(self.real)], what, amount)

    def happen_to(self, key: str, what: str, amount: int) -> None:
        match what:
            case "leave":
                self.leaving.add(key)
            case "gone" if key in self.leaving:
                del self.real[key]
                self.leaving.discard(key)
            case "act":
                self.act(key, amount)
            case "answer":
                self.answer(key)
            case "hold":
                self.real[key].held_mb = amount

    def check(self) -> None:
        running = [one for one in self.real.values() if one.limit_mb is not None]
        assert sum(one.limit_mb or 0 for one in running) <= CAPACITY
        for one in running:
            ordered = one.order.budget_mb if one.order else 0
            # it may act on its order at any moment
            assert one.need.fixed_mb + max(one.budget_mb, ordered) <= (one.limit_mb or 0)

    def act(self, key: str, moves_mb: int) -> None:
        """Have the executor look at its order and shrink by at most that much."""
        one = self.real[key]
        if one.limit_mb is None or one.order is None:
            return
        one.number = one.order.number
        if one.need.floor_mb is not None:
            least = max(one.order.budget_mb, one.held_mb if one.held_mb < one.budget_mb else one.order.budget_mb)
            one.budget_mb = max(one.order.budget_mb, min(one.budget_mb, max(least, one.budget_mb - moves_mb)))

    def answer(self, key: str) -> None:
        one = self.real[key]
        if one.number:
            one.answer = Answer(one.number, one.budget_mb)


sizes = st.integers(100, 1500)
acts = st.one_of(
    st.tuples(st.just("arrive"), sizes, st.booleans()),
    st.tuples(st.just("leave"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("gone"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("act"), st.integers(0, 5), st.integers(0, 4000)),
    st.tuples(st.just("answer"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("hold"), st.integers(0, 5), st.integers(0, 4000)),
    st.tuples(st.just("tick"), st.just(0), st.just(0)),
)


@given(st.lists(acts, max_size=60))
def test_containers_always_hold_what_runs_and_fit_the_worker_and_the_split_is_reached(
    story: list[tuple[str, int, int]],
) -> None:
    world = World()
    for number, (what, which, amount) in enumerate(story):
        world.happen(number, what, which, amount)
        world.check()
    for key in list(world.leaving):
        world.real.pop(key, None)
    world.leaving.clear()
    for _ in range(8):
        world.tick()
        for key, one in world.real.items():
            one.held_mb = 0
            world.act(key, CAPACITY)
            world.answer(key)
    wanted = world.wanted()
    for key, one in world.real.items():
        assert one.limit_mb is not None
        if key in wanted:
            assert one.budget_mb == wanted[key]
            assert one.limit_mb == one.need.fixed_mb + wanted[key]

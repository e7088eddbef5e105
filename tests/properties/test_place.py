"""However workers, executors and queues are: an executor goes only where it has room and may be, and only lower priority
gives way, no more of it than is needed."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.agent.core.arbitrate import CoreRequest, arbitrate
from controller.runtime.base import ExecutorKey
from master_memory.room import Newcomer
from master_memory.split import Need
from placement.fleet import Fleet
from placement.labels import Requirement
from placement.plan import Evict, Infeasible, Placed, Squeeze, Wait, ever_fitting, place, taking
from placement.policies import POLICIES
from placement.request import Request
from placement.resources import SCALE, ResourceSet
from placement.scores import Weights
from placement.worker import Occupant, WorkerState

FLOOR_MB = 64
PRIORITIES = st.sampled_from((0, 50, 100))
LABELS = st.dictionaries(st.sampled_from("xy"), st.sampled_from("ab"), max_size=2)
REQUIREMENTS = st.builds(Requirement, st.sampled_from("xy"), st.sampled_from((None, "a", "b")), st.booleans())
MOSTLY, SELDOM = st.sampled_from((True, True, True, False)), st.sampled_from((False, False, False, True))
EXECUTORS = st.tuples(PRIORITIES, st.integers(100, 1500), MOSTLY, SELDOM, SELDOM)
"""Priority, MiB besides off-heap memory, whether that may change, whether it holds the gpu, whether it is being ended."""


class Scene:
    """A fleet with the needs of those on it."""

    def __init__(self, workers: list[tuple[float, int, dict[str, str], list[tuple[int, int, bool, bool, bool]]]], seed: int):
        self.needs: dict[str, list[Need]] = {}
        self.workers: dict[str, WorkerState] = {}
        for number, (cores, memory_mb, labels, there) in enumerate(workers):
            name = f"w{number}"
            one = WorkerState(
                name, cores=cores, memory_mb=memory_mb, host=f"h{number}", labels=labels, pieces=ResourceSet.of(gpu=1)
            )
            self.workers[name], self.needs[name] = one, []
            for index, (priority, fixed_mb, elastic, gpu, ending) in enumerate(there):
                need = Need(f"{name}.{index}/1", fixed_mb, FLOOR_MB if elastic else None, priority=priority)
                held = {"gpu": {0: SCALE}} if gpu and one.free_pieces("gpu") else {}
                # an executor that was placed fitted then
                if ending or need.least_mb <= one.free_mb:
                    least_mb = 0 if ending else need.least_mb
                    one.add(Occupant(need.key, f"{name}.{index}", priority, 1.0, least_mb, held=held, ending=ending))
                    self.needs[name] += [] if ending else [need]
        self.fleet = Fleet(self.workers.values(), weights=Weights(), draw=random.Random(seed).random)

    def newcomer(self, need: Need) -> Newcomer:
        return Newcomer(lambda _: need, self.fleet.sizes, self.needs)

    def priority_of(self, worker_id: str, key: str) -> int:
        return self.workers[worker_id].occupants[key].priority


SCENES = st.builds(
    Scene,
    st.lists(
        st.tuples(
            st.sampled_from((0.5, 2.0, 4.0)), st.integers(1500, 6000), LABELS, st.lists(EXECUTORS, min_size=1, max_size=4)
        ),
        max_size=3,
    ),
    st.integers(0, 999),
)
REQUESTS = st.builds(
    Request,
    st.just("new"),
    PRIORITIES,
    st.floats(0.1, 8),
    st.sampled_from(sorted(POLICIES)),
    labels=st.just(()) | st.lists(REQUIREMENTS, max_size=2).map(tuple),
    pieces=st.sampled_from((ResourceSet(), ResourceSet(), ResourceSet.of(gpu=0.5), ResourceSet.of(gpu=2))),
    local=st.sampled_from(("", "h1")),
    evict=st.booleans(),
    kept=st.sets(st.sampled_from(("w0", "w1")), max_size=1).map(frozenset),
)
NEEDS = st.tuples(st.integers(100, 1500) | st.integers(100, 6500), MOSTLY)


def need_of(request: Request, size: tuple[int, bool]) -> Need:
    return Need("new/new", size[0], FLOOR_MB if size[1] else None, priority=request.priority)


def may_be_there(request: Request, need: Need, worker: WorkerState) -> bool:
    """Check that the worker would do if no other executor were there."""
    labelled = all(one.holds(worker.labels) for one in request.labels)
    return labelled and request.pieces.within(worker.pieces) and need.least_mb <= worker.memory_mb


@given(SCENES, REQUESTS, NEEDS)
def test_it_goes_only_where_it_may_be_and_has_room(scene: Scene, request: Request, size: tuple[int, bool]) -> None:
    need = need_of(request, size)
    memory = scene.newcomer(need)
    outcome = place(request, scene.fleet, memory)
    if not isinstance(outcome, Placed | Squeeze):
        return
    worker = scene.workers[outcome.worker_id]
    assert may_be_there(request, need, worker)
    assert outcome.worker_id not in request.kept
    assert all(worker.pools[name].find(units) for name, units in request.pieces.items())
    assert sum(one.least_mb for one in [*scene.needs[outcome.worker_id], need]) <= worker.memory_mb
    # where no executor is squeezed more than before, it has room, too
    given_up = outcome.keys if isinstance(outcome, Squeeze) else ()
    assert memory.squeezed(worker) == given_up or (memory.now(worker) and not given_up)


@given(SCENES, REQUESTS, NEEDS)
def test_only_lower_priority_gives_way(scene: Scene, request: Request, size: tuple[int, bool]) -> None:
    outcome = place(request, scene.fleet, scene.newcomer(need_of(request, size)))
    if isinstance(outcome, Squeeze | Evict):
        assert outcome.keys
        assert all(scene.priority_of(outcome.worker_id, key) < request.priority for key in outcome.keys)
    if isinstance(outcome, Evict):
        assert request.evict
        assert not any(scene.workers[outcome.worker_id].occupants[key].ending for key in outcome.keys)


@given(SCENES, REQUESTS, NEEDS)
def test_it_is_infeasible_only_if_no_worker_could_ever_take_it_and_else_waits_for_those_that_could(
    scene: Scene, request: Request, size: tuple[int, bool]
) -> None:
    need = need_of(request, size)
    outcome = place(request, scene.fleet, scene.newcomer(need))
    could = [name for name, worker in scene.workers.items() if may_be_there(request, need, worker)]
    assert isinstance(outcome, Infeasible) == (not could)
    if isinstance(outcome, Wait):
        assert set(outcome.worker_ids) <= set(could)


@given(SCENES, REQUESTS, NEEDS)
def test_a_worker_takes_it_if_it_would_go_there_where_no_other_worker_may_be_taken(
    scene: Scene, request: Request, size: tuple[int, bool]
) -> None:
    memory = scene.newcomer(need_of(request, size))
    takes = {worker.worker_id for worker in taking(request, scene.fleet, memory)}
    for name in scene.workers:
        others = scene.workers.keys() - {name}
        outcome = place(replace(request, kept=request.kept | others), scene.fleet, memory)
        goes = isinstance(outcome, Placed | Squeeze | Evict)
        assert name in takes if goes else name not in takes or request.evict  # enough may be ending there already


@given(SCENES, REQUESTS, NEEDS, REQUESTS, NEEDS)
def test_no_executor_goes_to_a_worker_that_one_ahead_could_use(
    scene: Scene, request: Request, size: tuple[int, bool], first: Request, first_size: tuple[int, bool]
) -> None:
    ahead_need = need_of(first, first_size)
    asked = Request(
        request.application_id,
        request.priority,
        request.cores,
        request.policy,
        evict=request.evict,
        kept=frozenset(one.worker_id for one in ever_fitting(first, scene.fleet, scene.newcomer(ahead_need))),
    )
    outcome = place(asked, scene.fleet, scene.newcomer(need_of(request, size)))
    if isinstance(outcome, Placed | Squeeze | Evict):
        assert not may_be_there(first, ahead_need, scene.workers[outcome.worker_id])


@given(SCENES, REQUESTS, NEEDS)
def test_without_the_evicted_executors_it_has_room(scene: Scene, request: Request, size: tuple[int, bool]) -> None:
    memory = scene.newcomer(need_of(request, size))
    outcome = place(request, scene.fleet, memory)
    if isinstance(outcome, Evict):
        worker = scene.workers[outcome.worker_id]
        ending = {key for key, one in worker.occupants.items() if one.ending}
        left = worker.without(ending.union(outcome.keys))
        assert memory.squeezed(left) is not None
        assert all(left.pools[name].find(units) is not None for name, units in request.pieces.items())
        # each of them is needed
        for key in outcome.keys:
            kept = worker.without(ending.union(outcome.keys) - {key})
            fits = all(kept.pools[name].find(units) is not None for name, units in request.pieces.items())
            assert not fits or memory.squeezed(kept) is None


@given(
    st.integers(1, 64),
    st.lists(st.tuples(PRIORITIES, st.integers(1, 32), st.booleans()), max_size=5),
    st.integers(1, 32),
)
def test_the_share_that_counts_for_an_executor_without_a_deadline_is_what_agents_would_give_it(
    cores: int, there: list[tuple[int, int, bool]], wanted: int
) -> None:
    """Amounts are eighths of a core. An agent rounds each executor's cores to hundredths."""
    one, asked = WorkerState("w", cores=cores / 8, memory_mb=1000), list[CoreRequest]()
    for number, (priority, peak, shares) in enumerate(there):
        one.add(Occupant(f"a{number}/1", f"a{number}", priority, peak / 8, 1, shares=shares))
        left_s = None if shares else 60.0
        asked.append(CoreRequest(ExecutorKey(f"a{number}", "1"), peak / 8, 0.0, priority, left_s))
    new = ExecutorKey("new", "1")
    granted = arbitrate([*asked, CoreRequest(new, wanted / 8, 0.0, 50)], cores / 8, 0.01, 1.0)[new]
    assert math.isclose(granted, max(0.0, min(wanted / 8, one.share(50, wanted / 8))), abs_tol=0.08)

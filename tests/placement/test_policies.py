"""The policies and the weights of their scores, against the documents' worked examples, and what each promises."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.policies import (
    POLICIES,
    Pack,
    PickKx,
    Random,
    ResourcePickKx,
    RoundRobin,
    SmoothWrr,
    Spread,
    less_loaded,
    pick,
    sample,
    smooth,
)
from placement.scores import Largest, Weights, available, largest, parse_weights, total
from placement.worker import WorkerState
from stage_model.errors import BadInput
from tests.fakes.fleet import CPU_ONLY, names, occupied, request, worker

CORES_ONLY = Weights(cpu=1.0, gpu=0.0)


def heterogeneous() -> list[WorkerState]:
    """Make document 000's example: total 5, 6, 7, 8, load 3, 2, 1, 5, hence available 2, 4, 6, 3. No memory to speak of."""
    return [
        occupied(worker(f"n{number}", float(cores), 1), float(load), least_mb=1)
        for number, (cores, load) in enumerate([(5, 3), (6, 2), (7, 1), (8, 5)], 1)
    ]


MOST = Largest(cores=8.0, memory_mb=1, gpu_units=1)


def test_the_chances_of_pick_kx_are_the_documents() -> None:
    chances = [Fraction(x).limit_denominator(1000) for x in less_loaded([3.0, 2.0, 1.0, 5.0])]
    assert [chance / sum(chances) for chance in chances] == [Fraction(n, 33) for n in (8, 9, 10, 6)]


def test_the_chances_of_resource_pick_kx_are_the_documents() -> None:
    left = [available(one, request(), MOST, CORES_ONLY) for one in heterogeneous()]
    chances = [Fraction(a / sum(left)).limit_denominator(1000) for a in left]
    assert chances == [Fraction(n, 15) for n in (2, 4, 6, 3)]


def test_load_is_what_is_not_available() -> None:
    loads = [total(one, MOST, CORES_ONLY) - available(one, request(), MOST, CORES_ONLY) for one in heterogeneous()]
    # each divided by the largest worker's 8 cores and weighed by 0.9; memory: one of one MiB is taken
    assert loads == pytest.approx([0.9 * load / 8 + 0.1 for load in (3, 2, 1, 5)])


def test_smooth_weighted_round_robin_is_the_documents() -> None:
    nodes = [worker(f"n{number}") for number in range(1, 5)]
    current = {"n1": 3.5, "n2": 2.4, "n3": 6.2, "n4": 5.8}
    chosen = smooth(current, {"n1": 4.7, "n2": 5.0, "n3": 3.9, "n4": 6.2}, nodes)
    assert chosen.worker_id == "n4"
    assert current == pytest.approx({"n1": 8.2, "n2": 7.4, "n3": 10.1, "n4": -7.8})  # 12.0 - 19.8


def test_smooth_weighted_round_robin_chooses_in_proportion_and_evenly() -> None:
    nodes = [worker("a", 4.0, 4), worker("b", 2.0, 2), worker("c", 1.0, 1)]
    policy = SmoothWrr(random.Random(1).random)
    order = [policy(request(), nodes, largest(nodes), CPU_ONLY).worker_id for _ in range(14)]
    assert Counter(order) == {"a": 8, "b": 4, "c": 2}
    assert Counter(order[:7]) == {"a": 4, "b": 2, "c": 1}


def test_round_robin_goes_on_where_it_was() -> None:
    nodes = [worker(name) for name in "abc"]
    policy = RoundRobin(random.Random(1).random)
    assert [policy(request(), nodes, Largest(), CPU_ONLY).worker_id for _ in range(4)] == ["a", "b", "c", "a"]
    assert policy(request(), [nodes[0], nodes[2]], Largest(), CPU_ONLY).worker_id == "c"


def test_chances_become_choices() -> None:
    nodes = [worker(name) for name in "abcd"]
    rng = random.Random(7)
    counted = Counter(pick(nodes, [2, 4, 6, 3], rng.random).worker_id for _ in range(15_000))
    assert {name: round(count / 1000) for name, count in counted.items()} == {"a": 2, "b": 4, "c": 6, "d": 3}


@pytest.mark.parametrize("number", [0.0, 0.999999, 1 - 2**-53])
def test_a_chance_of_nothing_is_never_chosen(number: float) -> None:
    nodes = [worker(name) for name in "abc"]
    assert pick(nodes, [0.0, 0.3, 0.0], lambda: number).worker_id == "b"


def test_without_any_chance_each_is_alike() -> None:
    nodes = [worker(name) for name in "abcd"]
    assert pick(nodes, [0, 0, 0, 0], lambda: 0.6).worker_id == "c"


def test_pick_kx_without_load_or_with_one_candidate_is_uniform() -> None:
    assert less_loaded([0.0, 0.0]) == [1.0, 1.0]
    alone = [occupied(worker("a"), 1.0)]
    assert PickKx(lambda: 0.3)(request(), alone, Largest(), CPU_ONLY).worker_id == "a"


def test_a_sample_has_no_one_twice() -> None:
    nodes = [worker(str(number)) for number in range(20)]
    chosen = sample(nodes, 8, random.Random(3).random)
    assert len(set(names(chosen))) == 8


def test_spread_takes_the_emptiest_and_pack_the_fullest_that_fits() -> None:
    nodes = [occupied(worker("a", 4.0), 1.0), worker("b", 4.0), occupied(worker("c", 4.0), 3.0)]
    most = largest(nodes)
    assert Spread(lambda: 0.0)(request(), nodes, most, CPU_ONLY).worker_id == "b"
    assert Pack(lambda: 0.0)(request(), nodes, most, CPU_ONLY).worker_id == "c"


def test_pack_takes_the_emptiest_where_no_worker_has_room() -> None:
    nodes = [occupied(worker("a", 0.2), 1.0, shares=True), occupied(worker("b", 0.8), 1.0, shares=True)]
    assert Pack(lambda: 0.0)(request(), nodes, largest(nodes), CPU_ONLY).worker_id == "b"


def test_spread_takes_the_least_crowded_where_no_worker_has_cores_left() -> None:
    nodes = [occupied(worker("a", 4.0), 20.0), occupied(worker("b", 4.0), 3.0, 2.0, least_mb=50)]
    assert Spread(lambda: 0.0)(request(), nodes, largest(nodes), CPU_ONLY).worker_id == "b"


def test_use_of_lower_priority_is_ignored_when_placing() -> None:
    """Preemption at run time: the agent squeezes them."""
    nodes = [occupied(worker("a", 4.0), 4.0, priority=0), occupied(worker("b", 4.0), 1.0, priority=50)]
    most = largest(nodes)
    spread = Spread(lambda: 0.0)
    assert spread(request(priority=50), nodes, most, CPU_ONLY).worker_id == "a"
    assert spread(request(priority=0), nodes, most, CPU_ONLY).worker_id == "b"


@pytest.mark.parametrize(("number", "chosen"), [(0.0, "a"), (0.49, "b"), (0.99, "d")])
def test_random_is_each_alike(number: float, chosen: str) -> None:
    nodes = [worker(name) for name in "abcd"]
    assert Random(lambda: number)(request(), nodes, Largest(), CPU_ONLY).worker_id == chosen


def test_resource_pick_kx_never_takes_a_full_worker_while_another_has_room() -> None:
    nodes = [occupied(worker("a", 4.0, 1), 4.0, least_mb=1), occupied(worker("b", 4.0, 1), 3.9, least_mb=1)]
    policy = ResourcePickKx(random.Random(5).random)
    assert {policy(request(), nodes, largest(nodes), CPU_ONLY).worker_id for _ in range(50)} == {"b"}


@given(
    st.sampled_from(sorted(POLICIES)),
    st.lists(st.tuples(st.floats(0.1, 16), st.floats(0, 16)), min_size=1, max_size=12),
    st.integers(0, 2**32),
)
def test_every_policy_chooses_one_of_the_fitting_and_decides_alike_with_one_seed(
    name: str, sizes: list[tuple[float, float]], seed: int
) -> None:
    nodes = [occupied(worker(f"n{n:02}", cores), used) for n, (cores, used) in enumerate(sizes)]
    most = largest(nodes)
    runs = []
    for _ in range(2):
        policy = POLICIES[name](random.Random(seed).random)
        runs.append([policy(request(), nodes, most, CPU_ONLY).worker_id for _ in range(5)])
    assert runs[0] == runs[1]
    assert set(runs[0]) <= set(names(nodes))


@pytest.mark.parametrize("text", ["data", "data=-1", "date=1", "cpu=0.5,gpu=0.6", "cpu=2", "data=nan", "data=1,data=2"])
def test_weights_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--placement-weights"):
        parse_weights(text)


def test_cpu_and_gpu_say_each_other() -> None:
    assert parse_weights("gpu=0.25") == Weights(cpu=0.75, gpu=0.25)
    assert parse_weights("") == Weights()

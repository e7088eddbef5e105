"""Spillover: local, available, total, infeasible; filters and scores; making room; waiting for input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.data_wait import DataWait, Patience
from placement.filters import LASTING, PASSING, refusals
from placement.fleet import ENOUGH
from placement.labels import Requirement, parse_requirements
from placement.plan import Evict, Infeasible, PlaceAnswer, Placed, Squeeze, Wait, ever_fitting, needed_type, place, taking
from placement.policies import POLICIES
from placement.request import Request
from placement.resources import SCALE, Pool, ResourceSet
from placement.scores import parse_weights
from placement.topology import Location
from placement.worker import Occupant, WorkerState
from tests.fakes.fleet import Room, fleet, names, occupied, request, worker


def decided(asked: Request, *workers: WorkerState) -> PlaceAnswer:
    """Place a request that has 100 MiB of memory of its own."""
    return place(asked, fleet(*workers), Room())


def test_the_local_worker_comes_first_if_it_fits() -> None:
    found = decided(request(local="here"), worker("big", 8.0, host="far"), worker("small", 1.0, host="here"))
    assert found == Placed("small")


def test_a_full_local_worker_spills_over_to_one_with_room() -> None:
    full = occupied(worker("local", host="here"), 1.0, least_mb=950)
    assert decided(request(local="here"), full, worker("other", host="far")) == Placed("other")


def test_the_drivers_host_is_passed_over_where_its_planned_cores_leave_no_room() -> None:
    idle = worker("idle", 16.0, host="far")
    crowded = occupied(worker("small", 1.0, host="here"), 20.0)
    assert decided(request(local="here"), crowded, idle) == Placed("idle")
    # the agent squeezes those of lower priority
    low = occupied(worker("small", 1.0, host="here"), 20.0, priority=0)
    assert decided(request(local="here"), low, idle) == Placed("small")


def test_where_no_worker_has_room_the_policy_chooses_and_the_drivers_host_does_not_count() -> None:
    here, far = occupied(worker("a", 1.0, host="here"), 2.0), occupied(worker("b", 16.0, host="far"), 15.5)
    assert decided(request(local="here"), here, far) == Placed("b")


def test_a_worker_under_pressure_is_passed_over_while_another_would_do() -> None:
    idle = worker("idle", host="far")
    assert decided(request(local="here"), worker("short", host="here", pressed=True), idle) == Placed("idle")
    assert decided(request(), worker("short", pressed=True)) == Placed("short")


def test_a_demand_that_a_deadline_needs_has_no_room_on_a_smaller_worker() -> None:
    small, large = worker("small", host="here"), worker("large", 16.0, host="far")
    assert decided(request(cores=8.0, local="here"), small, large) == Placed("small")
    assert decided(request(cores=8.0, local="here", needs_peak=True), small, large) == Placed("large")


def test_an_executor_without_a_deadline_shares_a_large_worker_rather_than_have_less_on_an_idle_one() -> None:
    large = occupied(worker("large", 0.8), 1.0, shares=True)
    assert decided(request(), large, worker("least", 0.2)) == Placed("large")
    assert decided(request(), large, worker("small", 0.5)) == Placed("small")
    # an executor with a deadline has its cores first, and a second executor without one leaves each only 0.27
    assert decided(request(), occupied(worker("large", 0.8), 1.0), worker("least", 0.2)) == Placed("least")
    assert decided(request(), occupied(large, 1.0, shares=True), worker("middle", 0.3)) == Placed("middle")
    # an executor with a deadline takes no cores from executors that share, as long as other cores are free
    assert decided(request(cores=0.2, needs_peak=True), large, worker("least", 0.2)) == Placed("least")


HALVES = st.integers(1, 40).map(lambda number: number / 2)
"""Cores whose sums are exact."""


@given(
    st.lists(st.tuples(st.sampled_from((0.5, 1.0, 4.0, 16.0)), st.lists(HALVES, max_size=3)), min_size=1, max_size=6),
    HALVES,
    st.booleans(),
    st.sampled_from(sorted(POLICIES)),
)
def test_no_worker_without_room_is_taken_while_another_has_it_unless_without_a_deadline_it_has_more_cores_there(
    offered: list[tuple[float, list[float]]], cores: float, needs_peak: bool, policy: str
) -> None:
    workers = [
        occupied(worker(f"w{number}", has, host=f"h{number}"), *planned) for number, (has, planned) in enumerate(offered)
    ]
    roomy = [
        f"w{number}"
        for number, (has, planned) in enumerate(offered)
        if sum(planned) + (cores if needs_peak else min(cores, has)) <= has
    ]
    asked = request(cores=cores, needs_peak=needs_peak, policy=policy, local="h0")
    outcome = decided(asked, *workers)
    assert isinstance(outcome, Placed)
    if needs_peak and roomy:
        assert outcome.worker_id in roomy
    elif roomy:
        shares = {one.worker_id: one.share(50, cores) for one in workers}
        assert shares[outcome.worker_id] >= min(shares[name] for name in roomy)
    assert "w0" not in roomy or outcome.worker_id == "w0"


def test_where_nothing_is_free_it_waits_for_workers_that_are_large_enough() -> None:
    full = occupied(worker("full"), 1.0, least_mb=950)
    assert decided(request(), full, worker("tiny", memory_mb=50)) == Wait(("full",))


def test_what_fits_nowhere_is_infeasible() -> None:
    assert place(request(), fleet(worker("a"), worker("b")), Room(2000)) == Infeasible()
    assert decided(request()) == Infeasible()


def test_cpu_never_makes_an_executor_wait() -> None:
    assert decided(request(cores=16.0), occupied(worker("a", 0.2), 4.0, 4.0)) == Placed("a")


def test_pieces_and_ports_make_it_wait() -> None:
    gpu = worker("a", pieces=ResourceSet.of(gpu=1))
    gpu.add(Occupant("x/1", "x", 50, 1.0, 1, held={"gpu": {0: SCALE}}, ports=(8080,)))
    assert decided(request(pieces=ResourceSet.of(gpu=0.5)), gpu) == Wait(("a",))
    assert decided(request(ports=(8080,)), gpu) == Wait(("a",))
    assert decided(request(ports=(8081,)), gpu) == Placed("a")
    gpu.remove("x/1")
    assert decided(request(pieces=ResourceSet.of(gpu=0.5), ports=(8080,)), gpu) == Placed("a")


def test_a_worker_without_the_resource_never_does() -> None:
    assert decided(request(pieces=ResourceSet.of(fpga=1)), worker("a")) == Infeasible()


def test_labels_restrict() -> None:
    workers = worker("a", labels={"zone": "a"}), worker("b", labels={"zone": "b"})
    assert decided(request(labels=parse_requirements("zone=b")), *workers) == Placed("b")
    assert decided(request(labels=parse_requirements("zone=c")), *workers) == Infeasible()


def test_apart_counts_both_ways() -> None:
    shy = worker("a")
    shy.add(Occupant("x/1", "x", 50, 1.0, 1, group="db", apart=frozenset({"web"})))
    assert decided(request(group="web"), shy) == Wait(("a",))
    assert decided(request(apart=frozenset({"db"})), shy) == Wait(("a",))
    assert decided(request(group="batch"), shy) == Placed("a")


def test_one_executor_of_an_application_on_a_worker() -> None:
    taken = worker("a")
    taken.add(Occupant("new/1", "new", 50, 1.0, 1))
    assert decided(request(), taken) == Wait(("a",))


def test_data_comes_before_load_and_before_the_drivers_host() -> None:
    data = occupied(worker("data", host="d"), 0.9)
    others = worker("local", host="here"), worker("free", host="f")
    assert decided(request(prefer={"d": 1.0}, local="here"), data, *others) == Placed("data")


def test_the_rack_of_the_data_comes_before_other_racks() -> None:
    near = Location("h1", "rack1", "sw1")
    workers = fleet(
        worker("far", host="x", location=Location("h9", "rack9", "sw9")),
        worker("same-switch", host="y", location=Location("h2", "rack2", "sw1")),
        worker("same-rack", host="z", location=Location("h3", "rack1", "sw1")),
    )
    asked = request(prefer={"data": 1.0}, preferred_locations=(("data", near, 1.0),))
    assert place(asked, workers, Room()) == Placed("same-rack")
    workers.change(["same-rack"], [])
    assert place(asked, workers, Room()) == Placed("same-switch")


def test_among_many_workers_the_host_of_the_data_is_not_missed() -> None:
    workers = fleet(*(worker(f"w{number:04}", host=f"h{number}") for number in range(3 * ENOUGH)))
    for number in (1, 555, 77):
        for asked in (request(prefer={f"h{number}": 1.0}), request(local=f"h{number}")):
            assert place(asked, workers, Room()) == Placed(f"w{number:04}")


def test_a_weight_of_nothing_switches_a_score_off() -> None:
    workers = fleet(occupied(worker("data", host="d"), 0.9), worker("free", host="f"), weights=parse_weights("data=0"))
    assert place(request(prefer={"d": 1.0}), workers, Room()) == Placed("free")


def test_among_many_workers_only_enough_are_looked_at_and_all_have_their_turn() -> None:
    count = 5 * ENOUGH
    workers = fleet(*(worker(f"w{number:04}") for number in range(count)))
    chosen = {place(request(policy="random"), workers, Room()) for _ in range(3000)}
    assert len(workers.find(request(), 0, lambda _: True)) == ENOUGH
    assert len(chosen) > 0.9 * count


def test_a_decision_among_few_that_fit_finds_them_wherever_they_are() -> None:
    full = [occupied(worker(f"w{number:04}"), 1.0, least_mb=950) for number in range(3 * ENOUGH)]
    full[501].remove("w0501-app1/1")
    workers = fleet(*full)
    for _ in range(3):
        assert place(request(), workers, Room()) == Placed("w0501")


LABELS = st.dictionaries(st.sampled_from("xy"), st.sampled_from("ab"), max_size=2)
PIECES = st.dictionaries(st.sampled_from(("gpu", "ssd")), st.integers(1, 2).map(lambda n: n * SCALE), max_size=2)
REQUIREMENTS = st.builds(Requirement, st.sampled_from("xy"), st.sampled_from((None, "a", "b")), st.booleans())


@given(
    st.lists(st.tuples(LABELS, PIECES, st.integers(0, 2)), max_size=8),
    st.lists(REQUIREMENTS, max_size=2),
    PIECES,
    st.booleans(),
)
def test_it_waits_for_workers_that_no_lasting_filter_refuses_unless_one_is_free(
    offered: list[tuple[dict[str, str], dict[str, int], int]],
    labels: list[Requirement],
    pieces: dict[str, int],
    shy: bool,
) -> None:
    workers = [
        occupied(worker(f"w{number}", labels=labels, pieces=ResourceSet(pieces)), *[1.0] * there, least_mb=450)
        for number, (labels, pieces, there) in enumerate(offered)
    ]
    if shy and workers:
        occupied(workers[0], 1.0, least_mb=10, apart=frozenset({"new"}))
    asked = request(labels=tuple(labels), pieces=ResourceSet(pieces), group="new")
    ever = [one for one in workers if not refusals(LASTING, asked, one)]
    now = [one.worker_id for one in ever if not refusals(PASSING, asked, one) and one.free_mb >= 100]
    assert ever_fitting(asked, fleet(*workers), Room()) == ever
    outcome = place(asked, fleet(*workers), Room())
    if isinstance(outcome, Placed):
        assert outcome.worker_id in now
    else:
        assert not now
        assert outcome == (Wait(tuple(one.worker_id for one in ever)) if ever else Infeasible())


def test_the_worker_that_is_needed_has_its_labels_its_pieces_and_room_for_its_slots() -> None:
    asked = request(cores=1.98, pieces=ResourceSet.of(gpu=1), labels=parse_requirements("zone=a,ssd,!spot"))
    small = fleet(worker("small", pieces=ResourceSet.of(gpu=1)))
    found = needed_type(asked, small, Room(), lambda cores: round(100 * cores))
    assert str(found) == "2 cores, 256 MiB, gpu=1, ssd=true,zone=a"
    able = fleet(worker("able", pieces=ResourceSet.of(gpu=1), labels={"zone": "a", "ssd": "x"}))
    assert needed_type(asked, able, Room(), lambda _: 1) is None


# ---------------------------------------------------------------- who is ahead


def test_a_worker_that_one_ahead_could_use_is_left_to_it() -> None:
    small, large = worker("small"), worker("large", memory_mb=5000)
    kept = frozenset(one.worker_id for one in ever_fitting(request(), fleet(small, large), Room(3000)))
    assert decided(request(kept=kept), small, large) == Placed("small")
    assert decided(request(kept=kept), large) == Wait(("large",))


# ---------------------------------------------------------------- who makes room


def test_the_fewest_of_lower_priority_are_squeezed_but_none_on_a_worker_that_is_kept() -> None:
    two = occupied(worker("a"), 1.0, 1.0, priority=0, least_mb=500)
    one = occupied(worker("b"), 1.0, priority=0, least_mb=1000)
    room = Room(400, floors_mb=dict.fromkeys((*two.occupants, *one.occupants), 250))
    assert place(request(), fleet(two, one), room) == Squeeze("b", ("b-app1/1",))
    assert place(request(kept=frozenset({"b"})), fleet(two, one), room) == Squeeze("a", ("a-app1/1", "a-app2/1"))
    assert place(request(ports=(80,)), fleet(occupied(one, 0.0, least_mb=0, ports=(80,))), room) == Wait(("b",))


def test_evict_ends_the_fewest_where_squeezing_is_not_enough() -> None:
    low = occupied(worker("a"), 1.0, 1.0, priority=0, least_mb=500)
    assert decided(request(), low) == Wait(("a",))
    assert decided(request(evict=True), low) == Evict("a", ("a-app1/1",))
    assert decided(request(priority=0, evict=True), low) == Wait(("a",))


def test_no_further_executor_is_evicted_where_enough_are_ending() -> None:
    low = occupied(worker("a"), 1.0, priority=0, least_mb=0, ports=(80,), ending=True)
    both = fleet(low, occupied(worker("b"), 1.0, priority=50, ports=(80,)))
    assert place(request(ports=(80,), evict=True), both, Room()) == Wait(("a",))


def test_a_worker_takes_it_where_there_is_room_or_lower_priority_makes_room() -> None:
    low, high = occupied(worker("a"), 1.0, priority=0, least_mb=1000), occupied(worker("b"), 1.0, least_mb=1000)
    there, room = fleet(low, high, worker("c"), worker("d", memory_mb=50)), Room(400, floors_mb={"a-app1/1": 250})
    assert names(taking(request(), there, room)) == ["a", "c"]
    assert names(taking(request(), there, Room(400))) == ["c"]
    assert names(taking(request(evict=True), there, Room(400))) == ["a", "c"]
    assert names(taking(request(kept=frozenset("c")), there, room)) == ["a"]


# ---------------------------------------------------------------- waiting for its input

WAITS = DataWait(from_s=10.0, expected=2.0, move_s=30.0)


def patience(wait: str | float = 60.0, elapsed_s: float = 12.5, last: DataWait | None = None, **more: float) -> Patience:
    """Make the patience of an application with four tasks at first; running tasks take 100 s."""
    return Patience(wait, more.get("move_s", 30.0), 4, more.get("deadline_s"), elapsed_s, last, lambda _: 100.0, lambda: ())


def full_data_and_free() -> tuple[WorkerState, WorkerState]:
    return occupied(worker("data", host="d"), 1.0, least_mb=950), worker("free", host="f")


def test_its_wait_begins_goes_on_and_is_over_in_time() -> None:
    data, free = full_data_and_free()
    begun = decided(request(prefer={"d": 1.0}, patience=patience()), data, free)
    # E = TT * S * K / t: four waves of 30 s on the worker of one slot, one executor there that takes 100 s
    first = DataWait(from_s=12.5, expected=1.2, move_s=120.0)
    assert begun == Wait(("data",), data_wait=first)
    goes_on = decided(request(prefer={"d": 1.0}, patience=patience(60.0, 72.4, first)), data, free)
    assert goes_on == Wait(("data",), data_wait=DataWait(from_s=12.5, expected=1.2, move_s=120.0, waited_s=59.9))
    over = decided(request(prefer={"d": 1.0}, patience=patience(60.0, 72.5, first)), data, free)
    ended = DataWait(from_s=12.5, expected=1.2, move_s=120.0, waited_s=60.0, local=False)
    assert over == Placed("free", data_wait=ended)
    assert decided(request(prefer={"d": 1.0}, patience=patience(60.0, 73.0, ended)), data, free) == Placed("free")


def test_its_wait_is_over_when_a_worker_with_the_input_is_free() -> None:
    asked = request(prefer={"d": 1.0}, patience=patience(last=WAITS))
    found = decided(asked, worker("data", host="d"), worker("free", host="f"))
    assert found == Placed("data", data_wait=DataWait(from_s=10.0, expected=2.0, move_s=30.0, waited_s=2.5, local=True))


@pytest.mark.parametrize(("deadline_s", "most_s"), [(None, 90.0), (100.0, 10.0)])
def test_a_forecast_is_waited_for_three_times_the_move_and_a_tenth_of_the_deadline_at_most(
    deadline_s: float | None, most_s: float
) -> None:
    data, free = full_data_and_free()
    for elapsed_s, outcome in ((10 + most_s - 0.1, Wait), (10 + most_s, Placed)):
        more = {} if deadline_s is None else {"deadline_s": deadline_s}
        asked = request(prefer={"d": 1.0}, patience=patience("forecast", elapsed_s, WAITS, **more))
        assert isinstance(decided(asked, data, free), outcome)


def test_a_hopeless_forecast_is_not_waited_for() -> None:
    data, free = full_data_and_free()
    asked = request(prefer={"d": 1.0}, patience=patience("forecast", move_s=1.0))
    assert decided(asked, data, free) == Placed("free")


# ---------------------------------------------------------------- a worker's sums


def test_sums_of_a_worker_follow_its_occupants() -> None:
    one = worker("a", 4.0, pieces=ResourceSet.of(gpu=2))
    one.add(Occupant("x/1", "x", 0, 1.5, 300, held={"gpu": {1: 2500}}))
    one.add(Occupant("y/1", "y", 100, 2.0, 200))
    assert (one.free_mb, one.free_cores(0), one.free_cores(50)) == (500, 0.5, 2.0)
    assert one.free_pieces("gpu") == 2 * SCALE - 2500
    one.add(Occupant("x/1", "x", 0, 1.0, 300, held={"gpu": {1: 2500}}))
    assert (one.free_mb, one.free_cores(0), one.by_application) == (500, 1.0, {"x": 1, "y": 1})
    assert one.without({"x/1"}).free_cores(0) == 2.0
    one.remove("x/1")
    one.remove("y/1")
    one.remove("y/1")
    assert (one.free_mb, one.free_cores(0), one.by_application) == (1000, 4.0, {})
    assert one.pools["gpu"].free_units == Pool(2).free_units

"""Spillover: local, available, total, infeasible; filters, scores and explanations."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.choose import ENOUGH, Places, decide, explain
from placement.filters import LASTING, PASSING, refusals
from placement.ids import Pool
from placement.labels import Requirement, parse_requirements
from placement.places import Occupant
from placement.policies import Random, Spread
from placement.resources import SCALE, ResourceSet
from placement.scores import Weights, parse_weights
from placement.topology import Location
from stage_model.errors import BadInput
from tests.fakes.places import occupied, place, request

SPREAD = Spread(lambda: 0.0)
WEIGHTS = Weights()


def test_the_local_worker_comes_first_if_it_fits() -> None:
    places = Places([place("big", 8.0, host="far"), place("small", 1.0, host="here")])
    chosen = decide(request(local="here"), places, SPREAD, WEIGHTS).place
    assert chosen is not None
    assert chosen.worker_id == "small"


def test_a_full_local_worker_spills_over_to_one_with_room() -> None:
    full = occupied(place("local", host="here"), 1.0, least_mb=950)
    chosen = decide(request(local="here"), Places([full, place("other", host="far")]), SPREAD, WEIGHTS).place
    assert chosen is not None
    assert chosen.worker_id == "other"


def test_where_nothing_is_free_it_waits_for_those_that_are_large_enough() -> None:
    full = occupied(place("full"), 1.0, least_mb=950)
    decision = decide(request(), Places([full, place("tiny", memory_mb=50)]), SPREAD, WEIGHTS)
    assert (decision.place, decision.waits_for, decision.infeasible) == (None, ("full",), False)


def test_what_fits_nowhere_is_infeasible() -> None:
    decision = decide(request(memory_mb=2000), Places([place("a"), place("b")]), SPREAD, WEIGHTS)
    assert decision.infeasible
    assert decide(request(), Places(), SPREAD, WEIGHTS).infeasible


def test_cpu_never_makes_an_executor_wait() -> None:
    crowded = occupied(place("a", 0.2), 4.0, 4.0)
    chosen = decide(request(cores=16.0), Places([crowded]), SPREAD, WEIGHTS).place
    assert chosen is crowded


def test_pieces_and_ports_make_it_wait() -> None:
    gpu = place("a", pieces=ResourceSet.of(gpu=1))
    gpu.add(Occupant("x/1", "x", 50, 1.0, 1, held={"gpu": {0: SCALE}}, ports=(8080,)))
    assert decide(request(pieces=ResourceSet.of(gpu=0.5)), Places([gpu]), SPREAD, WEIGHTS).waits_for == ("a",)
    assert decide(request(ports=(8080,)), Places([gpu]), SPREAD, WEIGHTS).waits_for == ("a",)
    assert decide(request(ports=(8081,)), Places([gpu]), SPREAD, WEIGHTS).place is gpu
    gpu.remove("x/1")
    assert decide(request(pieces=ResourceSet.of(gpu=0.5), ports=(8080,)), Places([gpu]), SPREAD, WEIGHTS).place is gpu


def test_a_worker_without_the_resource_never_does() -> None:
    decision = decide(request(pieces=ResourceSet.of(fpga=1)), Places([place("a")]), SPREAD, WEIGHTS)
    assert decision.infeasible


def test_labels_restrict() -> None:
    places = Places([place("a", labels={"zone": "a"}), place("b", labels={"zone": "b"})])
    chosen = decide(request(labels=parse_requirements("zone=b")), places, SPREAD, WEIGHTS).place
    assert chosen is not None
    assert chosen.worker_id == "b"
    assert decide(request(labels=parse_requirements("zone=c")), places, SPREAD, WEIGHTS).infeasible


def test_apart_counts_both_ways() -> None:
    shy = place("a")
    shy.add(Occupant("x/1", "x", 50, 1.0, 1, group="db", apart=frozenset({"web"})))
    assert decide(request(group="web"), Places([shy]), SPREAD, WEIGHTS).waits_for == ("a",)
    assert decide(request(apart=frozenset({"db"})), Places([shy]), SPREAD, WEIGHTS).waits_for == ("a",)
    assert decide(request(group="batch"), Places([shy]), SPREAD, WEIGHTS).place is shy


def test_one_executor_of_an_application_on_a_worker() -> None:
    taken = place("a")
    taken.add(Occupant("new/1", "new", 50, 1.0, 1))
    assert decide(request(), Places([taken]), SPREAD, WEIGHTS).waits_for == ("a",)


def test_data_comes_before_load_and_before_the_drivers_host() -> None:
    data = occupied(place("data", host="d"), 0.9)
    places = Places([data, place("local", host="here"), place("free", host="f")])
    chosen = decide(request(prefer={"d": 1.0}, local="here"), places, SPREAD, WEIGHTS).place
    assert chosen is data


def test_the_rack_of_the_data_comes_before_other_racks() -> None:
    near = Location("h1", "rack1", "sw1")
    places = Places(
        [
            place("far", host="x", location=Location("h9", "rack9", "sw9")),
            place("same-switch", host="y", location=Location("h2", "rack2", "sw1")),
            place("same-rack", host="z", location=Location("h3", "rack1", "sw1")),
        ]
    )
    asked = request(prefer={"data": 1.0}, preferred_locations=(("data", near, 1.0),))
    chosen = decide(asked, places, SPREAD, WEIGHTS).place
    assert chosen is not None
    assert chosen.worker_id == "same-rack"
    places.change(["same-rack"], [])
    chosen = decide(asked, places, SPREAD, WEIGHTS).place
    assert chosen is not None
    assert chosen.worker_id == "same-switch"


def test_two_addresses_of_one_host_share_its_data_and_its_own_rack_counts_once() -> None:
    near, far = Location("h1", "rack1"), Location("h2", "rack1")
    places = Places([place("other-name", host="b", location=near), place("same-rack", host="c", location=far)])
    asked = request(prefer={"a": 1.0}, preferred_locations=(("a", near, 1.0),))
    whys = {why.worker_id: why.scores for why in explain(asked, places, WEIGHTS)}
    assert whys == {"other-name": {"data": 4.0, "rack": 0.0}, "same-rack": {"data": 0.0, "rack": 2.0}}


def test_among_many_workers_the_host_of_the_data_is_not_missed() -> None:
    places = Places([place(f"w{number:04}", host=f"h{number}") for number in range(3 * ENOUGH)])
    for number in (1, 555, 77):
        chosen = decide(request(prefer={f"h{number}": 1.0}), places, SPREAD, WEIGHTS).place
        assert chosen is not None
        assert chosen.host == f"h{number}"
        local = decide(request(local=f"h{number}"), places, SPREAD, WEIGHTS).place
        assert local is not None
        assert local.host == f"h{number}"


def test_a_weight_of_nothing_switches_a_score_off() -> None:
    places = Places([occupied(place("data", host="d"), 0.9), place("free", host="f")])
    chosen = decide(request(prefer={"d": 1.0}), places, SPREAD, parse_weights("data=0")).place
    assert chosen is not None
    assert chosen.worker_id == "free"


def test_among_many_workers_only_enough_are_looked_at_and_all_have_their_turn() -> None:
    count = 5 * ENOUGH
    places = Places([place(f"w{number:04}") for number in range(count)])
    policy = Random(random.Random(1).random)
    chosen = {decide(request(), places, policy, WEIGHTS).place for _ in range(3000)}
    assert len(places.fitting(request())) == ENOUGH
    assert len(chosen) > 0.9 * count


def test_a_decision_among_few_that_fit_finds_them_wherever_they_are() -> None:
    workers = [occupied(place(f"w{number:04}"), 1.0, least_mb=950) for number in range(3 * ENOUGH)]
    workers[501].remove("w0501-app1/1")
    places = Places(workers)
    for _ in range(3):
        assert decide(request(), places, SPREAD, WEIGHTS).place is workers[501]


LABELS = st.dictionaries(st.sampled_from("xy"), st.sampled_from("ab"), max_size=2)
PIECES = st.dictionaries(st.sampled_from(("gpu", "ssd")), st.integers(1, 2).map(lambda n: n * SCALE), max_size=2)
REQUIREMENTS = st.builds(Requirement, st.sampled_from("xy"), st.sampled_from((None, "a", "b")), st.booleans())


@given(
    st.lists(st.tuples(LABELS, PIECES, st.integers(0, 2)), max_size=8),
    st.lists(REQUIREMENTS, max_size=2),
    PIECES,
    st.booleans(),
)
def test_those_that_fit_are_those_that_no_filter_refuses(
    workers: list[tuple[dict[str, str], dict[str, int], int]],
    labels: list[Requirement],
    pieces: dict[str, int],
    shy: bool,
) -> None:
    places = [
        occupied(place(f"w{number}", labels=labels, pieces=ResourceSet(pieces)), *[1.0] * there, least_mb=450)
        for number, (labels, pieces, there) in enumerate(workers)
    ]
    if shy and places:
        occupied(places[0], 1.0, least_mb=10, apart=frozenset({"new"}))
    wanted = request(labels=tuple(labels), pieces=ResourceSet(pieces), group="new")
    ever = [one for one in places if not refusals(LASTING, wanted, one)]
    assert Places(places).ever(wanted) == ever
    assert Places(places).fitting(wanted) == [one for one in ever if not refusals(PASSING, wanted, one)]


# ---------------------------------------------------------------- a worker's sums


def test_sums_of_a_worker_follow_its_occupants() -> None:
    one = place("a", 4.0, pieces=ResourceSet.of(gpu=2))
    one.add(Occupant("x/1", "x", 0, 1.5, 300, held={"gpu": {1: 2500}}))
    one.add(Occupant("y/1", "y", 100, 2.0, 200))
    assert (one.free_mb, one.busy_cores(0), one.busy_cores(50)) == (500, 3.5, 2.0)
    assert one.free_pieces("gpu") == 2 * SCALE - 2500
    one.add(Occupant("x/1", "x", 0, 1.0, 300, held={"gpu": {1: 2500}}))
    assert (one.free_mb, one.busy_cores(0), one.by_application) == (500, 3.0, {"x": 1, "y": 1})
    assert one.without({"x/1"}).busy_cores(0) == 2.0
    one.remove("x/1")
    one.remove("y/1")
    one.remove("y/1")
    assert (one.free_mb, one.busy_cores(0), one.by_application) == (1000, 0, {})
    assert one.pools["gpu"].free_units == Pool(2).free_units


# ---------------------------------------------------------------- why


def test_every_worker_is_explained() -> None:
    places = Places(
        [
            place("a-wrong", labels={"zone": "b"}, host="h"),
            occupied(place("b-full", labels={"zone": "a"}, host="h"), 1.0, least_mb=950),
            occupied(place("c-fits", labels={"zone": "a"}, host="d"), 0.4),
            place("d-far", labels={"zone": "a"}, host="h"),
        ]
    )
    asked = request(labels=parse_requirements("zone=a"), prefer={"d": 0.75}, local="h")
    whys = explain(asked, places, WEIGHTS, lambda place: "each would have 10 MiB")
    assert [w.worker_id for w in whys] == ["a-wrong", "b-full", "c-fits", "d-far"]
    assert whys[0].refused == (("labels", "its labels do not have zone=a"),)
    assert whys[1].refused == (("memory", "each would have 10 MiB"),)
    assert whys[2].scores == {"data": 3.0}  # 4.0 times 0.75
    assert whys[2].available == pytest.approx(0.9 * 0.6 + 0.1 * 0.9)
    assert [w.kept for w in whys] == [False, False, True, False]
    assert [w.local for w in whys] == [True, True, False, True]


def test_what_is_lacking_is_named() -> None:
    half = place("a", pieces=ResourceSet.of(gpu=2))
    half.add(Occupant("x/1", "x", 50, 1.0, 1, held={"gpu": {0: 5000}}))
    half.add(Occupant("y/1", "y", 50, 1.0, 1, held={"gpu": {1: 5000}}))
    whys = explain(request(pieces=ResourceSet.of(gpu=0.75)), Places([half]), WEIGHTS)
    assert whys[0].refused == (("free-resources", "1 gpu is free, of no one piece"),)
    whys = explain(request(pieces=ResourceSet.of(gpu=3)), Places([half]), WEIGHTS)
    assert whys[0].refused == (("resources", "it has 2 gpu, 3 wanted"),)


@pytest.mark.parametrize("text", ["data", "data=-1", "date=1", "cpu=0.5,gpu=0.6", "cpu=2", "data=nan", "data=1,data=2"])
def test_weights_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="accepted: "):
        parse_weights(text)


def test_cpu_and_gpu_say_each_other() -> None:
    assert parse_weights("gpu=0.25") == Weights(cpu=0.75, gpu=0.25)
    assert parse_weights("") == Weights()

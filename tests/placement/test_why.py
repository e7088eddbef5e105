"""Placement's decision in words."""

from __future__ import annotations

import pytest

from placement.labels import parse_requirements
from placement.resources import ResourceSet
from placement.topology import Location
from placement.why import explain, why_waiting
from placement.worker import Occupant
from tests.fakes.fleet import Room, fleet, occupied, request, worker
from tests.fakes.refusals import assert_names


def test_every_worker_is_explained() -> None:
    workers = fleet(
        worker("a-wrong", labels={"zone": "b"}, host="h"),
        occupied(worker("b-full", labels={"zone": "a"}, host="h"), 1.0, least_mb=950),
        occupied(worker("c-fits", labels={"zone": "a"}, host="d"), 0.4),
        worker("d-far", labels={"zone": "a"}, host="h"),
    )
    asked = request(labels=parse_requirements("zone=a"), prefer={"d": 0.75}, local="h")
    whys = explain(asked, workers, Room())
    assert [w.worker_id for w in whys] == ["a-wrong", "b-full", "c-fits", "d-far"]
    assert whys[0].refused == (("labels", "its labels do not have zone=a"),)
    assert whys[1].refused == (("memory", "no 100 MiB on b-full"),)
    assert whys[2].scores == {"data": 3.0}  # 4.0 times 0.75
    assert whys[2].available == pytest.approx(0.9 * 0.6 + 0.1 * 0.9)
    assert [w.kept for w in whys] == [False, False, True, False]
    assert [w.local for w in whys] == [True, True, False, True]


def test_a_drivers_host_with_too_few_free_cores_is_crowded_and_not_kept() -> None:
    workers = fleet(occupied(worker("here", 1.0, host="h"), 20.0), worker("idle", 16.0, host="far"))
    here, idle = explain(request(local="h"), workers, Room())
    assert (here.local, here.free_cores, here.crowded, here.kept) == (True, -19.0, True, False)
    assert (idle.local, idle.free_cores, idle.crowded, idle.kept) == (False, 16.0, False, True)


def test_what_is_lacking_is_named() -> None:
    half = worker("a", pieces=ResourceSet.of(gpu=2))
    half.add(Occupant("x/1", "x", 50, 1.0, 1, held={"gpu": {0: 5000}}))
    half.add(Occupant("y/1", "y", 50, 1.0, 1, held={"gpu": {1: 5000}}))
    for asked, room, name, amounts in (
        (request(pieces=ResourceSet.of(gpu=0.75)), Room(), "free-resources", ["1 gpu"]),
        (request(pieces=ResourceSet.of(gpu=3)), Room(), "resources", ["2 gpu", "3"]),
        (request(), Room(2000), "memory-size", ["1000 MiB"]),
    ):
        [(refused, reason)] = explain(asked, fleet(half), room)[0].refused
        assert refused == name
        assert_names(reason, *amounts)


def test_who_would_be_squeezed_and_who_is_ahead_is_said() -> None:
    low = occupied(worker("a"), 1.0, priority=0, least_mb=1000)
    room = Room(floors_mb={"a-app1/1": 500})
    [(name, reason)] = explain(request(), fleet(low), room)[0].refused
    assert (name, "1 of lower priority" in reason) == ("memory", True)
    asked = request(ahead=1, kept=frozenset({"a"}))
    [(name, reason)] = explain(asked, fleet(low), room)[0].refused
    assert (name, "ahead" in reason) == ("memory", True)
    assert "1 ahead" in why_waiting(asked, fleet(low), room)


def test_workers_with_the_same_reason_are_named_together() -> None:
    assert "no worker" in why_waiting(request(), fleet(), Room())
    wrong = fleet(*(worker(name) for name in "abcd"), worker("e", labels={"zone": "a"}))
    assert why_waiting(request(labels=parse_requirements("zone=a")), wrong, Room()) == "no 100 MiB on e"
    asked = request(labels=parse_requirements("zone=b"))
    assert_names(why_waiting(asked, wrong, Room()), "a, b and 3 more", "zone=b")


def test_two_addresses_of_one_host_share_its_data_and_its_own_rack_counts_once() -> None:
    near, far = Location("h1", "rack1"), Location("h2", "rack1")
    workers = fleet(worker("other-name", host="b", location=near), worker("same-rack", host="c", location=far))
    asked = request(prefer={"a": 1.0}, preferred_locations=(("a", near, 1.0),))
    whys = {why.worker_id: why.scores for why in explain(asked, workers, Room())}
    assert whys == {"other-name": {"data": 4.0, "rack": 0.0}, "same-rack": {"data": 0.0, "rack": 2.0}}

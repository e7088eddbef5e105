"""Each fault of a machine that wants to join is one sentence, which names what is wrong and where it is mended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from controller.local.join_faults import Here, join_faults
from controller.local.meeting import CLOCK_S, clock_fault
from controller.runtime.table import RUNTIMES
from controller.wire.joining import DriverNeeds, JoinFound
from tests.fakes.refusals import assert_names

NEEDS = DriverNeeds(
    spark="/opt/spark", jar="/opt/pace/bridge.jar", java="/opt/jdk", python="/opt/env/python3", version="3.11"
)
FOUND = JoinFound(taken=False, reached=True, port=40001, needs=NEEDS)
HERE = Here(python="3.11", address="10.0.0.7", port=40002)
HERE_SIDE, THERE = "here", "on the master's machine"


def faults(found: JoinFound = FOUND, here: Here = HERE, runtime: str = "process") -> list[str]:
    return join_faults("m2", "10.0.0.5", RUNTIMES[runtime], found, here)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_machine_that_has_all_joins(runtime: str) -> None:
    assert faults(runtime=runtime) == []


def test_what_the_master_does_not_know_is_not_asked_for() -> None:
    unknown = JoinFound(taken=False, reached=True)
    assert faults(unknown, Here()) == []


def lacking(path: str) -> dict[str, Any]:
    return {"missing": frozenset((path,))}


@pytest.mark.parametrize(
    ("found", "here", "named"),
    [
        ({}, lacking(NEEDS.spark), (NEEDS.spark, "the same Spark", HERE_SIDE)),
        ({}, lacking(NEEDS.jar), (NEEDS.jar, "release of Sparkpace", HERE_SIDE)),
        ({}, lacking(NEEDS.java), (NEEDS.java, "same JDK", HERE_SIDE)),
        ({}, lacking(NEEDS.python), (NEEDS.python, "same env", HERE_SIDE)),
        ({}, {"python": "3.13"}, (f"{NEEDS.python} is Python 3.13 here", f"Python 3.11 {THERE}")),
        ({}, {"python": ""}, (f"{NEEDS.python} does not run here", f"Python 3.11 {THERE}")),
        ({"taken": True}, {}, ("worker m2", "--worker-id here", f"{THERE} with `sparkpace token m2 --revoke`")),
        ({"reached": False}, {}, ("10.0.0.7 at port 40002", "this machine's firewall")),
        ({}, {"greeted": False}, ("10.0.0.5 at port 40001", "firewall of the master's machine")),
        (
            {"reached": False, "resolves": False},
            {"address": "pluto"},
            ("'pluto'", f"does not resolve {THERE}", "--host here", "resolver"),
        ),
        ({}, {"unknown": "pluto"}, ("'pluto'", "/etc/hosts", "10.0.0.7", HERE_SIDE)),
    ],
)
def test_a_fault_names_where_it_is_mended(found: dict[str, Any], here: dict[str, Any], named: tuple[str, ...]) -> None:
    [said] = faults(structs.replace(FOUND, **found), replace(HERE, **here))
    assert_names(said, *named)


def test_executors_in_containers_have_their_images_java_and_those_of_others_need_no_path() -> None:
    assert faults(here=replace(HERE, missing=frozenset((NEEDS.java,))), runtime="docker") == []
    everything = frozenset((NEEDS.spark, NEEDS.jar, NEEDS.java, NEEDS.python))
    assert faults(here=replace(HERE, missing=everything, python="", unknown="pluto"), runtime="adopt") == []


def test_all_faults_are_named_at_once() -> None:
    assert len(faults(structs.replace(FOUND, taken=True, reached=False), replace(HERE, greeted=False, python="3.13"))) == 4


@given(st.floats(-1e5, 1e5), st.floats(1e9, 2e9))
def test_clocks_may_differ_by_a_little_in_either_direction(ahead_s: float, master_s: float) -> None:
    here_s = master_s + ahead_s
    said = clock_fault(master_s, here_s)
    assert bool(said) == (abs(here_s - master_s) > CLOCK_S)
    if said:
        assert_names(said, "ahead of" if ahead_s > 0 else "behind")


def test_a_clock_that_is_a_day_behind() -> None:
    assert_names(clock_fault(1e9, 1e9 - 86400), "clock of this machine is 1d behind", "time server")

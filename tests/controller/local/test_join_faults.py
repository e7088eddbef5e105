"""Each fault of a machine that wants to join is one sentence, which names what is wrong and where it is mended."""

from __future__ import annotations

from dataclasses import replace

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


@pytest.mark.parametrize(
    ("path", "named"),
    [("spark", "the same Spark"), ("jar", "release of Sparkpace"), ("java", "same JDK"), ("python", "same env")],
)
def test_a_path_that_is_missing_is_named(path: str, named: str) -> None:
    missing = str(getattr(NEEDS, path))
    [said] = faults(here=replace(HERE, missing=frozenset((missing,))))
    assert_names(said, missing, named, HERE_SIDE)


def test_executors_in_containers_have_their_images_java_and_those_of_others_need_no_path() -> None:
    assert faults(here=replace(HERE, missing=frozenset((NEEDS.java,))), runtime="docker") == []
    everything = frozenset((NEEDS.spark, NEEDS.jar, NEEDS.java, NEEDS.python))
    assert faults(here=replace(HERE, missing=everything, python=""), runtime="adopt") == []


@pytest.mark.parametrize(
    ("version", "named"), [("3.13", f"{NEEDS.python} is Python 3.13 here"), ("", f"{NEEDS.python} does not run here")]
)
def test_another_python_is_named_with_both_versions(version: str, named: str) -> None:
    [said] = faults(here=replace(HERE, python=version))
    assert_names(said, NEEDS.python, named, "Python 3.11 on the master's machine")


def test_a_name_that_is_taken() -> None:
    [said] = faults(structs.replace(FOUND, taken=True))
    assert_names(said, "worker m2", "--worker-id here", f"{THERE} with `sparkpace token m2 --revoke`")


def test_a_firewall_in_either_direction_is_mended_on_its_own_side() -> None:
    [said] = faults(structs.replace(FOUND, reached=False))
    assert_names(said, "10.0.0.7 at port 40002", "this machine's firewall")
    [said] = faults(here=replace(HERE, greeted=False))
    assert_names(said, "10.0.0.5 at port 40001", "firewall of the master's machine")


def test_a_name_that_the_masters_machine_does_not_know_is_told_from_a_firewall() -> None:
    [said] = faults(structs.replace(FOUND, reached=False, resolves=False), replace(HERE, address="pluto"))
    assert_names(said, "'pluto'", "does not resolve on the master's machine", "--host here", "resolver")


def test_a_machine_that_does_not_resolve_its_own_name() -> None:
    here = replace(HERE, unknown="pluto")
    [said] = faults(here=here)
    assert_names(said, "'pluto'", "/etc/hosts", "10.0.0.7", HERE_SIDE)
    assert faults(here=here, runtime="adopt") == []


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

"""Further work that is reckoned with when the arguments differ from those of all runs that taught."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.forecast.estimate import estimate
from stage_model.forecast.further import MOST_FURTHER, Grounds, further_share, grounds, marks
from stage_model.history.profile import RunRecord, profile
from tests.fakes.records import run, stage

works = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=20)


def ran(name: str, *arguments: str, work_core_s: float = 10.0, **changed: object) -> RunRecord:
    return run(name, 1, stage("x", work_core_s=work_core_s), arguments=arguments, **changed)


def test_one_run_says_nothing_so_as_much_again_may_come() -> None:
    assert further_share([10.0], 10.0) == 1.0


def test_each_further_run_that_needed_the_same_halves_it() -> None:
    assert [further_share([10.0] * runs, 10.0) for runs in (2, 3, 4)] == [0.5, 0.25, 0.125]


def test_runs_that_differ_may_differ_again() -> None:
    # the next one may exceed 24 by as much as 24 exceeds 12
    assert further_share([12.0, 24.0], 24.0) == pytest.approx(1.0)
    # planned as the smaller one went: 48 of 12
    assert further_share([12.0, 24.0], 12.0) == pytest.approx(3.0)
    # that one was tiny says little when the others are alike
    assert further_share([0.1, 10.0, 10.0, 10.0], 10.0) == pytest.approx(0.125)


def test_without_work_to_compare_as_much_again_may_come() -> None:
    assert further_share([], 10.0) == further_share([0.0], 10.0) == further_share([10.0], 0.0) == 1.0


def test_a_profile_that_claims_anything_gives_a_finite_number() -> None:
    assert further_share([1e12, 5e-324], 1e-300) == further_share([1e12], 5e-324) == MOST_FURTHER


@given(works, st.floats(0.01, 1e6))
def test_it_covers_the_greatest_run_and_never_vanishes(known: list[float], planned: float) -> None:
    further = further_share(known, planned)
    assert further > 0
    assert planned * (1 + further) >= max(known) * (1 - 1e-9) or further == MOST_FURTHER


@given(works, st.integers(0, 19))
def test_a_further_run_that_needed_what_one_before_it_did_never_makes_it_larger(known: list[float], place: int) -> None:
    planned = known[-1]
    alike = sorted(known)[: place + 1][-1]
    assert further_share([*known, alike], planned) <= further_share(known, planned) + 1e-9


def test_a_run_with_these_arguments_leaves_nothing_open() -> None:
    runs = [ran("a", "12"), ran("b", "24"), ran("c", "12")]
    assert grounds(runs, runs[-1], ("12",)) == Grounds(runs=3, same_arguments=2)


def test_runs_of_the_same_other_arguments_are_one_experience() -> None:
    one = [ran("a", "12"), ran("b", "12"), ran("c", "12")]
    assert grounds(one, one[-1], ("24",)) == Grounds(runs=3, same_arguments=0, further=1.0)
    two = [ran("a", "11"), ran("b", "12"), ran("c", "12")]
    assert grounds(two, two[-1], ("24",)) == Grounds(runs=3, same_arguments=0, further=0.5)


def test_arguments_that_are_not_known_tell_neither() -> None:
    logs = [run("a", 1, stage("x"))]
    assert grounds(logs, logs[0], ("12",)) == Grounds(runs=1, same_arguments=None)
    assert grounds([ran("a", "12")], ran("a", "12"), None) == Grounds(runs=1, same_arguments=None)
    # of a mixture those count that are known
    assert grounds([*logs, ran("b", "12")], logs[0], ("24",)) == Grounds(runs=2, same_arguments=0, further=1.0)


def test_only_cpu_that_was_measured_alike_is_compared() -> None:
    runs = [ran("a", "1", work_core_s=90.0, cpu_source="executor"), ran("b", "2"), ran("c", "3")]
    assert grounds(runs, runs[-1], ("4",)).further == 0.5


def test_an_estimate_knows_what_it_rests_on() -> None:
    runs = [ran("a", "12"), ran("b", "24", complete=False)]
    assert estimate(profile("k", runs), ("24",)).grounds == Grounds(runs=1, same_arguments=0, further=1.0)
    assert estimate(profile("k", runs), ("12",)).grounds == Grounds(runs=1, same_arguments=1)
    assert estimate(profile("k", runs)).grounds == Grounds(runs=1, same_arguments=None)


def test_a_call_site_that_comes_again_marks_nothing() -> None:
    names = ["csv at app.py:3", "start at app.py:9", "start at app.py:9", "start at app.py:11", "save at app.py:20"]
    # lines do not count, as edits move them
    assert marks(names) == {0, 4}

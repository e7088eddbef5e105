"""The basis of a forecast, in one structure and one sentence."""

from __future__ import annotations

from controller.master.core.lesson import basis
from stage_model.forecast.further import Grounds


def test_without_a_profile_no_run_has_taught() -> None:
    found = basis(None)
    assert (found.runs, found.same_arguments, found.further, found.recognised) == (0, None, 0.0, None)
    assert found.sentence


def test_runs_with_these_arguments_are_counted_among_all() -> None:
    some = basis(Grounds(runs=5, same_arguments=3)).sentence
    assert "5 runs" in some
    assert "3 of them" in some
    every = basis(Grounds(runs=1, same_arguments=1)).sentence
    assert "1 run with the same arguments" in every


def test_other_arguments_are_said_with_what_is_kept_for_them() -> None:
    found = basis(Grounds(runs=4, same_arguments=0, further=0.125))
    assert (found.runs, found.same_arguments, found.further) == (4, 0, 0.125)
    for value in ("4 runs", "other arguments", "12%"):
        assert value in found.sentence


def test_arguments_that_are_not_known_are_not_called_the_same() -> None:
    found = basis(Grounds(runs=2, same_arguments=None))
    assert (found.runs, found.same_arguments) == (2, None)
    assert "same" not in found.sentence
    assert "other" not in found.sentence


def test_what_is_recognised_and_since_when_it_is_late_come_last() -> None:
    found = basis(Grounds(runs=2, same_arguments=2), recognised=0.973, late_since_s=75.0)
    assert (found.recognised, found.late_since_s) == (0.973, 75.0)
    first, second, third = found.sentence.split("; ")
    assert "2 runs" in first
    assert "97%" in second
    assert "1m15s" in third


def test_stages_that_no_run_teaches_are_said() -> None:
    assert "undisturbed" not in basis(Grounds(runs=1, same_arguments=1)).sentence
    assert "1 stage " in basis(Grounds(runs=1, same_arguments=1, disturbed=1)).sentence
    assert "2 stages " in basis(Grounds(runs=1, same_arguments=1, disturbed=2)).sentence

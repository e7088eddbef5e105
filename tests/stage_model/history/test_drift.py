from __future__ import annotations

import math
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.main import main
from controller.runs.profile_store import ProfileStore
from stage_model.history.drift import CHANCE, LEAST_RUNS, Drift, drift, pettitt
from stage_model.history.profile import Profile, profile
from tests.fakes.records import run, stage


def known(*works: float, read: int = 1000) -> Profile:
    runs = [
        run(f"r{i}", i * 86_400_000, stage("x", work_core_s=w * read / 1000, input_records=read)) for i, w in enumerate(works)
    ]
    return profile("k", runs)


def test_a_step_is_found_with_its_run_and_its_size() -> None:
    found = drift(known(*[10.0] * 6, *[12.0] * 6))
    assert found.since_ms == 6 * 86_400_000
    assert found.change == pytest.approx(0.2)


def test_equal_runs_do_not_drift() -> None:
    assert drift(known(*[10.0] * 12)).change is None


def test_larger_input_is_no_drift() -> None:
    runs = [*known(*[10.0] * 6).runs, *known(*[0.0] * 6, *[10.0] * 6, read=2000).runs[6:]]
    assert drift(profile("k", runs)).change is None


def test_the_least_runs_are_those_whose_clearest_change_is_no_chance() -> None:
    for count in range(2, LEAST_RUNS + 1):
        half = count // 2
        _, chance = pettitt([0.0] * half + [1.0] * (count - half))
        assert (chance <= CHANCE) == (count == LEAST_RUNS)


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=20))
def test_the_order_read_backwards_is_as_probable(values: list[float]) -> None:
    place, chance = pettitt(values)
    assert 0 < place < len(values)
    assert 0 <= chance <= 1
    assert pettitt(values[::-1])[1] == chance


def test_nothing_is_said_of_too_few_runs() -> None:
    assert drift(known(*[10.0] * 10)) == Drift(profile="k", runs=10)


def test_the_command_says_it_in_a_sentence(tmp_path: Path) -> None:
    ProfileStore(tmp_path / "profiles").add(known(*[10.0] * 6, *[12.0] * 6))
    chance = 2 * math.exp(-6 * (6 * 6) ** 2 / (12**3 + 12**2))  # each of six runs is above each of the six before
    answer = CliRunner().invoke(main, ["profile", "drift", "--home", str(tmp_path), "k"])
    assert answer.stdout == f"slower by 20% since the run of 1970-01-07 (12 runs, chance {chance:.1%})\n", answer.output

"""Stage deadlines and initial cores against document 004's formulas. Expected numbers are derived next to each assert."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.deadlines import initial_cores, omega, round_up, stage_deadline, stage_deadlines

durations = st.lists(st.floats(min_value=0.01, max_value=1e4), min_size=1, max_size=30)
share = st.floats(min_value=0, max_value=1)


def test_omega_mixes_equal_shares_and_profiled_shares() -> None:
    # |R| = 3; d = (10 + 20 + 30) / 20 = 3... of the second; of the first 60 / 10 = 6.
    assert omega(3, 60, 20, 0.33) == pytest.approx(0.33 * 3 + 0.67 * 3)
    assert omega(3, 60, 10, 0.33) == pytest.approx(0.33 * 3 + 0.67 * 6)


def test_a_stage_deadline_is_its_share_of_what_is_left() -> None:
    # (0.95 * 100 - 5) / (0.33 * 3 + 0.67 * 6) = 90 / 5.01
    expected = 90 / 5.01
    got = stage_deadline([10, 20, 30], 0, deadline_s=100, spent_s=5, alpha=0.95, beta=0.33)
    assert got == pytest.approx(expected)


def test_beta_0_splits_as_the_profile_and_beta_1_equally() -> None:
    def split(index: int, beta: float) -> float:
        return stage_deadline([10, 20, 30], index, deadline_s=120, spent_s=0, alpha=1, beta=beta)

    # The profile took 60 s, there are 120: each stage may take twice its duration.
    assert [split(i, 0) for i in range(3)] == pytest.approx([20, 40, 60])
    assert [split(i, 1) for i in range(3)] == pytest.approx([40, 40, 40])


@given(st.floats(min_value=0, max_value=1e4), share, share, st.floats(0, 1e5), st.floats(0, 1e5))
def test_the_last_stage_gets_all_the_time_left(
    duration_s: float, alpha: float, beta: float, deadline_s: float, spent_s: float
) -> None:
    assert omega(1, duration_s, duration_s, beta) == 1
    got = stage_deadline([duration_s], 0, deadline_s=deadline_s, spent_s=spent_s, alpha=alpha, beta=beta)
    assert got == max(0.0, alpha * deadline_s - spent_s)


@given(st.lists(st.floats(0, 1e4), max_size=20), share, share, st.floats(0, 1e5), st.floats(0, 1e3))
def test_deadlines_of_all_stages_are_those_of_each_behind_the_others(
    durations_s: list[float], alpha: float, beta: float, deadline_s: float, spent_s: float
) -> None:
    given_s, left = {"deadline_s": deadline_s, "alpha": alpha, "beta": beta}, spent_s
    for index, length_s in enumerate(stage_deadlines(durations_s, spent_s=spent_s, **given_s)):
        assert length_s == pytest.approx(stage_deadline(durations_s[index:], 0, spent_s=left, **given_s), abs=1e-6)
        left += length_s


@given(durations, share, st.floats(0, 1e5), st.data())
def test_no_stage_gets_more_than_the_time_left_and_all_together_never_exceed_it(
    remaining: list[float], beta: float, deadline_s: float, data: st.DataObject
) -> None:
    got = [stage_deadline(remaining, i, deadline_s=deadline_s, spent_s=0, alpha=1, beta=beta) for i in range(len(remaining))]
    assert all(0 <= one <= deadline_s * (1 + 1e-9) for one in got)
    # 1/omega is convex in the profiled share, yet each omega >= 1 and the shares' harmonic mix never sums above 1.
    assert math.fsum(got) <= deadline_s * (1 + 1e-9)


@given(durations, share, share, st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 1e4))
def test_less_time_never_means_a_later_stage_deadline(
    remaining: list[float], alpha: float, beta: float, deadline_s: float, spent_s: float, more_s: float
) -> None:
    early = stage_deadline(remaining, 0, deadline_s=deadline_s, spent_s=spent_s + more_s, alpha=alpha, beta=beta)
    late = stage_deadline(remaining, 0, deadline_s=deadline_s, spent_s=spent_s, alpha=alpha, beta=beta)
    assert early <= late


def test_a_stage_that_took_no_time_gets_none_unless_shares_are_equal() -> None:
    assert omega(2, 10, 0, 0.33) == math.inf
    assert stage_deadline([0, 10], 0, deadline_s=10, spent_s=0, alpha=1, beta=0.33) == 0
    assert omega(2, 10, 0, 1) == 2
    # Nothing is known of any: equal shares.
    assert omega(3, 0, 0, 0.33) == 3


def test_what_makes_no_sense_is_refused() -> None:
    for remaining, index, beta in [([], 0, 0.3), ([1.0], 1, 0.3), ([1.0], -1, 0.3), ([-1.0], 0, 0.3), ([1.0], 0, 2.0)]:
        with pytest.raises(ValueError, match=r"index|durations|beta"):
            stage_deadline(remaining, index, deadline_s=1, spent_s=0, alpha=1, beta=beta)
    with pytest.raises(ValueError, match="alpha"):
        stage_deadline([1], 0, deadline_s=1, spent_s=0, alpha=1.1, beta=0)
    with pytest.raises(ValueError, match="executors"):
        initial_cores(1, 0)


def test_executors_share_the_cores_of_a_stage_in_whole_quanta() -> None:
    # Two executors: 1.2 = 24 quanta each; 7 of them: 0.342857 -> 0.35.
    assert initial_cores(2.4, 2) == 1.2
    assert initial_cores(2.4, 7) == 0.35


@given(st.integers(0, 4000))
def test_a_whole_number_of_quanta_is_not_rounded_up_further(quanta: int) -> None:
    assert round_up(quanta * 0.05) == pytest.approx(quanta * 0.05)


@given(st.floats(0, 200), st.integers(1, 50))
def test_initial_cores_cover_the_share_by_less_than_one_quantum(cores: float, executors: int) -> None:
    got = initial_cores(cores, executors)
    assert cores / executors - 1e-9 <= got < cores / executors + 0.05 + 1e-9

"""The support vector machine: a gradient by hand, the repeated points' exact weights, and that it learns."""

from __future__ import annotations

import random
from functools import reduce

import pytest

from experiments.workloads.svm import (
    FEATURES,
    PERIOD,
    REGULARISATION,
    STEP,
    UNIT,
    WRONG_SIDE,
    combine,
    gradient,
    one_period,
    serial,
    stepped,
)


def point(label: int, first: int) -> tuple[int, ...]:
    return (label, first, *(0,) * (FEATURES - 2), UNIT)


def test_a_gradient_has_the_points_within_the_margin_and_counts_those_on_the_wrong_side() -> None:
    weights = [2.0, *(0.0,) * (FEATURES - 1)]
    # agreements 2.0 (outside the margin), 0.5 (within it) and -1.0 (wrong side)
    points = [point(1, UNIT), point(-1, -UNIT // 4), point(1, -UNIT // 2)]
    count, misses, total = gradient(points, weights)
    assert (count, misses) == (3, 1)
    assert (total[0], total[-1]) == (-UNIT // 4 + UNIT // 2, UNIT - UNIT)


def test_a_step_goes_against_the_mean_gradient_and_shrinks_the_weights() -> None:
    weights = stepped([1.0] * FEATURES, (2, 0, [UNIT, *(0,) * (FEATURES - 1)]), 4)
    # the root of 4 halves the step; the mean gradient is 1 / 2
    assert weights[0] == pytest.approx(1 - STEP / 2 * (0.5 + REGULARISATION))
    assert weights[1] == pytest.approx(1 - STEP / 2 * REGULARISATION)


@pytest.mark.parametrize("seed", range(3))
def test_all_points_in_any_order_and_parts_step_exactly_as_one_period_does(seed: int) -> None:
    period = one_period(seed)
    points = period * 3
    random.Random(seed).shuffle(points)
    first = stepped([0.0] * FEATURES, gradient(period, [0.0] * FEATURES), 1)
    found = reduce(combine, (gradient(part, first) for part in (points[:100], points[100:4000], points[4000:])))
    weights, misses = serial(period, 2)
    assert stepped(first, found, 2) == weights
    assert found[1] == 3 * misses


def test_it_learns_the_plane_though_some_labels_are_wrong() -> None:
    period = one_period(1)
    assert period == one_period(1) != one_period(2)
    assert len(period) == PERIOD
    # nothing is known before the first step; then the misses fall, but not below the wrong labels
    assert serial(period, 1)[1] == PERIOD
    assert PERIOD // WRONG_SIDE <= serial(period, 10)[1] < PERIOD // 4

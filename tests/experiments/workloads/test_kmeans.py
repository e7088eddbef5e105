"""KMeans: one step by hand, and repeated points whose centres equal the centres of one period, to the last bit."""

from __future__ import annotations

import random
from functools import reduce

import pytest

from experiments.workloads.kmeans import (
    DIMENSIONS,
    PERIOD,
    Centre,
    K,
    Sum,
    combine,
    moved,
    nearest_centre,
    one_period,
    serial,
    sums_of,
)

CENTRES: list[Centre] = [(0.0, 0.0, 0.0, 0.0), (10.0, 0.0, 0.0, 0.0)]


def test_one_step_moves_each_centre_into_the_middle_of_its_points() -> None:
    points = [(1, 0, 0, 0), (0, 3, 0, 0), (9, 0, 0, 1), (5, 0, 0, 0)]
    # the last is as near to both: the first centre has it
    assert [nearest_centre(point, CENTRES) for point in points] == [0, 0, 1, 0]
    assert dict(sums_of(points, CENTRES)) == {0: (3, [6, 3, 0, 0]), 1: (1, [9, 0, 0, 1])}
    assert moved(CENTRES, sums_of(points, CENTRES)) == [(2.0, 1.0, 0.0, 0.0), (9.0, 0.0, 0.0, 1.0)]


def test_a_centre_without_points_stays() -> None:
    assert moved(CENTRES, sums_of([(0, 0, 0, 0)], CENTRES))[1] == CENTRES[1]


@pytest.mark.parametrize("seed", range(3))
def test_all_points_in_any_order_and_parts_move_the_centres_exactly_as_one_period_does(seed: int) -> None:
    period = one_period(seed)
    points = period * 3
    random.Random(seed).shuffle(points)
    centres: list[Centre] = [*period[:K]]
    sums: dict[int, Sum] = {}
    for part in (points[:100], points[100:4000], points[4000:]):
        for number, found in sums_of(part, centres):
            sums[number] = reduce(combine, [sums[number], found]) if number in sums else found
    assert moved(centres, sums.items()) == serial(period, 1)


def test_points_are_seeded_and_their_centres_still_move_in_the_last_iterations() -> None:
    period = one_period(1)
    assert period == one_period(1) != one_period(2)
    assert (len(period), len(period[0])) == (PERIOD, DIMENSIONS)
    assert serial(period, 9) != serial(period, 10)

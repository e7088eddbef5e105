"""ALS's check: what is hidden from it, and how an error is measured."""

from __future__ import annotations

import pytest

from experiments.workloads.als import GIVEN, RANK, factors, given, relative_error


def test_one_of_so_many_ratings_of_a_user_is_hidden() -> None:
    assert list(given(0, 2 * GIVEN)) == [item for item in range(2 * GIVEN) if item not in (0, GIVEN)]
    assert 1 not in given(GIVEN - 1, GIVEN)


def test_the_error_is_0_for_the_same_factors_and_1_for_the_mean() -> None:
    users, items = factors(3, 1), factors(4, 2)
    assert relative_error(users, items, users, items) == 0
    # ratings 1 and 3: their mean has an error of one standard deviation
    one, other = (1.0,) + (0.0,) * (RANK - 1), (3.0,) + (0.0,) * (RANK - 1)
    mean = (2.0,) + (0.0,) * (RANK - 1)
    assert relative_error([one, other], [one], [mean, mean], [one]) == pytest.approx(1)

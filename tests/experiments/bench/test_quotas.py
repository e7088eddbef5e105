"""Figures that are read from quota changes, worked out by hand."""

from __future__ import annotations

import pytest

from controller.wire.worker import OrderedQuota
from experiments.bench.quotas import lag_s, patches


def change(time_s: float, cores: float, before: float | None = 1.0) -> OrderedQuota:
    return OrderedQuota(time_s=time_s, before=before, cores=cores, executor_id="1", reason="")


def test_the_first_quota_that_is_raised_after_the_stage_began_counts() -> None:
    changes = [
        change(1.0, 0.9, 0.1),
        change(2.1, 0.1, 0.9),
        change(2.3, 0.8, 0.1),
        change(2.2, 0.7, 0.1),
        change(2.05, 0.5, None),
    ]
    assert lag_s(2.0, changes) == pytest.approx(0.2)
    assert lag_s(2.25, changes) == pytest.approx(0.05)
    assert lag_s(2.5, changes) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], 0),
        ([change(0.0, 0.5)], 1),
        # the second is 0.02 core away, the third 0.3
        ([change(0.0, 0.5), change(5.0, 0.52), change(10.0, 0.8)], 2),
        # three within a second: the first at once, then the newest when the second is over
        ([change(0.0, 0.5), change(0.3, 0.9), change(0.6, 0.7)], 2),
        # the second is taken back before its turn comes
        ([change(0.0, 0.5), change(0.3, 0.9), change(0.6, 0.5)], 1),
    ],
)
def test_patches_are_as_many_as_the_rules_of_resizing_make_of_it(changes: list[OrderedQuota], expected: int) -> None:
    assert patches(changes) == expected

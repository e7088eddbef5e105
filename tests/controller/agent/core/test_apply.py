"""Quota writes that a period needs, and their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.agent.core.apply import SAME_CORES, QuotaChange, changes
from controller.runtime.base import ExecutorKey

A, B, C = (ExecutorKey("app", n) for n in "123")


def test_lowering_comes_before_raising() -> None:
    got = changes({A: 1.0, B: 2.0, C: 0.5}, {A: 1.5, B: 0.5, C: 0.4})
    assert got == [QuotaChange(B, 2.0, 0.5), QuotaChange(C, 0.5, 0.4), QuotaChange(A, 1.0, 1.5)]


def test_unchanged_quotas_are_not_written() -> None:
    assert changes({A: 1.0, B: 0.3}, {A: 1.0, B: 0.3 + SAME_CORES / 2}) == []


def test_limiting_an_unlimited_executor_is_lowering() -> None:
    assert changes({A: 0.5, B: None}, {A: 1.0, B: 1.0}) == [QuotaChange(B, None, 1.0), QuotaChange(A, 0.5, 1.0)]


def test_executors_that_do_not_run_are_left_out() -> None:
    assert changes({A: 1.0}, {B: 0.5}) == []
    assert changes({}, {A: 0.5}) == []


quotas = st.dictionaries(st.sampled_from([A, B, C, ExecutorKey("other", "1")]), st.floats(0.1, 4), min_size=1)


@given(quotas, quotas)
def test_on_the_way_the_sum_never_passes_the_larger_of_before_and_after(
    before: dict[ExecutorKey, float], wanted: dict[ExecutorKey, float]
) -> None:
    now = dict(before)
    after = {k: wanted.get(k, v) for k, v in before.items()}
    most = max(sum(before.values()), sum(after.values())) + SAME_CORES * len(before)
    for change in changes(before, wanted):
        now[change.key] = change.cores
        assert sum(now.values()) <= most
    assert all(abs(now[k] - after[k]) < SAME_CORES for k in now)

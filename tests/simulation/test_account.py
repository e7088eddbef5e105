"""Document 001's account of a worker, step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.simulator.account import WorkerAccount, less, minus
from placement.resources import NOTHING, ResourceSet

sets = st.builds(ResourceSet, st.dictionaries(st.sampled_from(["cpu", "memory", "gpu", "ssd"]), st.integers(0, 50_000)))


@given(st.lists(st.integers(1, 40), max_size=200))
def test_sums_never_drift(parts: list[int]) -> None:
    whole = NOTHING
    for part in parts:
        whole += ResourceSet.of(cpu=part / 10)
    for part in parts:
        whole = minus(whole, ResourceSet.of(cpu=part / 10))
    assert whole == NOTHING  # with floats, 0.1 + 0.2 - 0.3 is not


@given(sets, sets)
def test_strict_subtraction_is_the_inverse_of_addition(a: ResourceSet, b: ResourceSet) -> None:
    assert minus(a + b, b) == a
    if not b.within(a):
        with pytest.raises(ValueError, match="negative"):
            minus(a, b)


@given(sets, sets)
def test_capped_subtraction_never_falls_below_nothing(a: ResourceSet, b: ResourceSet) -> None:
    assert less(a, b) == ResourceSet({name: max(0, count - b[name]) for name, count in a.items()})
    assert a.within(b) == (less(a, b) == NOTHING)


def test_load_is_part_of_what_is_available() -> None:
    account = WorkerAccount(ResourceSet.of(cpu=4))
    three = ResourceSet.of(cpu=3)
    assert account.book(three)
    assert account.available == ResourceSet.of(cpu=4)
    assert account.free == ResourceSet.of(cpu=1)
    assert not account.book(three)
    assert account.could(three)
    account.start(three)
    assert (account.available, account.load) == (ResourceSet.of(cpu=1), NOTHING)
    account.release(three)
    assert account.free == account.total


def test_capacity_in_use_leaves_when_it_is_released() -> None:
    account = WorkerAccount(ResourceSet.of(cpu=4))
    account.book(ResourceSet.of(cpu=3))
    account.start(ResourceSet.of(cpu=3))
    account.resize(ResourceSet.of(cpu=2))
    assert account.backlog == ResourceSet.of(cpu=1)
    assert account.free == NOTHING
    account.release(ResourceSet.of(cpu=3))
    assert (account.backlog, account.free) == (NOTHING, ResourceSet.of(cpu=2))


def test_promises_that_a_smaller_worker_cannot_keep_are_shown() -> None:
    account = WorkerAccount(ResourceSet.of(cpu=4))
    account.book(ResourceSet.of(cpu=4))
    account.resize(ResourceSet.of(cpu=1))
    assert account.overbooked == ResourceSet.of(cpu=3)


steps = st.lists(st.tuples(st.sampled_from(["book", "unbook", "start", "release", "resize"]), sets), max_size=30)


@given(sets, steps)
def test_whatever_happens_nothing_is_counted_twice_or_lost(total: ResourceSet, done: list[tuple[str, ResourceSet]]) -> None:
    account = WorkerAccount(total)
    for what, asked in done:
        if what == "book":
            account.book(asked)
        elif what == "resize":
            account.resize(asked)
        else:
            held = account.used if what == "release" else account.load
            getattr(account, what)(ResourceSet({name: min(count, held[name]) for name, count in asked.items()}))
        assert account.total + account.backlog == account.used + account.available
        assert minus(account.load, account.overbooked).within(account.available)

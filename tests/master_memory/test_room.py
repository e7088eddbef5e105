"""Room for one more executor, or what is lacking; container limits never add up to more than a worker offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from master_memory.room import NEVER_MB, Newcomer, check_fits_somewhere
from master_memory.split import Need
from stage_model.errors import BadInput


def test_an_executor_larger_than_every_worker_is_refused_with_the_most_there_is() -> None:
    check_fits_somewhere(2000, [1000, 2000])
    with pytest.raises(BadInput, match=r"needs 2001 MiB .*2000 MiB"):
        check_fits_somewhere(2001, [1000, 2000])


def test_before_a_worker_has_joined_nothing_is_refused() -> None:
    check_fits_somewhere(10**6, [])


# ---------------------------------------------------------------- one more


@dataclass
class Offer:
    """A worker with the keys of those on it."""

    worker_id: str
    memory_mb: int
    cores: float = 1.0
    occupants: Mapping[str, None] = field(default_factory=dict)


LOW, HIGH = Need("low/1", 1000, 64, priority=10), Need("high/1", 1000, 64, priority=90)
BOTH = {"w": [LOW, HIGH]}


def there(memory_mb: int, *needs: Need) -> Offer:
    return Offer("w", memory_mb, occupants=dict.fromkeys(need.key for need in needs))


def newcomer(fixed_mb: int = 1000, priority: int = 50) -> Newcomer:
    return Newcomer(lambda _: Need("new/new", fixed_mb, 64, priority=priority), [1.0], BOTH)


def test_it_may_join_where_each_keeps_as_much_as_its_h() -> None:
    assert newcomer().now(there(4000, LOW))
    assert not newcomer().now(there(3999, LOW))
    assert newcomer().now(there(1064))
    assert newcomer().ever(there(1064, LOW, HIGH))
    assert not newcomer().ever(there(1063))


def test_executors_of_lower_priority_are_squeezed_and_missing_ones_no_longer_count() -> None:
    assert newcomer().squeezed(there(3999, LOW)) == ("low/1",)
    assert newcomer().squeezed(there(3999, HIGH)) is None
    assert newcomer(priority=0).squeezed(there(3999, LOW)) is None
    # next to a higher one, the larger of the same priority would come down first: not for an executor of its own priority
    assert newcomer(300, priority=10).squeezed(there(4400, LOW, HIGH)) is None
    assert newcomer(300, priority=11).squeezed(there(4400, LOW, HIGH)) == ("low/1",)


def test_an_executor_that_cannot_be_on_a_worker_never_fits_it() -> None:
    asked = []

    def need_on(cores: float) -> Need:
        asked.append(cores)
        if cores > 1:
            raise BadInput("too little for that many slots")
        return Need("new/new", 500)

    one = Newcomer(need_on, [1.0, 64.0], {})
    assert one.ever(Offer("small", 500, 1.0))
    assert not one.ever(Offer("large", 10**9, 64.0))
    assert one.least_mb == 500
    assert Newcomer(need_on, [64.0], {}).least_mb == NEVER_MB
    assert asked == [1.0, 64.0, 64.0]


def test_what_lacks_is_said_of_the_worker_where_the_least_lacks() -> None:
    assert newcomer().lacking([there(3999, LOW)]) == (
        "with it each of 2 on worker w would have 999 MiB of off-heap memory, less than "
        "the 1000 MiB of heap, overhead and Python"
    )
    assert newcomer(3000).lacking([there(3999, LOW)]) == (
        "an executor needs 3064 MiB and the most that is free on a worker is 2935 MiB"
    )

"""Container limits never add up to more than a worker offers."""

from __future__ import annotations

import pytest

from master_memory.room import check_fits_somewhere, free_mb
from stage_model.errors import BadInput


def test_free_is_what_the_containers_leave() -> None:
    assert free_mb(4096, [1000, 2000]) == 1096
    assert free_mb(4096, []) == 4096
    assert free_mb(1000, [900, 900]) == 0


def test_an_executor_larger_than_every_worker_is_refused_with_the_most_there_is() -> None:
    check_fits_somewhere(2000, [1000, 2000])
    with pytest.raises(BadInput, match=r"needs 2001 MiB .* at most 2000 MiB"):
        check_fits_somewhere(2001, [1000, 2000])


def test_before_a_worker_has_joined_nothing_is_refused() -> None:
    check_fits_somewhere(10**6, [])

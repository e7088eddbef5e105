"""Facts that are read from the Docker engine's answers."""

from __future__ import annotations

from typing import Any

import pytest

from controller.runtime.base import ExecutorKey, Observed
from controller.runtime.docker import container

SEEN = Observed(ExecutorKey("a", "1"), True, 0.5, 0.0, 0)


def stats(**cpu: Any) -> dict[str, Any]:
    return {"cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}, **cpu}}


def test_the_engine_tells_cpu_and_throttled_time_in_nanoseconds() -> None:
    found = container.with_stats(SEEN, stats(throttling_data={"throttled_periods": 3, "throttled_time": 750_000_000}))
    assert (found.cpu_s, found.throttled_s) == pytest.approx((2.5, 0.75))


def test_throttled_time_that_the_engine_does_not_tell_is_not_known() -> None:
    assert container.with_stats(SEEN, stats()).throttled_s is None

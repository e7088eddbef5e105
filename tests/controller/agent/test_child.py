"""How often stage events may wake the control loop, and how many files it may have open."""

from __future__ import annotations

import resource

import pytest

from controller.agent.child import LEAST_PAUSE_S, allow_files, pause_s


@pytest.mark.parametrize(
    ("cpu_s", "expected"),
    [
        (0.0, LEAST_PAUSE_S),
        (0.002, LEAST_PAUSE_S),  # a few executors: 2 ms in 50 is a twenty-fifth of a core
        (0.03, 0.6),  # a hundred: 30 ms in 600 is a twentieth
        (0.5, 1.0),  # never longer than the period
    ],
)
def test_a_dear_turn_is_followed_by_a_long_pause(cpu_s: float, expected: float) -> None:
    assert pause_s(cpu_s, 1.0) == pytest.approx(expected)


def test_as_many_files_may_be_open_as_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        allow_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

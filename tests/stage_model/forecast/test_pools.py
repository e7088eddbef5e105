"""Two recorded runs of a program with a pool of threads, one as the profile of the other (tests/data/pools).

What is left is counted in tasks: the machine was busy, so the CPU of one and the same stage differs between the runs.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest

from stage_model.forecast.estimate import estimate
from stage_model.forecast.match import match
from stage_model.history.events import AnyEvent, TaskEnd
from stage_model.history.profile import profile
from stage_model.history.run import Run
from stage_model.history.run_record import to_record
from tests.fakes.records import facts

POOLS = Path(__file__).parents[2] / "data" / "pools"


def events(name: str) -> list[AnyEvent]:
    lines = gzip.decompress((POOLS / f"{name}.gz").read_bytes()).splitlines()
    return [msgspec.json.decode(line, type=AnyEvent) for line in lines]


@pytest.mark.parametrize(("taught", "seen"), [("first", "second"), ("second", "first")])
def test_what_is_left_of_a_pool_of_threads_is_right(taught: str, seen: str) -> None:
    profiled = Run()
    for event in events(taught):
        profiled.apply(event)
    record = to_record(
        profiled,
        facts(name="pool"),
    )
    expected = estimate(profile("k", [record]))
    told = events(seen)
    whole = sum(isinstance(event, TaskEnd) for event in told)
    live, done, last = Run(), 0, None
    for number, event in enumerate(told):
        live.apply(event)
        done += isinstance(event, TaskEnd)
        if number % 25:
            continue
        found = match(expected, live)
        left = sum(stage.tasks for stage in found.to_come)
        left += sum(stage.info.tasks - len(stage.done) for stage in live.active_stages())
        assert found.matched_share in (None, pytest.approx(1.0, abs=0.01))
        assert abs(left - (whole - done)) <= 0.03 * whole, (number, left, whole - done)
        assert last is None or last[0] - left <= done - last[1] + 0.01 * whole
        last = left, done
    assert last is not None

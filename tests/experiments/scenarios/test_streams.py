"""Figs. 6 and 7 simulated: streams that are the same for every scheduler, goals that are met and missed, on made-up rows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from experiments.harness.recorded import Data, RowStep
from experiments.scenarios.streams import Load, StreamLimits, Streams
from experiments.simulator.streams import OURS, SCHEDULERS, LongShare, StreamRow, stream

SCENARIO = Streams(
    loads=(Load(name="low", load=0.6, limits=StreamLimits(short_p95_of_kill=1.0)),), repetitions=1, length_s=60
)


def row(
    scheduler: str, short_s: float, long_s: float, lost_core_s: float = 0.0, granted: float = 96.0, used: float = 92.0
) -> dict[str, Any]:
    made = StreamRow(
        scheduler=scheduler,
        load=0.6,
        seed=1,
        # 1 of 20 may be later than the 95th percentile
        short_s=(*[short_s] * 19, 999.0),
        long_s=(long_s, long_s),
        lost_core_s=lost_core_s,
        used_core_s=100.0,
        long_share=LongShare(free_core_s=100.0, granted_core_s=granted, used_core_s=used),
    )
    return dict(msgspec.to_builtins(made))


def data(ours: dict[str, Any]) -> Data:
    rows = (ours, row("kill", 50.0, 500.0, 40.0), row("fifo", 90.0, 310.0))
    return Data(rows={"low-0": RowStep(step="low-0", session=1, took_s=1.0, rows=rows)})


def test_goals_are_ratios_to_killing_and_to_fifo() -> None:
    good = SCENARIO.goals(data(row(OURS, 40.0, 310.0)))
    # 96 of 100 free core-seconds are granted, 92 of these 96 used
    assert [goal.measured for goal in good] == pytest.approx([0.8, 0.62, 1.0, 4.0, 4.17, 0.0])
    assert all(goal.met for goal in good)
    # each over the jobs it is about: 20 short and 2 long ones
    assert [goal.n for goal in good] == [20, 2, 2, 2, 2, 22]
    bad = SCENARIO.goals(data(row(OURS, 51.0, 400.0, 1.0, granted=94.0, used=89.0)))
    assert not any(goal.met for goal in bad)
    assert all(condition.holds for condition in SCENARIO.conditions(data(row(OURS, 40.0, 310.0))))


def test_a_long_job_that_never_ended_is_no_success() -> None:
    nothing = {**row(OURS, 40.0, 310.0), "long_s": ()}
    assert [goal.met for goal in SCENARIO.goals(data(nothing))] == [True, False, False, True, True, True]


def test_the_table_tells_every_scheduler_and_without_rows_nothing_fails_but_completeness() -> None:
    assert "| 60% | kill | 1 | 20 | 97.5 | 50.0 | 50.0 | 2 | 500.0 | 40 | 100 | 96.0% | 95.8% |" in SCENARIO.tables(
        data(row(OURS, 40.0, 310.0))
    )
    assert [condition.holds for condition in SCENARIO.conditions(Data())] == [False]


def test_every_scheduler_meets_the_same_jobs_and_one_long_job_runs_all_the_time() -> None:
    found = {name: stream(name, 0.6, 1, 60.0) for name in SCHEDULERS}
    assert len({len(one.short_s) for one in found.values()}) == 1
    assert all(one.long_s for one in found.values())
    # only killing loses anything; fifo has one more long job, as one waits
    assert [name for name, one in found.items() if one.lost_core_s > 0] in ([], ["kill"])
    assert len(found["fifo"].long_s) > len(found["reserve"].long_s)


def test_long_jobs_use_at_most_their_grants_and_are_granted_at_most_free_cores() -> None:
    for one in (stream(name, 0.6, 1, 60.0).long_share for name in (OURS, "fifo", "shares")):
        assert 0 < one.used_core_s <= one.granted_core_s * (1 + 1e-9)
        assert one.granted_core_s <= one.free_core_s * (1 + 1e-9)

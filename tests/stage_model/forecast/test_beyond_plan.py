"""The seconds kept for work beyond the plan, as a run with other arguments goes on; and the CPU of a whole application, which
says something beyond its stages."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.forecast.beyond_plan import LONGEST_S, USUAL, come_already_core_s, like, reserve_s, unknown_core_s
from stage_model.forecast.estimate import ApplicationEstimate, estimate
from stage_model.forecast.match import match
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.profile import RunRecord, profile
from stage_model.history.run import Run
from stage_model.history.run_record import to_record
from tests.fakes.records import facts
from tests.fakes.spark_events import Story, info

START_MS, TASKS, TASK_MS = 10_000, 2, 1000
SLOTS, CORES = 2, 2.0
SPENT_S = TASKS * TASK_MS / 1000 / CORES
"""Seconds of each stage, with all cores."""
READ, LOOP, SAVE = "csv at app.py:1", "start at app.py:2", "save at app.py:3"


def ran(*names: str, ended: int | None = None) -> Run:
    """Make a run of such stages, each in a job of its own, of which all or the first `ended` have ended."""
    story = Story()
    for number, name in enumerate(names):
        story.ms = START_MS + 2 * number * TASK_MS
        stage = info(number, name, tasks=TASKS, scopes=(name.split()[0],))
        story.job(number, stage)
        if ended is None or number < ended:
            story.whole(stage, ms=TASK_MS, records=0, cpu_s=TASK_MS / 1000)
        else:
            story.submit(stage)
    return story.run


def record(*names: str, arguments: tuple[str, ...] = ("12",)) -> RunRecord:
    recorded = to_record(ran(*names), facts(id="a", cores=CORES, slots=SLOTS, started_ms=START_MS, arguments=arguments))
    return msgspec.structs.replace(recorded, complete=True)


def planned(*names: str, arguments: tuple[str, ...] | None = ("24",)) -> ApplicationEstimate:
    return estimate(profile("k", [record(*names)]), arguments)


def kept(what: ApplicationEstimate, run: Run) -> float:
    return reserve_s(what, match(what, run), run, {}, slots=SLOTS, cores=CORES)


def test_before_the_run_shows_anything_as_much_again_may_come() -> None:
    assert kept(planned(LOOP, LOOP, LOOP), Run()) == pytest.approx(3 * SPENT_S)


def test_nothing_is_kept_for_arguments_that_are_known() -> None:
    assert kept(planned(LOOP, LOOP, LOOP, arguments=("12",)), ran(LOOP)) == 0
    assert kept(planned(LOOP, LOOP, LOOP, arguments=None), ran(LOOP)) == 0


def test_in_a_loop_it_stays_whole_to_the_end_of_the_plan() -> None:
    what = planned(LOOP, LOOP, LOOP)
    assert kept(what, ran(LOOP, LOOP)) == kept(what, ran(LOOP, LOOP, LOOP)) == kept(what, Run())


def test_what_comes_beyond_the_plan_may_come_again_too() -> None:
    what = planned(LOOP, LOOP, LOOP)
    whole_s = kept(what, Run())
    assert kept(what, ran(*[LOOP] * 6)) == pytest.approx(2 * whole_s)
    # one under way counts as a whole one
    assert kept(what, ran(*[LOOP] * 6, ended=5)) == pytest.approx(2 * whole_s)


def test_a_plan_that_claims_anything_gives_a_finite_time() -> None:
    what = planned(LOOP, LOOP)
    nothing = [msgspec.structs.replace(stage, work_core_s=5e-324) for stage in what.stages]
    assert kept(msgspec.structs.replace(what, stages=tuple(nothing)), ran(*[LOOP] * 6)) <= LONGEST_S
    endless = [msgspec.structs.replace(stage, fixed_s=1e12) for stage in what.stages]
    assert kept(msgspec.structs.replace(what, stages=tuple(endless)), Run()) == LONGEST_S


def test_a_stage_that_stands_alone_closes_what_is_before_it() -> None:
    what = planned(READ, LOOP, LOOP, SAVE)
    assert kept(what, ran(READ)) == pytest.approx(kept(what, Run()) - SPENT_S)
    assert kept(what, ran(READ, LOOP, LOOP)) == kept(what, ran(READ))
    assert kept(what, ran(READ, LOOP, LOOP, SAVE)) == 0


def test_what_comes_unplanned_after_a_mark_opens_all_again() -> None:
    what = planned(READ, LOOP, SAVE)
    assert kept(what, ran(READ, LOOP, SAVE)) == 0
    assert kept(what, ran(READ, LOOP, SAVE, LOOP)) == pytest.approx(4 / 3 * kept(what, Run()))


# ---------------------------------------------------------------- the CPU of the whole

amounts = st.floats(0, 1e6)


def test_what_the_total_leaves_beyond_the_known_stages_is_to_come() -> None:
    # 100 in all, 40 of known stages, of which 2 may be chance; 30 are used, 20 belong to stages to come
    assert unknown_core_s(100.0, 40.0, 30.0, 20.0) == pytest.approx(48.0)
    assert unknown_core_s(100.0, 100.0, 40.0, 60.0) == 0.0


@given(amounts, st.floats(0, 1), amounts, amounts)
def test_the_total_less_what_was_used_is_a_lower_bound_of_the_work_left(
    whole: float, share: float, used: float, known: float
) -> None:
    unknown = unknown_core_s(whole, share * whole, used, known)
    assert unknown >= 0
    assert known + unknown >= (1 - USUAL * share) * whole - used - 1e-3


def test_unknown_work_runs_side_by_side_as_known_work_does() -> None:
    # 2 s of one task and 3 s of two are 8 core-seconds
    assert like(Forecast((2.0, 3.0), 6.0, 0.85), 8.0, 4.0) == Forecast((1.0, 1.5), 3.0, 0.85)
    # where nothing is known it may be one task's
    assert like(Forecast(()), 0.0, 4.0) == Forecast((4.0,))


def test_work_that_moved_between_earlier_runs_comes_once() -> None:
    # 22 in all, of which 14 are stages' and 0.7 may be chance; 21.4 are used, so 1.3 are left of the 3.3 that stages expect
    assert come_already_core_s(22.0, 14.0, 21.4, 3.3, moving_core_s=2.5) == pytest.approx(2.0)
    # what all earlier runs had in these stages is still to come
    assert come_already_core_s(22.0, 14.0, 30.0, 3.3, moving_core_s=2.5) == 2.5
    assert come_already_core_s(22.0, 14.0, 10.0, 3.3, moving_core_s=2.5) == 0.0


@given(amounts, amounts, amounts, amounts, st.floats(0, 1))
def test_the_total_takes_away_no_more_than_what_moves_and_leaves_what_it_has_left(
    whole: float, stages: float, used: float, known: float, share: float
) -> None:
    come = come_already_core_s(whole, stages, used, known, share * known)
    assert 0 <= come <= share * known
    assert known - come >= min(known, whole + USUAL * stages - used) - 1e-3

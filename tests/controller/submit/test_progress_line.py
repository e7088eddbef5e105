"""The lines of `submit` at a run's end."""

from __future__ import annotations

import io
import re
from typing import Any

from msgspec import structs
from rich.console import Console

from controller.submit.progress_line import ProgressLine, describe, ending
from controller.wire.basis import Basis, Lateness, Untaught
from controller.wire.command import ApplicationView
from controller.wire.states import ApplicationState
from tests.fakes.refusals import assert_names
from tests.fakes.views import VIEW


def view(**fields: Any) -> ApplicationView:
    return structs.replace(VIEW, **{"state": ApplicationState.ENDED, **fields})


def test_the_end_is_compared_with_the_deadline() -> None:
    # 12 s early of 100 s is 12%
    well = {"outcome": "succeeded"}
    assert "ended at 1m28s of deadline 1m40s (12s early, 12.0%)" in ending(view(elapsed_s=88.0, deadline_s=100.0, **well))
    assert "(25s late, 25.0%)" in ending(view(elapsed_s=125.0, deadline_s=100.0, **well))
    assert ending(view(elapsed_s=5.0, run_dir="/runs/pace-1", **well)).endswith("no deadline; run folder /runs/pace-1")
    assert "25.0%" in ending(view(elapsed_s=125.0, deadline_s=100.0, finished=True))


def test_an_end_of_which_the_outcome_is_open_is_neither_early_nor_late() -> None:
    said = ending(view(elapsed_s=88.0, deadline_s=100.0))
    assert_names(said, "pace-1", "1m28s")
    assert not re.search("early|late", said)


def test_a_late_end_says_why_and_what_the_forecast_rested_on() -> None:
    lateness = Lateness(reason="squeezed", late_s=25.0, explained_s=20.0, sentence="it was squeezed by nightly")
    basis = Basis(runs=2, sentence="planned from 2 runs")
    late = view(elapsed_s=125.0, deadline_s=100.0, lateness=lateness, basis=basis, outcome="succeeded")
    assert_names(ending(late), "(25s late, 25.0%)", "it was squeezed by nightly", "planned from 2 runs")


def test_a_run_that_taught_nothing_says_why() -> None:
    why = Untaught(reason="no_job", sentence="it ran no Spark job")
    said = ending(view(elapsed_s=5.0, outcome="succeeded", untaught=why, run_dir="/runs/pace-1"))
    assert_names(said, "it ran no Spark job", "/runs/pace-1")
    failed = view(elapsed_s=5.0, reason="it was killed", untaught=why)
    assert_names(ending(failed), "it was killed", "it ran no Spark job")


def test_since_when_it_is_late_is_in_the_line() -> None:
    running = view(
        state=ApplicationState.RUNNING, elapsed_s=48.0, deadline_s=60.0, forecast_end_s=80.0, basis=Basis(late_since_s=31.0)
    )
    assert "deadline 1m, late since 31s" in describe(running)
    in_time = view(state=ApplicationState.RUNNING, elapsed_s=48.0, deadline_s=60.0, forecast_end_s=59.0, basis=Basis())
    assert "late" not in describe(in_time)


def test_an_end_by_force_is_neither_early_nor_late() -> None:
    killed = view(elapsed_s=28.0, deadline_s=80.0, reason="it was killed")
    assert_names(ending(killed), "pace-1", "28s: it was killed")
    assert "28s: " in ending(view(elapsed_s=28.0, deadline_s=80.0), interrupted=True)


def test_a_narrow_terminal_cuts_the_stage_and_not_the_forecast() -> None:
    running = view(
        state=ApplicationState.RUNNING, elapsed_s=48.0, deadline_s=90.0, forecast_end_s=80.0, stage="reduceByKey at app.py:10"
    )
    line = describe(running)
    assert line.index("forecast 1m20s, deadline 1m30s") < line.index("reduceByKey")


def test_no_end_is_claimed_from_what_a_master_said_before_it_went_away() -> None:
    said = ending(view(state=ApplicationState.RUNNING, elapsed_s=18.4, deadline_s=57.0))
    assert "18.4" not in said


def test_place_and_reason_are_printed_once_per_change() -> None:
    out = io.StringIO()
    line = ProgressLine(Console(file=out, width=300))
    full = "with it each of 2 on worker w1 would have too little"
    for place, reason in [(2, "1 ahead of it waits for memory, too")] * 3 + [(1, full)] * 2:
        line.show(view(state=ApplicationState.WAITING, queue_position=place, reason=reason))
    line.show(view(state=ApplicationState.RUNNING))
    line.show(view(state=ApplicationState.WAITING, queue_position=1, reason=full))
    second, *first = out.getvalue().splitlines()
    assert_names(second, "place 2: 1 ahead of it waits for memory, too")
    assert [f"place 1: {full}" in line for line in first] == [True, True]


def terminal(term: str) -> tuple[io.StringIO, ProgressLine]:
    out = io.StringIO()
    return out, ProgressLine(Console(file=out, force_terminal=True, width=300, _environ={"TERM": term}))


def test_a_terminal_gets_a_line_that_rewrites_itself_and_is_cleared() -> None:
    out, line = terminal("xterm")
    for elapsed_s in (48.0, 49.0):
        line.show(view(state=ApplicationState.RUNNING, elapsed_s=elapsed_s, ui_url="http://127.0.0.1:4040"))
    shown = out.getvalue()
    assert shown.startswith("sparkpace: application pace-1, Spark UI at http://127.0.0.1:4040\n")
    assert shown.index("48s · ") < shown.index("\r\x1b[2K49s · ")
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l"), "the cursor stays, because the driver may ask something"
    line.clear()
    assert out.getvalue().endswith("\x1b[2K")


def test_a_dumb_terminal_gets_only_the_notes() -> None:
    out, line = terminal("dumb")
    line.show(view(state=ApplicationState.RUNNING, elapsed_s=48.0, ui_url="http://127.0.0.1:4040"))
    line.clear()
    assert out.getvalue() == "sparkpace: application pace-1, Spark UI at http://127.0.0.1:4040\n"

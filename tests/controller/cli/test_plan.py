"""`sparkpace plan EVENTLOG...`: the answer for one application, and the night of several."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from controller.cli.log_plan import LogPlan
from stage_model.errors import Unavailable
from stage_model.forecast.night import Night
from tests.fakes.commands import assert_refused, run
from tests.fakes.log_cases import CASES, FOUR, MAPS, TWO_STAGES, Case
from tests.fakes.log_changes import Events, changed, later
from tests.fakes.made_logs import EPOCH_MS, MadeJob, MadeStage
from tests.fakes.refusals import assert_names

START_S = EPOCH_MS / 1e3
"""The start of made-up logs: 2027-01-15, 08:00 UTC."""


def plan(*words: str | Path) -> Result:
    return run("plan", *map(str, words), TZ="UTC")


def advised(*words: str | Path) -> LogPlan:
    answer = plan(*words, "--output", "json")
    assert answer.exit_code in {0, 75}, answer.output
    return msgspec.json.decode(answer.stdout, type=LogPlan)


def test_the_parts_of_the_answer_are_in_order(tmp_path: Path) -> None:
    answer = plan(CASES["plain"].write(tmp_path))
    assert (answer.exit_code, answer.stderr) == (0, "")
    parts = (
        "CORES",
        "with all 4.00 cores it takes 51s",
        "fewest cores for 51s, the time that it takes today: 4.00",
        "core-hours held in the log: 0.05",
        "how sure: not known, because one run gives no interval",
        "- planned from 1 run",
        "LARGEST STAGES",
        "driver, before, between and after stages: 22% of the whole",
    )
    assert_names(answer.stdout, *parts)
    assert sorted(parts, key=answer.stdout.index) == list(parts)


@pytest.mark.parametrize(
    ("name", "fewest", "held_core_s"),
    [
        ("plain", 4, 4 * 46),
        ("fewer long tasks than cores", 2, 4 * 106),
        ("few single tasks far apart", 1, 4 * 309),
        ("grown", 3.2, 2 * 56 + 6 * 11),
        ("lost an executor", 4, 2 * 36 + 2 * 17),
        ("tasks of two cores", 2, 4 * 86),
    ],
)
def test_without_a_deadline_the_runs_own_time_counts(name: str, fewest: float, held_core_s: float, tmp_path: Path) -> None:
    reply = advised(CASES[name].write(tmp_path))
    found = reply.advice.saving
    assert found.within_s == pytest.approx(reply.advice.took_s, rel=0.005)
    assert found.fewest_cores == pytest.approx(fewest, abs=0.06)
    assert found.held_core_s == pytest.approx(held_core_s)
    assert found.fewest_cores is not None
    assert found.end_s is not None
    # executors come 5 s after the submission, and those of tasks of two cores hold both
    per_slot = 2 if name == "tasks of two cores" else 1
    needed = per_slot * found.fewest_cores * (found.end_s - 5)
    assert found.saved_core_s == pytest.approx(max(0, held_core_s - needed), abs=1e-6)


def test_with_a_deadline_the_fewest_cores_are_those_that_keep_it(tmp_path: Path) -> None:
    log = CASES["plain"].write(tmp_path)
    found = advised(log, "--deadline", "95s").advice.saving
    # 84 s for 160 core-seconds
    assert found.within_s == 95.0
    assert found.fewest_cores == pytest.approx(1.95)
    assert "fewest cores for the deadline of 1m35s: 1.95" in plan(log, "--deadline", "95s").stdout
    late = plan(log, "--deadline", "50s")
    assert late.exit_code == 75
    assert_names(late.stdout, "cannot be met", "fewest cores for the deadline of 50s: there are too few")


def test_with_fewer_cores_the_fewest_are_those_for_the_time_that_they_take(tmp_path: Path) -> None:
    answer = plan(CASES["plain"].write(tmp_path), "--cores", "2")
    assert_names(answer.stdout, "fewest cores for 1m31s, the time with 2 cores: 2.00")


def test_if_the_last_run_was_faster_than_the_plan_the_fewest_cores_are_not_for_its_time(tmp_path: Path) -> None:
    slower = Case([[MadeJob((MadeStage(8, 14_000), MadeStage(8, 14_000, parents=(0,))))]])
    last = replace(CASES["plain"], change=changed("ApplicationStart", App_ID="made-2"))
    answer = plan(slower.write(tmp_path / "1"), last.write(tmp_path / "2"))
    assert_names(answer.stdout, ", the time with all cores: 4.00")


@pytest.mark.parametrize("name", ["retried", "no CPU time", "grown"])
def test_what_a_log_says_of_itself_is_a_reason_to_doubt(name: str, tmp_path: Path) -> None:
    answer = plan(CASES[name].write(tmp_path))
    assert answer.stderr == ""
    assert_names(answer.stdout.partition("how sure: ")[2], *CASES[name].phrases)


@pytest.mark.parametrize(
    ("name", "doubt"),
    [("few single tasks far apart", "% of the time is fixed"), ("tasks of two cores", "each task has 2 cores")],
)
def test_further_reasons_to_doubt(name: str, doubt: str, tmp_path: Path) -> None:
    assert any(doubt in one for one in advised(CASES[name].write(tmp_path)).advice.doubts)
    assert not any(doubt in one for one in advised(CASES["plain"].write(tmp_path)).advice.doubts)


def test_two_runs_of_one_application_say_how_far_they_differ(tmp_path: Path) -> None:
    second = replace(CASES["plain"], change=changed("ApplicationStart", App_ID="made-2"))
    logs = [CASES["plain"].write(tmp_path / "1"), second.write(tmp_path / "2")]
    reply = advised(*logs)
    assert reply.basis is not None
    assert reply.basis.runs == 2
    assert "single runs predict an end after 51s to 51s" in reply.advice.sure


def test_a_curve_of_logs_is_drawn_without_asking_for_it(tmp_path: Path) -> None:
    assert plan(CASES["plain"].write(tmp_path), "-o", tmp_path / "curve.png").exit_code == 0
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_an_answer_that_cannot_be_drawn_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel has no matplotlib."""
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    answer = plan(CASES["plain"].write(tmp_path), "-o", tmp_path / "curve.png")
    assert answer.exit_code == Unavailable.exit_code
    assert_names(answer.stdout, "fewest cores for 51s")
    assert_names(answer.stderr, "matplotlib")


def test_law_paper_shows_the_stages_deadlines_and_the_cores_that_it_gives(tmp_path: Path) -> None:
    log = CASES["plain"].write(tmp_path)
    assert_names(plan(log, "--law", "paper", "--deadline", "95s").stdout, "initial cores", "cores needed: ")
    assert "cores needed: " not in plan(log, "--deadline", "95s").stdout


# ---------------------------------------------------------------- a night


def case(name: str, after_s: int, *jobs: MadeJob) -> Case:
    """Make an application of that name on four cores, which begins `after_s` after 08:00."""
    named = changed("ApplicationStart", App_Name=name, App_ID=f"made-{name}")

    def change(events: Events) -> Events:
        return later(1000 * after_s)(named(events))

    return Case([list(jobs)], executors=FOUR, change=change)


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """Provide two logs: "orders" runs from 08:00:00 to 08:00:51, "stock" from 08:00:30 to 08:01:01."""
    orders, stock = case("orders", 0, *TWO_STAGES[0]), case("stock", 30, MadeJob((MAPS,)))
    return [stock.write(tmp_path / "stock"), orders.write(tmp_path / "orders")]


def nightly(*words: str | Path) -> Night:
    answer = plan(*words, "--output", "json")
    assert answer.exit_code in {0, 75}, answer.output
    return msgspec.json.decode(answer.stdout, type=Night)


def test_the_night_as_it_was_and_the_fewest_cores_until_its_end(logs: list[Path]) -> None:
    found = nightly(*logs)
    orders, stock = found.jobs
    assert (orders.name, stock.name) == ("orders@program.py", "stock@program.py")
    assert (orders.start_s, orders.end_s) == (START_S, START_S + 51)
    assert (stock.start_s, stock.end_s, found.deadline_s) == (START_S + 30, START_S + 61, START_S + 61)
    assert [job.held.most_cores for job in found.jobs] == [4.0, 4.0]
    # 160 core-seconds in 61 s less 11 s in which nothing is computed; the other job has no second to spare
    assert orders.saving.fewest_cores == pytest.approx(3.2, abs=0.06)
    assert stock.saving.fewest_cores == pytest.approx(4.0, abs=0.06)
    assert found.held_core_s == pytest.approx(4 * 46 + 4 * 26)
    saved = orders.saving.saved_core_s + stock.saving.saved_core_s
    assert found.needed_core_s == pytest.approx(found.held_core_s - saved)


@pytest.mark.parametrize("moment", ["by 08:02 UTC", "2027-01-15T08:02:00+00:00"])
def test_a_deadline_of_a_night_is_a_moment(moment: str, logs: list[Path]) -> None:
    found = nightly(*logs, "--deadline", moment)
    assert found.deadline_s == START_S + 120
    # 160 core-seconds in 109 s, 80 in 79 s
    assert [job.saving.fewest_cores for job in found.jobs] == pytest.approx([1.5, 1.05], abs=0.06)


def test_a_job_that_could_not_end_by_then_is_named(logs: list[Path]) -> None:
    answer = plan(*logs, "--deadline", "by 08:01 UTC")
    assert answer.exit_code == 75
    assert_names(answer.stdout, "too few", "all their cores are too few to end by then: stock@program.py")


def test_the_night_is_a_table_and_a_picture(logs: list[Path], tmp_path: Path) -> None:
    answer = plan(*logs, "-o", tmp_path / "night.png")
    assert (answer.exit_code, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["JOB", "orders@program.py", "stock@program.py"]
    assert_names(answer.stdout, "the deadline is Friday, 2027-01-15", "core-hours: 0.0800 held")
    assert (tmp_path / "night.png").read_bytes().startswith(b"\x89PNG")
    assert_refused(plan(*logs, "-o", tmp_path / "night.doc"), 2, "night.doc")


@pytest.mark.parametrize("words", [["--curve"], ["--cores", "2"], ["--log-cores", "1"], ["--law", "paper"]])
def test_options_of_one_application_are_refused_for_a_night(words: list[str], logs: list[Path]) -> None:
    assert_refused(plan(*logs, *words), 2, words[0], "'orders@program.py'", "'stock@program.py'", *logs)


@pytest.mark.parametrize(
    ("deadline", "named"),
    [
        ("10min", ["'10min'", "by 07:00"]),
        ("soon", ["'soon'"]),
        ("2027-01-14T08:00:00+00:00", ["'2027-01-14T08:00:00+00:00'", "2027-01-15T", "by 07:00"]),
        ("by 25:00", ["'by 25:00'", "23:59"]),
    ],
)
def test_a_deadline_that_a_night_cannot_have_is_refused(deadline: str, named: list[str], logs: list[Path]) -> None:
    assert_refused(plan(*logs, "--deadline", deadline), 2, *named)


def test_what_a_log_of_a_night_lacks_is_said(logs: list[Path], tmp_path: Path) -> None:
    answer = plan(*logs, CASES["no CPU time"].write(tmp_path))
    assert answer.exit_code == 0
    assert_names(answer.stderr, "Executor CPU Time")

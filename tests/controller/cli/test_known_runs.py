"""Commands about the profiles, runs and applications that a home and its master know: what they show and ask for, and names
that are not known."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.home import Home
from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import SUMMARY, write_summary
from controller.wire.command import PlanReply
from tests.fakes.commands import assert_refused, served_home
from tests.fakes.commands import run as command
from tests.fakes.master import Server
from tests.fakes.records import run
from tests.fakes.views import view


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Home, Server]]:
    """Provide the home that commands find, and its master."""
    monkeypatch.chdir(tmp_path)
    with served_home(tmp_path / "home", monkeypatch) as found:
        yield found


@pytest.fixture
def home(served: tuple[Home, Server]) -> Home:
    return served[0]


@pytest.fixture
def master(served: tuple[Home, Server]) -> Server:
    return served[1]


@pytest.mark.parametrize(
    "words", [["plan", "--profile", "pagerang"], ["profile", "show", "pagerang"], ["profile", "forget", "pagerang"]]
)
def test_an_unknown_profile_is_answered_with_the_nearest_names(home: Home, words: list[str]) -> None:
    for key in ("pagerank@app.py", "sort@app.py"):
        ProfileStore(home.profiles).learn(key, run("one"))
    assert_refused(command(*words), 2, "'pagerang'", "pagerank@app.py, sort@app.py")


def test_a_report_of_the_last_run_is_of_one_that_has_ended(home: Home) -> None:
    for name in ("pace-1", "pace-2"):
        (home.runs / name).mkdir()
    write_summary(home.runs / "pace-1", {"name": "done"})
    os.utime(home.runs / "pace-1" / SUMMARY, (1000, 1000))
    (home.runs / "pace-2" / "samples.csv").touch()
    assert "done" in command("report", "last").stdout
    assert_refused(command("report", "pace-2"), 2, "pace-2", SUMMARY)
    drawn = command("plot", "last", "-o", str(home.path.parent / "f.png"))
    assert "pace-1" in drawn.stderr, "it has no samples, so it is refused by name"


def test_a_report_has_a_table_of_what_had_deadlines_of_its_own(home: Home) -> None:
    home.runs.joinpath("pace-1").mkdir()
    times = {"jobs": [1], "start_s": 12.5, "deadline_s": 60.0}
    actions = [
        {"name": 'Spark Connect - session_id: "d-e9"\nplan {\n  root {', **times, "end_s": 70.0, "error_pct": -4.1667},
        {"name": "x" * 61, **times, "end_s": 70.0, "error_pct": -4.1667},
        {"name": "select 1", **times, "end_s": 78.5, "error_pct": 10.0},
        {"name": "query 7", **times, "end_s": None, "error_pct": None},
    ]
    write_summary(home.runs / "pace-1", {"name": "connect", "actions": actions})
    shown = command("report", "last").stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["name", "connect"],
        ["JOB", "OR", "QUERY", "START", "END", "DEADLINE", "DISTANCE"],
        ["Spark", "Connect", "-", "plan", "{", "root", "{", "12.5s", "1m10s", "1m", "4.2%", "early"],
        [f"{'x' * 60}…", "12.5s", "1m10s", "1m", "4.2%", "early"],
        ["select", "1", "12.5s", "1m18s", "1m", "10.0%", "late"],
        ["query", "7", "12.5s", "-", "1m", "-"],
        ["run", "folder:", str(home.runs / "pace-1")],
    ]
    assert json.loads(command("report", "last", "--output", "json").stdout)["actions"] == actions


def test_logs_find_a_running_application_by_its_names_and_an_ended_one_without_a_master(home: Home, master: Server) -> None:
    for application_id, summary in (("pace-1", {"name": "own", "submitted_name": "load"}), ("pace-2", None)):
        folder = home.runs / application_id
        (folder / "executors" / "1").mkdir(parents=True)
        (folder / "executors" / "1" / "stdout").write_text(f"of {application_id}")
        if summary is not None:
            write_summary(folder, summary)
    master.view = view(application_id="pace-2", name="own", submitted_name="load")
    for name in ("own", "load"):
        assert command("logs", name).stdout == "of pace-2"
    master.refuse = 503, b'{"error": "away", "exit_code": 69}'
    for name in ("own", "load"):
        assert command("logs", name).stdout == "of pace-1"


def test_an_application_is_ended_by_the_start_of_its_id(master: Server) -> None:
    master.view = view(application_id="app-7")
    assert command("kill", "app").exit_code == 0
    assert master.killed == 1


def test_a_plan_of_a_profile_is_asked_for_with_its_options(master: Server) -> None:
    master.plan = PlanReply(known=True, cluster_cores=1.0, reason="r")
    given = ["--law", "constant", "--curve", "--cores", "0.5"]
    for words, wanted in (([], (None, False, None)), (given, ("constant", True, 0.5))):
        assert command("plan", "--profile", "sort", *words).exit_code == 0
        assert master.asked is not None
        assert (master.asked.law, master.asked.curve, master.asked.most_cores) == wanted


def test_a_cluster_without_workers_yet_says_so_instead_of_a_curve(master: Server) -> None:
    master.plan = PlanReply(known=True, reason="no worker is there yet")
    answer = command("plan", "--profile", "sort", "--curve")
    assert (answer.exit_code, answer.stdout) == (0, "no worker is there yet\n")
    undrawn = command("plan", "--profile", "sort", "--curve", "-o", "curve.png")
    assert_refused(undrawn, 69, "-o curve.png", "no worker is there yet")

"""`ps` and `top`: which applications and workers are shown, and how, in a terminal's width, once or again and again."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console

from controller.cli.common import table_console
from controller.cli.tables import short_ids
from controller.cli.watching import applications_table, selected, share_lines, show_top
from controller.home import Home
from controller.wire.command import ApplicationView, UserShare, WorkerView
from controller.wire.states import ApplicationState
from tests.fakes.commands import assert_refused, run, served_home
from tests.fakes.master import Server
from tests.fakes.views import VIEW

WORKER = WorkerView(
    worker_id="w1", host="127.0.0.1", cores=1.7, memory_mb=19284, runtime="docker", pid=1, boot_id="b", seen_s_ago=0.4
)


def view(**fields: Any) -> ApplicationView:
    plain = structs.replace(
        VIEW, application_id="pace-20261121-103319-c7e35d", name="aggregate-by-key", priority=100,
        deadline_s=754.0, elapsed_s=612.0, forecast_end_s=753.0, progress=0.81, demand_cores=11.7, granted_cores=10.85,
        memory_mb=18840, debt_core_s=123.4,
    )  # fmt: skip
    return structs.replace(plain, **fields)


def lines(*views: ApplicationView, width: int = 200) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(applications_table(views))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Home, Server]]:
    """Provide a home whose cluster is a fake master with one application and one worker."""
    with served_home(tmp_path / "home", monkeypatch) as (home, master):
        master.view, master.workers = view(), (WORKER,)
        yield home, master


def test_a_row_says_how_the_application_stands_within_120_columns() -> None:
    heading, row = lines(view())
    assert " ".join(heading.split()) == "APP NAME STATE PRIO ELAPSED DEADLINE FORECAST DONE CORES MEMORY DEBT"
    assert row.split("  ")[0] == "pace-20261121-103319"
    for part in ("running", "high", "10m12s", "12m34s", "12m33s", "81%", "10.85 of 11.70", "18.4G", "123.4"):
        assert part in row
    # two digits of cores before the point are the most that an ordinary machine has
    assert max(len(heading), len(row)) <= 120
    assert lines(view(), width=120) == [heading, row]


def test_a_backfill_is_shown_as_such() -> None:
    assert "backfill" in lines(view(priority=-1))[1]


def test_what_is_not_known_is_a_dash_and_who_waits_has_a_place() -> None:
    plain = {"deadline_s": None, "forecast_end_s": None, "progress": None, "memory_mb": 0, "debt_core_s": 0.0}
    row = lines(
        view(**plain, state=ApplicationState.WAITING, queue_position=2, priority=30, demand_cores=0.0, granted_cores=0.0)
    )[1]
    known = "pace-20261121-103319 aggregate-by-key waiting 2 30 10m12s"
    assert " ".join(row.split()) == f"{known} - - - 0.00 of 0.00 - -"


def test_the_pipeline_is_a_column_where_there_is_one() -> None:
    heading, first, second = lines(view(pipeline="nightly"), view(application_id="pace-2"))
    assert " ".join(heading.split()) == "APP NAME PIPELINE STATE PRIO ELAPSED DEADLINE FORECAST DONE CORES MEMORY DEBT"
    assert "aggregate-by-key nightly running" in " ".join(first.split())
    assert "aggregate-by-key - running" in " ".join(second.split())


def test_ids_are_cut_only_where_the_rest_still_names_one() -> None:
    assert short_ids(["pace-1-1-a", "pace-1-2-a", "pace-1-2-b"]) == ["pace-1-1", "pace-1-2-a", "pace-1-2-b"]
    assert short_ids(["pace-1-1-a", "pace-1-12-a"]) == ["pace-1-1-a", "pace-1-12"]
    assert short_ids(["app-7", "app"]) == ["app-7", "app"]


def test_ps_says_why_an_application_waits(home: tuple[Home, Server]) -> None:
    home[1].view = view(state=ApplicationState.WAITING, queue_position=2, reason="1 ahead of it waits for memory, too")
    shown = run("ps").stdout
    assert re.search("pace-20261121-103319-c7e35d .* 2: 1 ahead of it waits for memory, too", shown)


def test_ps_says_why_a_running_application_lacks_executors(home: tuple[Home, Server]) -> None:
    home[1].view = view(executors=1, reason="its deadline needs 1 further worker")
    assert "pace-20261121-103319-c7e35d: its deadline needs 1 further worker" in run("ps").stdout


def test_ps_shows_the_table_and_all_of_it_as_json(home: tuple[Home, Server]) -> None:
    assert "10.85 of 11.70" in run("ps").stdout
    assert json.loads(run("ps", "--state", "ended", "--output", "json").stdout) == []
    [shown] = json.loads(run("ps", "--output", "json").stdout)
    assert (shown["application_id"], shown["debt_core_s"]) == ("pace-20261121-103319-c7e35d", 123.4)
    assert "place" in shown


def test_top_prints_once_where_there_is_no_terminal(home: tuple[Home, Server]) -> None:
    shown = run("top")
    assert shown.exit_code == 0, shown.output
    assert "1 running, 0 ended · 10.85 of 1.70 cores granted, 11.70 demanded" in shown.stdout
    assert "aggregate-by-key" in shown.stdout
    assert "w1" in shown.stdout
    assert "18.8G" in shown.stdout


def test_top_leaves_ended_applications_out(home: tuple[Home, Server]) -> None:
    home[1].view = view(state=ApplicationState.ENDED)
    shown = run("top").stdout
    assert "0 running, 1 ended · 0.00 of 1.70 cores granted" in shown
    assert "aggregate-by-key" not in shown


def test_ps_and_top_say_which_workers_do_not_report(home: tuple[Home, Server]) -> None:
    silence = "worker w2 has not reported for 14s; after 30s it is lost"
    home[1].workers = (WORKER, structs.replace(WORKER, worker_id="w2", seen_s_ago=14.2, silence=silence))
    for command in ("ps", "top"):
        assert run(command).stdout.splitlines()[-1] == silence
    assert "10.85 of 1.70 cores granted" in run("top").stdout, "no plan counts on its cores"


def looks(home: tuple[Home, Server], term: str) -> str:
    """Run `top` for three intervals; return what it writes to such a terminal. Each look finds another name, and Ctrl-C ends
    the third."""
    console = Console(file=io.StringIO(), force_terminal=True, width=130, height=20, _environ={"TERM": term})
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        home[1].view = view(name=f"look-{len(waits)}")
        if len(waits) == 3:
            raise KeyboardInterrupt

    show_top(home[1].client(), console, 2.5, sleep)
    assert waits == [2.5, 2.5, 2.5]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def names(drawn: str) -> list[str]:
    return re.findall(r"aggregate-by-key|look-\d", drawn)


def test_top_looks_again_each_interval_until_ctrl_c(home: tuple[Home, Server]) -> None:
    drawn = looks(home, "xterm")
    assert list(dict.fromkeys(names(drawn))) == ["aggregate-by-key", "look-1", "look-2"]
    assert "\x1b[" in drawn, "it draws on the screen of its own"


def test_top_prints_plain_lines_where_the_cursor_cannot_move(home: tuple[Home, Server]) -> None:
    drawn = looks(home, "dumb")
    assert names(drawn) == ["aggregate-by-key", "look-1", "look-2"]
    assert drawn.count("1 running, 0 ended") == 3
    assert all(character.isprintable() or character == "\n" for character in drawn)


def test_no_name_is_cut_in_a_dumb_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes Rich see a terminal
    console = table_console()
    assert console.is_dumb_terminal
    console.print(applications_table([view()]))
    assert "aggregate-by-key" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ps", "--state", "done"], "'done'"),
        (["ps", "--priority", "urgent"], "'urgent'"),
        (["ps", "--priority", "101"], "'101'"),
        (["top", "--interval", "never"], "--interval 'never' cannot be taken; accepted: 100ms"),
    ],
)
def test_bad_options_are_refused_before_the_master_is_asked(words: list[str], said: str, tmp_path: Path) -> None:
    assert_refused(run(*words, "--home", str(tmp_path / "none")), 2, said)


def test_a_line_shows_the_share_of_each_user_with_limits_once() -> None:
    whole = UserShare(
        user="alice", cores=1.5, most_cores=4.0, memory_mb=2816, most_memory_mb=8192, applications=2, most_applications=3,
        highest_priority=50,
    )  # fmt: skip
    views = [view(share=whole), view(), view(share=whole), view(share=UserShare(user="7", highest_priority=20))]
    assert [str(line) for line in share_lines(views)] == [
        "user alice: 1.50 of 4.00 cores promised, 2816 of 8192 MiB promised, 2 of 3 applications, highest priority normal",
        "user 7: highest priority 20",
    ]


VIEWS = [
    view(name="etl-1", priority=50),
    view(name="etl-2", priority=50, state=ApplicationState.ENDED),
    view(name="etl-3", state=ApplicationState.WAITING),
    view(name="report", state=ApplicationState.ENDED, submitted_name="weekly"),
    view(name="a[1]", priority=50),
]


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ({}, ["etl-1", "etl-2", "etl-3", "report", "a[1]"]),
        ({"states": ("running",)}, ["etl-1", "a[1]"]),
        ({"states": ("waiting", "ended")}, ["etl-2", "etl-3", "report"]),
        ({"name": "etl-*"}, ["etl-1", "etl-2", "etl-3"]),
        ({"name": "etl"}, []),
        ({"name": "ETL-1"}, []),
        ({"name": "a[1]"}, ["a[1]"]),
        ({"name": "week*"}, ["report"]),
        ({"priority": 100}, ["etl-3", "report"]),
        ({"states": ("ended",), "name": "etl-?", "priority": 50}, ["etl-2"]),
    ],
)
def test_what_a_filter_shows(wanted: dict[str, Any], shown: list[str]) -> None:
    assert [one.name for one in selected(VIEWS, **wanted)] == shown

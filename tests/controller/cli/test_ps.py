"""`ps`: which applications its filters show, and how it looks again and again, by examples."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from controller.cli.main import main
from controller.cli.ps import Selection, show_applications
from controller.home import Home
from controller.wire.command import ApplicationView
from tests.fakes.master import Server, serving


def view(name: str, state: str = "running", priority: int = 50, **fields: Any) -> ApplicationView:
    return ApplicationView(application_id=f"pace-{name}", name=name, state=state, law="forecast", priority=priority, **fields)


VIEWS = [view("etl-1"), view("etl-2", "ended"), view("etl-3", "waiting", 100), view("report", "ended", 100), view("a[1]")]
VIEWS[3] = msgspec.structs.replace(VIEWS[3], submitted_name="weekly")


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (Selection(), ["etl-1", "etl-2", "etl-3", "report", "a[1]"]),
        (Selection(states=("running",)), ["etl-1", "a[1]"]),
        (Selection(states=("waiting", "ended")), ["etl-2", "etl-3", "report"]),
        (Selection(name="etl-*"), ["etl-1", "etl-2", "etl-3"]),
        (Selection(name="etl"), []),
        (Selection(name="ETL-1"), []),
        (Selection(name="a[1]"), ["a[1]"]),
        (Selection(name="week*"), ["report"]),
        (Selection(priority=100), ["etl-3", "report"]),
        (Selection(states=("ended",), name="etl-?", priority=50), ["etl-2"]),
    ],
)
def test_what_a_filter_shows(chosen: Selection, names: list[str]) -> None:
    assert [one.name for one in chosen(VIEWS)] == names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--state", "done"], "'done' is not one of 'waiting', 'running', 'ended'"),
        (["--priority", "urgent"], "'urgent'"),
        (["--priority", "101"], "'101'"),
        (["--watch", "never"], "--watch 'never' cannot be taken; accepted: 100ms or more"),
        (["--watch", "1ms"], "--watch '1ms' cannot be taken; accepted: 100ms or more"),
        (["--watch", "0"], "--watch '0'"),
        (["--watch", "1x"], "--watch '1x'"),
        (["--watch", "nan"], "--watch 'nan'"),
        (["--name"], "--name"),
        (["--json"], "--json"),
        (["etl-1"], "etl-1"),
    ],
)
def test_bad_options_are_refused_before_anybody_is_asked(words: list[str], said: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["ps", "--home", str(tmp_path / "none"), *words])
    assert done.exit_code == 2, done.output
    assert said in done.stderr


def looks(server: Server, chosen: Selection, *, term: str | None = None, as_json: bool = False) -> str:
    """What three looks write to such a terminal (None: to a pipe), after each of which time passes; Ctrl-C ends the third."""
    console = Console(
        file=io.StringIO(), force_terminal=term is not None, width=130, height=20, _environ={"TERM": term or "xterm"}
    )
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        server.view = view(f"look-{len(waits)}", "waiting", queue_position=1, reason="no room yet")
        if len(waits) == 3:
            raise KeyboardInterrupt

    show_applications(server.client(), console, chosen, 2.0, sleep, as_json=as_json)
    assert waits == [2.0, 2.0, 2.0]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def server(tmp_path: Path) -> Any:
    home = Home(tmp_path / "home")
    home.create()
    with serving(home) as master:
        master.view = view("first")
        yield master


def test_a_terminal_is_drawn_anew(server: Server) -> None:
    drawn = looks(server, Selection(), term="xterm")
    assert "\x1b[?1049h" in drawn, "on a screen of its own"
    assert "\x1b[?1049l" in drawn, "the shell comes back"
    assert "look-2 waits, place 1: no room yet" in drawn


@pytest.mark.parametrize("term", [None, "dumb"])
def test_others_get_one_list_below_the_other(server: Server, term: str | None) -> None:
    blocks = looks(server, Selection(), term=term).split("\n\n")
    assert [block.split()[0] for block in blocks if block.strip()] == ["APP"] * 3
    assert "first" in blocks[0]
    assert "pace-look-1 waits, place 1: no room yet" in blocks[1]
    assert "\x1b" not in "".join(blocks)


def test_a_filter_holds_for_each_look(server: Server) -> None:
    drawn = looks(server, Selection(states=("running",)))
    assert "first" in drawn
    assert "look-" not in drawn


def test_looks_of_programs_are_json_texts(server: Server) -> None:
    text, decoder, names = looks(server, Selection(), term="xterm", as_json=True), json.JSONDecoder(), []
    while text := text.strip():
        [shown], end = decoder.raw_decode(text)
        names.append(shown["name"])
        text = text[end:]
    assert names == ["first", "look-1", "look-2"]

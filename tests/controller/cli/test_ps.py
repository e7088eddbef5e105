"""`ps`: which applications its filters show, by examples. How they are shown: `test_tables`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from controller.cli.ps import Selection
from controller.wire.command import ApplicationView
from controller.wire.states import ApplicationState
from tests.fakes.commands import assert_refused, run
from tests.fakes.views import VIEW


def view(name: str, state: ApplicationState = ApplicationState.RUNNING, priority: int = 50, **fields: Any) -> ApplicationView:
    return structs.replace(VIEW, application_id=f"pace-{name}", name=name, state=state, priority=priority, **fields)


VIEWS = [
    view("etl-1"),
    view("etl-2", ApplicationState.ENDED),
    view("etl-3", ApplicationState.WAITING, 100),
    view("report", ApplicationState.ENDED, 100),
    view("a[1]"),
]
VIEWS[3] = structs.replace(VIEWS[3], submitted_name="weekly")


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
        (["--state", "done"], "'done'"),
        (["--priority", "urgent"], "'urgent'"),
        (["--priority", "101"], "'101'"),
        (["--name"], "--name"),
        (["--json"], "--json"),
        (["etl-1"], "etl-1"),
    ],
)
def test_bad_options_are_refused_before_anybody_is_asked(words: list[str], said: str, tmp_path: Path) -> None:
    assert_refused(run("ps", "--home", str(tmp_path / "none"), *words), 2, said)

"""`sparkpace ps`: the applications that the master knows, or some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import click
from rich.console import Group
from rich.text import Text

from controller.cli.common import home_option, output_option, print_json, table_console
from controller.cli.tables import applications_table, share_lines, silences
from controller.client import submit_client
from controller.home import Home
from controller.wire.command import ApplicationView, WorkerView
from controller.wire.states import ApplicationState
from stage_model.units import parse_priority


@dataclass(frozen=True, slots=True)
class Selection:
    """The applications that are shown. Empty or None: no restriction; `name` is a shell's pattern."""

    states: Collection[str] = ()
    name: str | None = None
    priority: int | None = None

    def __call__(self, views: Iterable[ApplicationView]) -> list[ApplicationView]:
        return [view for view in views if self._shows(view)]

    def _shows(self, view: ApplicationView) -> bool:
        return (
            (not self.states or view.state in self.states)
            and (self.name is None or any(name == self.name or fnmatchcase(name, self.name) for name in view.names))
            and (self.priority is None or view.priority == self.priority)
        )


@click.command(epilog="Example: sparkpace ps --state running --state waiting")
@home_option
@output_option
@click.option(
    "--state",
    "states",
    type=click.Choice([state.value for state in ApplicationState]),
    multiple=True,
    help="Only applications in this state (repeat).",
)
@click.option(
    "--name",
    metavar="PATTERN",
    help="Only applications that have this name or were submitted with it; * stands for any characters, ? for one character.",
)
@click.option("--priority", help="Only applications with this priority: backfill, low, normal, high, or 0 to 100.")
def ps(home: Home, as_json: bool, states: tuple[str, ...], name: str | None, priority: str | None) -> None:
    """List the applications, running and ended.

    CORES shows granted of demanded cores, DEBT the core-seconds that are not repaid yet. Lines below the table say why
    applications wait or lack executors, what users with limits have of their shares, and which workers do not report.
    """
    chosen = Selection(states, name, None if priority is None else parse_priority(priority))
    client = submit_client(home)
    views = chosen(client.applications())
    if as_json:
        print_json(views)
    else:
        table_console().print(_list(views, client.workers()), soft_wrap=True)


def _list(views: list[ApplicationView], workers: Sequence[WorkerView]) -> Group:
    waiting = [view for view in views if view.queue_position is not None and not view.ended]
    lacking = [view for view in views if view.queue_position is None and view.executors and view.reason and not view.ended]
    lines = [Text(f"{view.application_id} waits, place {view.queue_position}: {view.reason}") for view in waiting]
    lines += [Text(f"{view.application_id}: {view.reason}") for view in lacking]
    return Group(applications_table(views), *lines, *share_lines(views), *silences(workers))

"""`sparkpace report`, `plot` and `logs`: the records of a run in its folder. No master is needed, except for logs of
executors on other machines (`logs_elsewhere`)."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from controller.cli.common import choose, home_option, output_option, picture_option, print_json, table_console, warn
from controller.cli.completion import complete_runs, completes
from controller.cli.logs_elsewhere import find_elsewhere, read_elsewhere
from controller.cli.tables import actions_table, bounds_table
from controller.client import submit_client
from controller.home import Home
from controller.runs.plot import plot_run
from controller.runs.plot_runs import plot_runs
from controller.runs.run_folders import RunFolder, find_ended_run, find_run
from controller.wire.command import ApplicationView
from stage_model.errors import BadInput, PaceError
from stage_model.nearest import nearest_names

FOLLOW_S = 0.25
TABLES = {"actions": actions_table, "largest_stages": bounds_table}
"""Fields of a summary that `report` shows as tables of their own."""


@click.command(epilog="Example: sparkpace report last")
@home_option
@click.argument("application", metavar="APP", shell_complete=completes(complete_runs))
@output_option
def report(home: Home, application: str, as_json: bool) -> None:
    """Show the summary of a run that has ended.

    APP is an id, a unique start of an id, a name, or `last`: the last run that has ended.
    """
    run = find_ended_run(home.runs, application)
    if as_json:
        print_json(run.summary)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for key, value in run.summary.items():
        if key not in TABLES or not value:
            table.add_row(key, _shown(value))
    console = table_console()
    console.print(table)
    for key, make in TABLES.items():
        if rows := run.summary.get(key):
            console.print(make(rows))
    console.print(f"run folder: {run.path}", soft_wrap=True)


@click.command(epilog="Example: sparkpace plot last -o run.png")
@home_option
@click.argument("applications", metavar="APP...", nargs=-1, required=True, shell_complete=completes(complete_runs))
@picture_option("File of the picture", required=True)
def plot(home: Home, applications: tuple[str, ...], out: Path) -> None:
    """Draw a picture of one run or of several runs.

    The picture of one run shows progress against set-point, cores, stage borders, deadline and end. The picture of several
    runs shows the cores of each on one time axis, with arrivals, deadlines and ends. APP is as for `report`.
    """
    folders = list(dict.fromkeys(find_ended_run(home.runs, application).path for application in applications))
    if len(folders) == 1:
        plot_run(folders[0], out)
    else:
        plot_runs(folders, out)
    click.echo(str(out))


@click.command(epilog="Example: sparkpace logs last --follow")
@home_option
@click.argument("application", metavar="APP", shell_complete=completes(complete_runs))
@click.argument("executor", required=False)
@click.option("-f", "--follow", is_flag=True, help="Follow the logs as they grow; Ctrl-C ends it.")
def logs(home: Home, application: str, executor: str | None, follow: bool) -> None:
    """Print the logs of an application's executors.

    EXECUTOR restricts them to one executor. Without it, the log of a detached application's driver is printed, too. APP is an
    id, a unique start of an id, a name, or `last`: the newest run, which may still be running. For executors
    on other machines, the ends of their logs are printed first; -f follows only logs on this machine.
    """
    run = find_run(home.runs, _of_running(home, application))
    here, elsewhere = _log_folders(run), find_elsewhere(home, run)
    there = [place for place in elsewhere.values() if place.log_dir]  # the other executors have not started
    if executor is not None:
        names = [*(path.name for path in here), *elsewhere]
        if executor not in names:
            nearest = nearest_names(executor, names)
            raise BadInput(f"executor {executor[:80]!r} of {run.application_id} is not known here; {nearest}")
        here = [path for path in here if path.name == executor]
        there = [place for name, place in elsewhere.items() if name == executor]
    driver = _driver_log(home, run) if executor is None else None
    named = {**({"driver": driver} if driver else {}), **_log_files(here)}
    if not named and not there:
        raise BadInput(
            f"run {run.application_id} has no logs on this machine; executors on other machines, and those of another "
            "cluster manager, have theirs there"
        )
    if there:
        for name, content in read_elsewhere(home, run, there, only=executor is not None):
            click.echo(f"==> {name} <==")
            click.echo(content, nl=False)
        if follow:
            warn(["logs of executors on other machines are not followed; give the command again for their next lines"])
    if named:
        _print(named, several=bool(there) or len(named) > 1, follow=follow)


def _of_running(home: Home, wanted: str) -> str:
    """Return the id of the unfinished application with that name, because only a finished record holds names; else the word
    itself. Raise `BadInput` if several such applications run."""
    views: list[ApplicationView] = []
    if home.cluster() is not None:
        with suppress(PaceError):  # without a master, names of ended runs are found all the same
            views = [view for view in submit_client(home).applications() if wanted in view.names and not view.finished]
    return choose(views, wanted).application_id if views else wanted


def _log_folders(run: RunFolder) -> list[Path]:
    """Return the folders of the executors that have run on this machine, whose names are their ids."""
    return sorted(path for path in (run.path / "executors").glob("*") if path.is_dir())


def _log_files(folders: list[Path]) -> dict[str, Path]:
    files = [path / name for path in folders for name in ("stdout", "stderr")]
    return {f"{file.parent.name}/{file.name}": file for file in files if file.exists()}


def _driver_log(home: Home, run: RunFolder) -> Path | None:
    submission = run.summary.get("submission")
    if submission is None and home.cluster() is not None:
        with suppress(PaceError):  # without a master, a running job's submission is not known; its executors' logs still are
            submission = submit_client(home).application(run.application_id).submission
    log = home.logs / f"driver-{submission}.log"
    return log if submission and log.is_file() else None


def _print(named: dict[str, Path], *, several: bool, follow: bool) -> None:
    last = ""
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        opened = {name: stack.enter_context(path.open("rb")) for name, path in named.items()}
        while True:
            for name, file in opened.items():
                for chunk in iter(partial(file.read, 65536), b""):
                    if name != last and several:
                        click.echo(f"==> {name} <==")
                        last = name
                    click.echo(chunk, nl=False)
            if not follow:
                return
            time.sleep(FOLLOW_S)


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "sentence" in value:
        return str(value["sentence"])
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return value if isinstance(value, str) else json.dumps(value)

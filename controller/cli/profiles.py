"""`sparkpace profile list|show|curve|drift|learn|forget`: the teachings of runs. No master is needed."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from controller.cli.common import NamedPath, home_option, output_option, picture_option, print_json, table_console, warn
from controller.cli.completion import complete_profiles, completes
from controller.cli.groups import NamingGroup
from controller.cli.plan_answer import print_curve
from controller.cli.tables import figures_table
from controller.home import Home
from controller.runs.log_profile import logged_run
from controller.runs.plot import plot_curve
from controller.runs.profile_store import ProfileStore
from stage_model.errors import BadInput
from stage_model.forecast.curve import curve, reference_slots
from stage_model.history.drift import LEAST_RUNS, drift
from stage_model.history.profile import Profile, profile_json, profile_key
from stage_model.units import format_duration, parse_cores

LAST_DATE_S = 253_402_300_799
"""The end of the year 9999: later times have no date."""


@click.group("profile", cls=NamingGroup, epilog="Example: sparkpace profile list")
def profile_commands() -> None:
    """Show, teach and forget profiles."""


@profile_commands.command("list", epilog="Example: sparkpace profile list")
@home_option
@output_option
def list_profiles(home: Home, as_json: bool) -> None:
    """List the stored profiles."""
    store = ProfileStore(home.profiles)
    rows = [_row(known) for key in store.list() if (known := store.load(key)) is not None and known.runs]
    if as_json:
        print_json(rows)
        return
    table = figures_table("PROFILE", "RUNS", "LAST RUN", "CORES", "STAGES")
    for row in rows:
        lasted, cores = format_duration(row["duration_s"]), f"{row['cores']:g}"
        table.add_row(row["profile"], str(row["runs"]), lasted, cores, str(row["stages"]))
    table_console().print(table)


@profile_commands.command(epilog="Example: sparkpace profile show nightly")
@home_option
@click.argument("name", shell_complete=completes(complete_profiles))
@output_option
def show(home: Home, name: str, as_json: bool) -> None:
    """Show the stages of a profile's last run.

    With --output json, the whole profile is printed, as a file for --profile FILE elsewhere.
    """
    known = _load(home, name)
    if as_json:
        click.echo(profile_json(known), nl=False)
        return
    console = table_console()
    runs = ", ".join(format_duration(run.duration_s) for run in known.runs)
    console.print(f"{known.key}: {len(known.runs)} run(s), which took {runs}", soft_wrap=True)
    table = figures_table("STAGE", "TASKS", "RECORDS", "WORK (core-s)", "LASTED", "TEACHES")
    for stage in known.runs[-1].stages if known.runs else ():
        table.add_row(
            stage.name or stage.signature,
            str(stage.tasks),
            str(stage.records),
            f"{stage.work_core_s:.2f}",
            format_duration(stage.duration_s),
            "yes" if stage.teaches else "no",
        )
    console.print(table)


@profile_commands.command("curve", epilog="Example: sparkpace profile curve nightly --cores 8 -o curve.png")
@home_option
@click.argument("name", shell_complete=completes(complete_profiles))
@click.option("--cores", help="Largest number of cores in the curve [default: the slots of the last run].")
@picture_option("File for a picture of the curve")
@output_option
def show_curve(home: Home, name: str, cores: str | None, out: Path | None, as_json: bool) -> None:
    """Show when the application would end with fewer or more cores."""
    known = _load(home, name)
    had = reference_slots(known)
    most_cores = float(had) if cores is None else parse_cores(cores, option="--cores")
    found = curve(known, max(had, math.ceil(most_cores)), most_cores)
    if as_json:
        print_json(found)
    else:
        print_curve(found)
    if out is not None:
        plot_curve(found, out)


@profile_commands.command("drift", epilog="Example: sparkpace profile drift nightly")
@home_option
@click.argument("name", shell_complete=completes(complete_profiles))
@output_option
def show_drift(home: Home, name: str, as_json: bool) -> None:
    """Say whether the application's work per input has changed, and since when.

    Pettitt's test compares the stored runs.
    """
    found = drift(_load(home, name))
    if as_json:
        print_json(found)
    elif found.chance is None:
        click.echo(f"{found.runs} comparable run(s) are too few to show drift; it takes {LEAST_RUNS}")
    elif found.change is None or found.since_ms is None:
        click.echo(f"no drift seen over {found.runs} runs (chance {found.chance:.1%})")
    else:
        day = datetime.fromtimestamp(min(found.since_ms / 1000, LAST_DATE_S), UTC).date()
        which = "slower" if found.change > 0 else "faster"
        click.echo(
            f"{which} by {abs(found.change):.0%} since the run of {day} ({found.runs} runs, chance {found.chance:.1%})"
        )


@profile_commands.command(epilog="Example: sparkpace profile learn eventlog.zstd --name nightly")
@home_option
@click.argument("file", type=NamedPath())
@click.option("--name", help="Name of the profile [default: from the application's name and main file].")
def learn(home: Home, file: Path, name: str | None) -> None:
    """Teach a profile from a Spark event log of any cluster.

    FILE is plain, zstd, gzip, zip or tar, or a directory with one log.
    """
    run = logged_run(file)
    record = run.record
    if run.gaps:
        lacks = ", ".join(clause.partition(";")[0] for clause in run.gaps)
        raise BadInput(f"event log {file} has gaps, so it does not teach: {lacks}; give a log without gaps")
    key = profile_key(name, record.name, record.main)
    home.create()
    ProfileStore(home.profiles).learn(key, record)
    warn(run.notes)
    click.echo(f"Profile {key} learned a run of {format_duration(record.duration_s)} and {len(record.stages)} stages.")


@profile_commands.command(epilog="Example: sparkpace profile forget nightly")
@home_option
@click.argument("name", shell_complete=completes(complete_profiles))
def forget(home: Home, name: str) -> None:
    """Remove a stored profile."""
    if not home.profiles.is_dir() or not ProfileStore(home.profiles).forget(name):
        raise _unknown(home, name)
    click.echo(f"Profile {name} is forgotten.")


def _row(known: Profile) -> dict[str, Any]:
    """Return how many runs a profile has, and the duration, cores and stages of the last one."""
    last = known.runs[-1]
    counts = {"runs": len(known.runs), "duration_s": last.duration_s, "cores": last.cores, "stages": len(last.stages)}
    return {"profile": known.key, **counts}


def _load(home: Home, name: str) -> Profile:
    known = ProfileStore(home.profiles).load(name)
    if known is None:
        raise _unknown(home, name)
    return known


def _unknown(home: Home, name: str) -> BadInput:
    names = ProfileStore(home.profiles).nearest(name)
    return BadInput(f"there is no profile {name!r} in {home.profiles}; {names}, see `sparkpace profile list`")

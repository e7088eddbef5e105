"""`sparkpace savings`: the core-seconds that pacing would have saved in runs that were only watched."""

from __future__ import annotations

import click

from controller.cli.common import NumberRange, home_option, output_option, print_json, table_console
from controller.cli.completion import complete_runs, completes
from controller.cli.tables import duration_or_dash, figures_table, short_ids
from controller.home import Home
from controller.runs.profile_store import ProfileStore
from controller.runs.watched_runs import savings_of
from controller.wire.course import RunSavings, Savings

RESERVE = "savings are predicted without what a law keeps in reserve, so paced runs usually save less"
ON_TIME = {True: "yes", False: "no", None: "-"}


@click.command(epilog="Example: sparkpace savings --price 0.04")
@home_option
@click.argument("applications", metavar="[APP]...", nargs=-1, shell_complete=completes(complete_runs))
@click.option("--price", type=NumberRange("money per core-hour", 0.0), help="Price of a core-hour: adds the sum in money.")
@output_option
def savings(home: Home, applications: tuple[str, ...], price: float | None, as_json: bool) -> None:
    """Show the core-seconds that pacing would have saved in watched runs.

    For each run that was only watched (`--observe`) and has ended: whether it was on time, the core-seconds that it held and
    used, the least deadline that its cores could have met, and the core-seconds that the fewest cores would have saved at the
    same deadline, or at the same end without one. The interval holds the savings that single runs of its profile predict. APP
    is as for `report`; without APP, all such runs are shown.
    """
    found = savings_of(home.runs, ProfileStore(home.profiles), applications, price)
    if as_json:
        print_json(found)
    else:
        print_savings(found)


def print_savings(found: Savings) -> None:
    core_s = ("HELD CORE-S", "USED CORE-S", "SAVED CORE-S", "INTERVAL")
    table = figures_table("APP", "NAME", "ON TIME", "DEADLINE", "END", "LEAST DEADLINE", *core_s)
    names = short_ids([run.application_id for run in found.applications])
    for name, run in zip(names, found.applications, strict=True):
        table.add_row(name, *_row(run))
    console = table_console()
    console.print(table)
    for name, run in zip(names, found.applications, strict=True):
        if run.remark:
            console.print(f"{name}: {run.remark}", soft_wrap=True)
    held, used, saved = found.held_core_s, found.used_core_s, found.saved_core_s
    interval = _interval(found.least_core_s, found.most_core_s, 0)
    sums = f"{held:.0f} core-s held, {used:.0f} used, {saved:.0f} saved"
    console.print(f"in total: {sums} (interval: {interval})", soft_wrap=True)
    console.print(RESERVE, soft_wrap=True)
    if (money := found.money) is not None:
        interval = _interval(money.least, money.most, 2)
        console.print(f"at {money.price:g} per core-hour: {money.saved:.2f} saved (interval: {interval})", soft_wrap=True)


def _row(run: RunSavings) -> tuple[str, ...]:
    return (
        run.name,
        ON_TIME[run.on_time],
        *map(duration_or_dash, (run.deadline_s, run.end_s, run.least_deadline_s)),
        f"{run.held_core_s:.0f}",
        f"{run.used_core_s:.0f}",
        "-" if run.saved_core_s is None else f"{run.saved_core_s:.0f}",
        _interval(run.least_core_s, run.most_core_s, 0),
    )


def _interval(least: float | None, most: float | None, decimals: int) -> str:
    return "not known" if least is None or most is None else f"{least:.{decimals}f} to {most:.{decimals}f}"

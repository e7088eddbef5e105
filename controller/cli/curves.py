"""Cores against end, as `plan` and `profile curve` show them: a table, and with -o a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from controller.cli.common import NamedPath, check_writable, table_console
from controller.cli.tables import figures_table
from stage_model.forecast.curve import Curve
from stage_model.units import format_duration

F = TypeVar("F", bound=Callable[..., Any])


def picture_option(what: str) -> Callable[[F], F]:
    """Add -o for a picture of `what`, given to the command as `out`."""

    def convert(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
        return None if value is None else check_writable(value)

    return click.option(
        "-o",
        "--out",
        type=NamedPath(dir_okay=False),
        callback=convert,
        help=f"File for a picture of {what}: .png, .svg or .pdf.",
    )


def print_curve(found: Curve) -> None:
    """Print the curve on stdout, for people."""
    table = figures_table("CORES", "END", "LEAST", "MOST")
    for point in found.points:
        ends = ("-" if s is None else format_duration(s) for s in (point.end_s, point.least_s, point.most_s))
        table.add_row(f"{point.cores:g}", *ends)
    console = table_console()
    console.print(table)
    told = f"least and most are those of {found.runs} runs alone" if found.runs > 1 else "one run alone gives no interval"
    console.print(told, soft_wrap=True)


def draw_curve(found: Curve, output: Path, *, deadline_s: float | None = None, cores: float | None = None) -> None:
    """Draw the curve into that file, with the deadline and the cores that it takes. Raise `BadInput` and `Unavailable`."""
    from controller.runs.plot import plot_curve  # here, because matplotlib takes a second to import

    plot_curve(found, output, deadline_s=deadline_s, cores=cores)

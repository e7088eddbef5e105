"""The shapes of the tables that commands print, and the tables that several commands print."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from controller.machine.printable import printable
from stage_model.units import format_distance, format_duration

_OUR_ID = re.compile(r"(pace-\d+-\d+)-[0-9a-f]+")
_SESSION = re.compile(r'session_id: "[^"]*"')
"""Part of what Spark Connect calls a query: the same for all queries of a session, and before the part that distinguishes
them."""
MOST_NAME = 60
"""Number of characters of a query's name, which may be its text."""
LONGEST_STAGE = 200
"""Number of characters of a stage's name, which ends in the place of its call."""


def text_table(*headings: str) -> Table:
    """Return a table of texts; a long text takes several lines."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def figures_table(*headings: str) -> Table:
    """Return a table with a name in the first column, figures in the others."""
    table = text_table(*headings)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def actions_table(actions: Sequence[Mapping[str, Any]]) -> Table:
    """Return jobs and queries with deadlines of their own, from a run's record: the times of each, and its distance from its
    deadline."""
    table = figures_table("JOB OR QUERY", "START", "END", "DEADLINE", "DISTANCE")
    for action in actions:
        name, error = " ".join(_SESSION.sub("", action["name"]).split()), action["error_pct"]
        table.add_row(
            printable(name, MOST_NAME) + ("…" if len(name) > MOST_NAME else ""),
            *(duration_or_dash(action[key]) for key in ("start_s", "end_s", "deadline_s")),
            "-" if error is None else format_distance(error),
        )
    return table


def bounds_table(stages: Sequence[Mapping[str, Any]]) -> Table:
    """Return the largest stages with what bounds each (`StageBound`, as JSON has it)."""
    table = figures_table("LARGEST STAGES", "NUMBER", "BOUND BY", "TASKS", "TIME", "SHARE")
    for stage in stages:
        table.add_row(
            printable(stage["name"], LONGEST_STAGE),
            str(stage.get("number", 1)),  # records without it have a row for each repetition
            stage["bound"],
            str(stage["tasks"]),
            format_duration(stage["time_s"]),
            f"{stage['share']:.0%}",
        )
    return table


def short_ids(ids: Sequence[str]) -> list[str]:
    """Return each id without its random end where its date and time name only one of them: commands take the shorter form."""
    starts = [match[1] if (match := _OUR_ID.fullmatch(text)) else text for text in ids]
    alone = {start for start in starts if sum(text.startswith(start) for text in ids) == 1}
    return [start if start in alone else whole for start, whole in zip(starts, ids, strict=True)]


def duration_or_dash(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)

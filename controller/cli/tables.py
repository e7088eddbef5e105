"""The tables of `sparkpace ps` and `sparkpace top`, one row per application, one per worker; and the shape of others.

Only what fits 120 columns; `ps --output json` has everything. Not covered: the progress line of `submit`
(`controller.submit.progress_line`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from controller.machine.printable import printable
from controller.wire.command import ApplicationView, UserShare, WorkerView
from stage_model.units import format_distance, format_duration, priority_name

_OUR_ID = re.compile(r"(pace-\d+-\d+)-[0-9a-f]+")
_SESSION = re.compile(r'session_id: "[^"]*"')
"""Part of what Spark Connect calls a query: the same for all of a session, and before what distinguishes them."""
MOST_NAME = 60
"""Number of characters of a query's name, which may be its text."""
LONGEST_STAGE = 200
"""Number of characters of a stage's name, which ends in the place of its call."""


def applications_table(views: Sequence[ApplicationView]) -> Table:
    """Return the table. Durations count from submission; cores are granted of demanded, debt is core-seconds not given back
    yet. Pipelines are shown where there is one."""
    of_pipelines = any(view.pipeline for view in views)
    left = ("APP", "NAME", *(("PIPELINE",) if of_pipelines else ()), "STATE", "PRIO")
    table = _table(left, ("ELAPSED", "DEADLINE", "FORECAST", "DONE", "CORES", "MEMORY", "DEBT"))
    for view, name in zip(views, short_ids([view.application_id for view in views]), strict=True):
        table.add_row(
            name,
            view.name,
            *((view.pipeline or "-",) if of_pipelines else ()),
            _state(view),
            priority_name(view.priority),
            format_duration(view.elapsed_s),
            _duration(view.deadline_s),
            _duration(view.forecast_end_s),
            "-" if view.progress is None else f"{view.progress:.0%}",
            f"{view.granted_cores:.2f} of {view.demand_cores:.2f}",
            _memory(view.memory_mb),
            f"{view.debt_core_s:.1f}" if view.debt_core_s else "-",
        )
    return table


def workers_table(workers: Sequence[WorkerView]) -> Table:
    table = _table(("WORKER", "HOST", "RUNTIME"), ("CORES", "MEMORY", "HEARD"))
    for worker in workers:
        table.add_row(
            worker.worker_id,
            worker.host,
            worker.runtime,
            f"{worker.cores:.2f}",
            _memory(worker.memory_mb),
            f"{format_duration(worker.seen_s_ago)} ago",
        )
    return table


def silences(workers: Iterable[WorkerView]) -> list[Text]:
    """Return a line for each worker that does not report."""
    return [Text(worker.silence) for worker in workers if worker.silence]


def share_lines(views: Iterable[ApplicationView]) -> list[Text]:
    """Return a line for the share of each user with limits: what is promised of it."""
    shares = {view.share.user: view.share for view in views if view.share is not None}
    return [Text(_share_line(share)) for share in shares.values()]


def _share_line(share: UserShare) -> str:
    said = [
        f"{used} of {most} {what}"
        for used, most, what in (
            (f"{share.cores:.2f}", share.most_cores and f"{share.most_cores:.2f}", "cores promised"),
            (share.memory_mb, share.most_memory_mb, "MiB promised"),
            (share.applications, share.most_applications, "applications"),
        )
        if most is not None
    ]
    highest = share.highest_priority
    said += [] if highest is None else [f"highest priority {priority_name(highest)}"]
    return f"user {printable(share.user, MOST_NAME)}: {', '.join(said)}"


def actions_table(actions: Sequence[Mapping[str, Any]]) -> Table:
    """Return jobs and queries with deadlines of their own, from a run's record: when each was, and how far from its
    deadline."""
    table = figures_table("JOB OR QUERY", "START", "END", "DEADLINE", "DISTANCE")
    for action in actions:
        name, error = " ".join(_SESSION.sub("", action["name"]).split()), action["error_pct"]
        table.add_row(
            printable(name, MOST_NAME) + ("…" if len(name) > MOST_NAME else ""),
            *(_duration(action[key]) for key in ("start_s", "end_s", "deadline_s")),
            "-" if error is None else format_distance(error),
        )
    return table


def bounds_table(stages: Sequence[Mapping[str, Any]]) -> Table:
    """Return the largest stages with what bounds each (`StageBound`, as JSON has it)."""
    table = figures_table("LARGEST STAGES", "BOUND BY", "TASKS", "TIME", "SHARE")
    for stage in stages:
        table.add_row(
            printable(stage["name"], LONGEST_STAGE),
            stage["bound"],
            str(stage["tasks"]),
            format_duration(stage["time_s"]),
            f"{stage['share']:.0%}",
        )
    return table


def figures_table(*headings: str) -> Table:
    """Return a table with a name in the first column, figures in the others."""
    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    return table


def short_ids(ids: Sequence[str]) -> list[str]:
    """Return each id of ours without its random end where its date and time still name one of them only: commands take
    that."""
    starts = [match[1] if (match := _OUR_ID.fullmatch(text)) else text for text in ids]
    alone = {start for start in starts if sum(text.startswith(start) for text in ids) == 1}
    return [start if start in alone else whole for start, whole in zip(starts, ids, strict=True)]


def _state(view: ApplicationView) -> str:
    """Return the state of an application: while it waits, with its place in the queue; once it is settled how it ended, the
    outcome."""
    if view.queue_position is not None:
        return f"{view.state} {view.queue_position}"
    return (view.outcome or view.state).replace("_", " ")


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(left):
        table.add_column(heading, no_wrap=number == 0)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)


def _memory(mb: int) -> str:
    """Return a short text: "-" for none, "3840M", from 10 GiB on "12.5G"."""
    if mb == 0:
        return "-"
    return f"{mb}M" if mb < 10240 else f"{mb / 1024:.1f}G"

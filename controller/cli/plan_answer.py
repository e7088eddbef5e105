"""Answers of `plan`, `profile curve` and `submit --dry-run`: a plan of a profile, and the tables of plans for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from controller.cli.common import print_json, table_console
from controller.cli.tables import duration_or_dash, figures_table
from controller.client import submit_client
from controller.home import Home
from controller.runs.profile_store import ProfileStore
from controller.submit.profile_choice import read_profile
from controller.wire.command import PlannedStage, PlanReply, PlanRequest
from stage_model.errors import BadInput, Unavailable
from stage_model.forecast.curve import Curve
from stage_model.units import format_duration


def plan_of_profile(given: str, request: PlanRequest, home: Home) -> PlanReply:
    """Return the master's plan of a profile, which is given by its name or file. Raise `PaceError`."""
    chosen = read_profile(given, Path.cwd())
    reply = submit_client(home).plan(structs.replace(request, profile=chosen.name, profile_json=chosen.text))
    if not reply.known:
        names = ProfileStore(home.profiles).nearest(given)
        raise BadInput(f"no profile {given!r} is known; {names} (an application that sets its own name has that one's)")
    return reply


def print_plan(reply: PlanReply, *, as_json: bool) -> None:
    if as_json:
        print_json(reply)
        return
    console = table_console()
    if not reply.known:
        console.print(reply.reason, soft_wrap=True)
        return
    if reply.stages and reply.curve is None:
        print_stages(reply.stages)
    if reply.least_deadline_s is not None:
        console.print(f"least deadline: {format_duration(reply.least_deadline_s)}, with {reply.cluster_cores:g} cores")
    if reply.cores is not None:
        console.print(f"cores needed: {reply.cores:.2f}")
    if reply.reason:
        console.print(reply.reason, soft_wrap=True)
    if reply.basis is not None:
        console.print(reply.basis.sentence, soft_wrap=True)
    if reply.curve is not None:
        print_curve(reply.curve)


def print_stages(stages: Sequence[PlannedStage]) -> None:
    """Print the stages with their tasks and work, and with their deadlines where they have any."""
    timed = any(stage.deadline_s is not None for stage in stages)
    table = figures_table("stage", "tasks", "work (core-s)", *(("deadline", "initial cores") if timed else ()))
    for stage in stages:
        row = [stage.name, str(stage.tasks), f"{stage.work_core_s:.1f}"]
        if stage.deadline_s is not None and stage.initial_cores is not None:
            row += [format_duration(stage.deadline_s), f"{stage.initial_cores:.2f}"]
        table.add_row(*row)
    table_console().print(table)


def print_curve(found: Curve) -> None:
    table = figures_table("CORES", "END", "LEAST", "MOST")
    for point in found.points:
        table.add_row(f"{point.cores:g}", *map(duration_or_dash, (point.end_s, point.least_s, point.most_s)))
    console = table_console()
    console.print(table)
    note = f"least and most are those of only {found.runs} runs" if found.runs > 1 else "a single run gives no interval"
    console.print(note, soft_wrap=True)


def curve_for(out: Path, reply: PlanReply) -> Curve:
    """Return the plan's curve, which is to be drawn into `out`. Raise `Unavailable` for a plan without a curve."""
    if reply.curve is None:
        raise Unavailable(f"-o {out} cannot be drawn ({reply.reason}); start a worker")
    return reply.curve

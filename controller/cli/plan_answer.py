"""Answers of `plan` and `submit --dry-run`, shown for people."""

from __future__ import annotations

from collections.abc import Sequence

from controller.cli.common import table_console
from controller.cli.curves import print_curve
from controller.cli.tables import figures_table
from controller.wire.command import PlannedStage, PlanReply
from stage_model.units import format_duration


def print_plan(reply: PlanReply) -> None:
    """Print the plan on stdout, for people."""
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

"""The plan of event logs of one application, with what could be saved, how sure that is, and what bounds its stages."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from controller.cli.common import table_console
from controller.cli.plan_answer import print_curve, print_stages
from controller.cli.tables import bounds_table
from controller.master.core.capacity import Capacity
from controller.master.core.plan_reply import asked_law, planned_on
from controller.runs.log_profile import LoggedRun, logged_profile
from controller.wire.command import PlanReply, PlanRequest
from stage_model.forecast.advice import Advice, advice
from stage_model.forecast.curve import reference_slots
from stage_model.forecast.estimate import ApplicationEstimate, estimate, reference_run
from stage_model.forecast.promises import NOTHING_PROMISED
from stage_model.forecast.saving import Saving
from stage_model.history.profile import Profile
from stage_model.units import format_duration


class LogPlan(PlanReply, frozen=True, kw_only=True):
    """The plan of event logs. `cores` are the cores with which the law aims at a deadline, and `advice` has the fewest cores
    that keep it."""

    advice: Advice


def plan_of_logs(runs: Sequence[LoggedRun], request: PlanRequest) -> LogPlan:
    """Return the plan of these runs of one application, with its curve. Raise `BadInput` as `plan_without_cluster` does."""
    known = logged_profile(runs)
    expected = estimate(known)
    reply = plan_without_cluster(msgspec.structs.replace(request, curve=True), known, expected)
    last = reference_run(known).id
    held = next(run.held for run in reversed(runs) if run.record.id == last)
    basis = () if reply.basis is None else (reply.basis.sentence,)
    doubts = (*basis, *(sentence for run in runs for sentence in run.notes))
    found = advice(known, expected, held, reply.cluster_cores, request.deadline_s, doubts)
    return LogPlan(**msgspec.structs.asdict(reply), advice=found)


def plan_without_cluster(request: PlanRequest, profile: Profile, expected: ApplicationEstimate) -> PlanReply:
    """Return the plan on as many slots and cores as the profile's last run had slots, without other applications; where more
    cores are asked for, on as many more executors. Raise `BadInput` as `plan_reply` does."""
    had = reference_slots(profile)
    slots = max(had, math.ceil(request.most_cores or 0.0))
    executors = max(1, math.ceil(reference_run(profile).executors * slots / had))
    most = Capacity(float(slots), slots, speed_limit=1.0, executors=executors)
    return planned_on(most, profile, expected, request, NOTHING_PROMISED, asked_law(request, "forecast"))


def print_log_plan(reply: LogPlan, request: PlanRequest) -> None:
    console, found = table_console(), reply.advice
    if reply.curve is not None:
        print_curve(reply.curve)
    if any(stage.deadline_s is not None for stage in reply.stages):
        print_stages(reply.stages)
    if request.law is not None and reply.cores is not None:
        console.print(f"cores needed: {reply.cores:.2f}")
    console.print(reply.reason, soft_wrap=True)
    console.print(_fewest(found, request), soft_wrap=True)
    console.print(_core_hours(found.saving), soft_wrap=True)
    console.print(f"how sure: {found.sure}", soft_wrap=True)
    for doubt in found.doubts:
        console.print(f"- {doubt}", soft_wrap=True)
    console.print(bounds_table([msgspec.structs.asdict(stage) for stage in found.largest_stages]))
    console.print(f"driver, before, between and after stages: {found.driver_share:.0%} of the whole", soft_wrap=True)


def core_hours(core_s: float) -> str:
    """Return core-seconds as core-hours, for people: with more digits if there is less than one."""
    hours = core_s / 3600
    return f"{hours:.2f}" if hours >= 1 or not hours else f"{hours:.4f}"


def _fewest(found: Advice, request: PlanRequest) -> str:
    cores, within = found.saving.fewest_cores, format_duration(found.saving.within_s)
    if request.deadline_s is not None:
        what = f"for the deadline of {within}"
    elif within != format_duration(found.took_s):
        those = "all" if request.most_cores is None else f"{request.most_cores:g}"
        what = f"for {within}, the time with {those} cores"
    else:
        what = f"for {within}, the time that it takes today"
    return f"fewest cores {what}: {'there are too few' if cores is None else f'{cores:.2f}'}"


def _core_hours(found: Saving) -> str:
    had = f"core-hours held in the log: {core_hours(found.held_core_s)}"
    if found.fewest_cores is None:
        return had
    return f"{had}; {core_hours(found.saved_core_s)} could be saved with {found.fewest_cores:.2f} cores in this time"

"""The plans of event logs: of one application, with what could be saved, how sure that is, and what bounds its stages; and of
several, the night as it was, and the cores with which each of them would end in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from controller.cli.common import print_json, table_console, warn
from controller.cli.plan_answer import print_curve, print_stages
from controller.cli.tables import bounds_table, figures_table
from controller.master.core.plan_reply import plan_without_cluster
from controller.runs.log_profile import LoggedRun, logged_profile, maybe_one_job
from controller.runs.plot_night import plot_night
from controller.wire.command import PlanReply, PlanRequest
from stage_model.clock_times import is_clock_time
from stage_model.errors import BadInput
from stage_model.forecast.advice import Advice, advice
from stage_model.forecast.estimate import reference_run
from stage_model.forecast.night import LATEST_S, Night, first_start_s, night
from stage_model.forecast.saving import Saving
from stage_model.units import format_duration, is_time, parse_deadline

MOMENT = "%a %H:%M:%S"
OF_ONE_APPLICATION = {"curve": "--curve", "cores": "--cores", "log_cores": "--log-cores", "law": "--law"}


class LogPlan(PlanReply, frozen=True, kw_only=True):
    """The plan of event logs. `cores` are those with which the law aims at a deadline, and `advice` has the fewest that keep
    it."""

    advice: Advice


def plan_of_logs(runs: Sequence[LoggedRun], request: PlanRequest) -> LogPlan:
    """Return the plan of these runs of one application, with its curve. Raise `BadInput` as `plan_without_cluster` does."""
    known = logged_profile(runs)
    reply = plan_without_cluster(msgspec.structs.replace(request, curve=True), known)
    last = reference_run(known).id
    held = next(run.held for run in reversed(runs) if run.record.id == last)
    basis = () if reply.basis is None else (reply.basis.sentence,)
    doubts = (*basis, *(sentence for run in runs for sentence in run.notes))
    found = advice(known, held, reply.cluster_cores, request.deadline_s, doubts)
    return LogPlan(**msgspec.structs.asdict(reply), advice=found)


def print_log_plan(reply: LogPlan, request: PlanRequest) -> None:
    """Print the plan on stdout, for people."""
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


def _in_core_hours(core_s: float) -> str:
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
    had = f"core-hours held in the log: {_in_core_hours(found.held_core_s)}"
    if found.fewest_cores is None:
        return had
    return f"{had}; {_in_core_hours(found.saved_core_s)} could be saved with {found.fewest_cores:.2f} cores in this time"


# ---------------------------------------------------------------- a night


def show_night(runs: Sequence[LoggedRun], two: str, given: Mapping[str, Any], zone: tzinfo, *, as_json: bool) -> bool:
    """Show the night of runs of different applications, of which a clause names `two`. Return False if one of them would not
    have ended by the deadline with all its cores."""
    if sentence := maybe_one_job(runs):  # before refusals, of which it may be the cause
        warn([sentence])
    for name, option in OF_ONE_APPLICATION.items():
        if given[name]:
            raise BadInput(f"{two}, and {option} is for one application; give logs of one application")
    found = _plan_of_night(runs, given["deadline"], zone)
    if given["out"] is not None:
        plot_night(found, given["out"], zone)
    warn(sentence for run in runs for sentence in run.notes)
    if as_json:
        print_json(found)
    else:
        _print_night(found, zone)
    return found.feasible


def _plan_of_night(runs: Sequence[LoggedRun], deadline: str | None, zone: tzinfo) -> Night:
    """Return the night of these runs. The deadline is a time; a time of day is the next one after the first run began. Raise
    `BadInput` for a duration, because the runs have different starts."""
    known = [(logged_profile([run]), run.held) for run in runs]
    first_s = first_start_s(known)
    return night(known, None if deadline is None else first_s + _after_s(deadline, datetime.fromtimestamp(first_s, zone)))


def _print_night(found: Night, zone: tzinfo) -> None:
    """Print the night on stdout, for people, with times of that zone."""
    table = figures_table("JOB", "START", "END", "CORES", "CORE-H", "FEWEST CORES", "END THEN", "CORE-H THEN")
    for job in found.jobs:
        fewest, end_s, saving = job.fewest_held, job.new_end_s, job.saving
        table.add_row(
            job.name,
            _moment(job.start_s, zone),
            _moment(job.end_s, zone),
            f"{job.held.most_cores:g}",
            _in_core_hours(saving.held_core_s),
            "too few" if fewest is None else f"{fewest:.2f}",
            "-" if end_s is None else _moment(end_s, zone),
            _in_core_hours(saving.held_core_s - saving.saved_core_s),
        )
    console = table_console()
    console.print(table)
    due = datetime.fromtimestamp(found.deadline_s, zone)
    console.print(f"the deadline is {due:%A, %Y-%m-%d %H:%M:%S %Z}", soft_wrap=True)
    held, needed = _in_core_hours(found.held_core_s), _in_core_hours(found.needed_core_s)
    console.print(f"core-hours: {held} held, {needed} needed by jobs with the fewest cores", soft_wrap=True)
    if late := [job.name for job in found.jobs if job.saving.fewest_cores is None]:
        console.print(f"all their cores are too few to end by then: {', '.join(late)}", soft_wrap=True)


def _after_s(deadline: str, first: datetime) -> float:
    """Return the seconds from `first` to the deadline."""
    if not is_time(deadline):
        parse_deadline(deadline, first)  # for its own refusal of what is no duration either
        raise BadInput(
            f"--deadline {deadline!r} is a duration, and event logs of several applications begin at different times; give a "
            "time, such as 'by 07:00'"
        )
    try:
        return parse_deadline(deadline, first)
    except BadInput as error:
        if is_clock_time(deadline):
            raise
        raise BadInput(
            f"--deadline {deadline!r} is not within 366 days after the first job began "
            f"({first.isoformat(timespec='seconds')}); give a later time, or a time of day such as 'by 07:00'"
        ) from error


def _moment(epoch_s: float, zone: tzinfo) -> str:
    return datetime.fromtimestamp(min(epoch_s, LATEST_S), zone).strftime(MOMENT)

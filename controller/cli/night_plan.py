"""The plan of event logs of several applications: the night as it was, and the cores with which each would end in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from controller.cli.common import print_json, table_console, warn
from controller.cli.log_plan import core_hours
from controller.cli.tables import figures_table
from controller.runs.log_profile import LoggedRun, logged_profile, maybe_one_job
from controller.runs.plot_runs import plot_night
from stage_model.errors import BadInput
from stage_model.forecast.night import LATEST_S, Night, first_start_s, night
from stage_model.units import is_clock_time, is_time, parse_deadline

MOMENT = "%a %H:%M:%S"
OF_ONE_APPLICATION = {"curve": "--curve", "cores": "--cores", "log_cores": "--log-cores", "law": "--law"}


def show_night(runs: Sequence[LoggedRun], two: str, given: Mapping[str, Any], zone: tzinfo, *, as_json: bool) -> bool:
    """Show the night of runs of different applications; the clause `two` names two of them. Return False if a job would not
    have ended by the deadline with all its cores."""
    if sentence := maybe_one_job(runs):  # before refusals, of which it may be the cause
        warn([sentence])
    for name, option in OF_ONE_APPLICATION.items():
        if given[name]:
            raise BadInput(f"{two}, and {option} is for one application; give logs of one application")
    found = _plan_of_night(runs, given["deadline"], zone)
    warn(sentence for run in runs for sentence in run.notes)
    if as_json:
        print_json(found)
    else:
        _print_night(found, zone)
    if given["out"] is not None:
        plot_night(found, given["out"], zone)
    return found.feasible


def _plan_of_night(runs: Sequence[LoggedRun], deadline: str | None, zone: tzinfo) -> Night:
    """Return the night of these runs. The deadline is a time; a time of day is the next one after the first run began. Raise
    `BadInput` for a duration, because the runs have different starts."""
    known = [(logged_profile([run]), run.held) for run in runs]
    first_s = first_start_s(known)
    return night(known, None if deadline is None else first_s + _after_s(deadline, datetime.fromtimestamp(first_s, zone)))


def _print_night(found: Night, zone: tzinfo) -> None:
    table = figures_table("JOB", "START", "END", "CORES", "CORE-H", "FEWEST CORES", "END THEN", "CORE-H THEN")
    for job in found.jobs:
        fewest, end_s, saving = job.fewest_held, job.new_end_s, job.saving
        table.add_row(
            job.name,
            _moment(job.start_s, zone),
            _moment(job.end_s, zone),
            f"{job.held.most_cores:g}",
            core_hours(saving.held_core_s),
            "too few" if fewest is None else f"{fewest:.2f}",
            "-" if end_s is None else _moment(end_s, zone),
            core_hours(saving.held_core_s - saving.saved_core_s),
        )
    console = table_console()
    console.print(table)
    due = datetime.fromtimestamp(found.deadline_s, zone)
    console.print(f"the deadline is {due:%A, %Y-%m-%d %H:%M:%S %Z}", soft_wrap=True)
    held, needed = core_hours(found.held_core_s), core_hours(found.needed_core_s)
    console.print(f"core-hours: {held} held, {needed} needed by jobs with the fewest cores", soft_wrap=True)
    if late := [job.name for job in found.jobs if job.saving.fewest_cores is None]:
        console.print(f"all their cores are too few to end by then: {', '.join(late)}", soft_wrap=True)


def _after_s(deadline: str, first: datetime) -> float:
    if not is_time(deadline):
        parse_deadline(deadline, first)  # this call refuses a text that is no duration either
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

"""`sparkpace set`: another deadline, priority or labels for a running application, checked like a submission."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from controller.asks.job_options import JobOptions
from controller.master.core.application import Application, Target
from controller.master.core.application_record import ApplicationRecord, AppliedChange
from controller.master.core.capacity import Capacity
from controller.master.core.feasibility import alongside, rounded_up
from controller.master.core.goals import await_goal
from controller.master.core.remaining import promise
from controller.wire.command import Change
from controller.wire.limits import CHANGES
from placement.labels import parse_requirements
from stage_model.errors import BadInput, InfeasibleDeadline
from stage_model.forecast.promises import Claim, Promised, fits, least_deadline_s
from stage_model.units import format_duration, parse_priority


def changed_record(application: Application, asked: Change, now_s: float) -> ApplicationRecord | None:
    """Return the application's record after the change, whether a deadline can be met or not; None where nothing changes.
    Raise `BadInput` for a change that cannot be."""
    elapsed_s, before = application.elapsed_s(now_s), application.options
    after = _options(application, asked, elapsed_s)
    if after == before:
        return None
    labels = _labels(after)
    applied = AppliedChange(at_s=round(elapsed_s, 3), deadline_s=after.deadline_s, priority=after.priority, labels=labels)
    return structs.replace(application.record, options=after, changes=[*application.record.changes, applied])


def change(application: Application, record: ApplicationRecord, now_s: float) -> None:
    """Take over the options of a `changed_record`, and change the deadlines of the stages under way."""
    after, labels, elapsed_s = record.options, _labels(record.options), application.elapsed_s(now_s)
    application.record.options, application.record.changes = after, record.changes
    application.plan.drop_goals(application.run.active_stages())
    for stage in application.run.active_stages():
        await_goal(application, stage.key, now_s)
    said = "none" if after.deadline_s is None else format_duration(after.deadline_s)
    where = f", on workers with {labels}" if labels else ""
    application.notify(f"at {format_duration(elapsed_s)}: deadline {said}, priority {after.priority}{where}")


def claim_after(application: Application, asked: Change, most: Capacity, now_s: float) -> Claim | None:
    """Return the application's claim with the deadline asked for; None where that changes nothing, or no claim is known.
    Raise `BadInput` for a change that cannot be."""
    before = application.options
    after = _options(application, asked, application.elapsed_s(now_s))
    if after == before or after.deadline_s is None or not most.cores:
        return None
    application.record.options = after
    try:
        return promise(application, Target(0.0, after.deadline_s), most, now_s)
    finally:
        application.record.options = before


def check_claim(claim: Claim, promised: Promised, most: Capacity, elapsed_s: float) -> None:
    """Raise `InfeasibleDeadline` when the work left cannot be done in time alongside what the others were `promised`."""
    others = alongside(promised, claim.priority, most)
    if fits(claim, others):
        return
    least_s = elapsed_s + least_deadline_s(claim, others)
    rivals = f" alongside {len(others.claims)} promised of the same or a higher priority" if others.claims else ""
    raise InfeasibleDeadline(
        f"deadline {format_duration(elapsed_s + claim.left_s)} cannot be met{rivals}; accepted: {rounded_up(least_s)} or "
        "more, or --force"
    )


def _labels(options: JobOptions) -> str:
    return ",".join(map(str, options.placement.labels))


def _options(application: Application, asked: Change, elapsed_s: float) -> JobOptions:
    """Return the options that the application would have after the change."""
    if application.ended:
        raise BadInput(f"application {application.id} has ended; only a running one can be changed")
    after = application.options
    if len(application.record.changes) >= CHANGES:
        raise BadInput(f"application {application.id} has reached the limit of {CHANGES} changes")
    if asked.priority is not None:
        after = replace(after, priority=parse_priority(asked.priority))
    if asked.no_deadline:
        after = replace(after, deadline_s=None)
    elif asked.deadline_s is not None:
        if not elapsed_s < asked.deadline_s < float("inf"):
            raise BadInput(
                f"deadline {format_duration(asked.deadline_s)} has passed: the application has run for "
                f"{format_duration(elapsed_s)}; give a later one, or none"
            )
        after = replace(after, deadline_s=asked.deadline_s)
    if asked.labels is not None:
        wanted = parse_requirements(asked.labels, option="--labels")
        after = replace(after, placement=replace(after.placement, labels=wanted))
    return after

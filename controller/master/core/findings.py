"""Findings about an application for its user: the basis of its forecast, what bounds its largest stages, and the reason why
it was or will be late."""

from __future__ import annotations

from controller.master.core.application import Application
from controller.master.core.capacity import Capacity
from controller.master.core.feasibility import whole_forecast
from controller.master.core.lateness import RunEnd, why_late
from controller.master.core.lesson import basis
from controller.master.core.remaining import Remaining
from controller.wire.basis import Basis, Lateness
from stage_model.forecast.bounds import StageBound, stage_bounds
from stage_model.forecast.estimate import ApplicationEstimate, reference_run


def basis_of(application: Application) -> Basis:
    """Return the basis of an application's forecast, as it is now."""
    remaining, late_since_s = Remaining.of(application), application.late_since_s()
    if remaining is None:
        return basis(None, None, late_since_s)
    return basis(remaining.estimate.grounds, remaining.matched.matched_share, late_since_s)


def bounds_of(application: Application) -> tuple[StageBound, ...]:
    """Return the bounds of an application's largest stages in the runs that it is planned from; none without a profile."""
    what, profile = application.estimate, application.profile
    if what is None or profile is None:
        return ()
    run = reference_run(profile, application.options.arguments)
    return stage_bounds(what, max(1, run.slots), run.duration_s)


def lateness_of(application: Application, most: Capacity) -> Lateness | None:
    """Return the reason why an application that has ended well was late; None if it was not late or had no deadline."""
    record, deadline_s = application.record, application.options.deadline_s
    if record.ended_s is None or not application.succeeded or deadline_s is None:
        return None
    return why_late(_facts(application, most, deadline_s, record.ended_s))


def lateness_to_come(application: Application, most: Capacity, end_s: float) -> Lateness | None:
    """Return the reason why a running application will be late if it ends as forecast, `end_s` after submission; None if that
    is in time, without a profile, and while the deadline of a single job governs."""
    target = application.target()
    if application.ended or application.estimate is None or target is None or target.jobs is not None:
        return None
    return why_late(_facts(application, most, target.due_s, end_s))


def _facts(application: Application, most: Capacity, deadline_s: float, end_s: float) -> RunEnd:
    what, profile, first_ms = application.estimate, application.profile, application.stream.first_task_ms
    return RunEnd(
        deadline_s=deadline_s,
        end_s=end_s,
        cores=most.cores,
        used_core_s=_work_core_s(application),
        least_s=whole_forecast(what, most).time_s(most.cores) if what is not None and most.cores > 0 else None,
        planned_core_s=sum(stage.work_core_s for stage in what.stages) if what is not None else None,
        other_arguments=what is not None and what.grounds.other_arguments,
        planned_start_s=_planned_start_s(what) if what is not None else None,
        first_task_s=application.since_submission(first_ms) if first_ms else None,
        waited_for=application.placement.waited_for,
        owed_core_s=application.debt_core_s(),
        squeezed_by=application.totals.squeezed_by(),
        late_since_s=application.late_since_s(),
        under_way=not application.ended,
        # what is tried again is read again, and is no larger input
        input_records=sum(stage.amounts.input_records for stage in application.run.first_attempts()),
        most_input_records=max((run.input_records for run in profile.runs), default=None) if profile else None,
    )


def _planned_start_s(what: ApplicationEstimate) -> float:
    """Return the expected time of the first task, in seconds after submission; where it is not known, the first stage's fixed
    time has its wait for executors."""
    waits_s = what.stages[0].fixed_s if what.launch_s is None and what.stages else 0.0
    return what.first_task_s + waits_s


def _work_core_s(application: Application) -> float:
    """Return the work of an application's stages, measured as its profile's was, so that both can be compared. While it runs,
    stages under way and to come count with what is expected of them."""
    what, remaining = application.estimate, None if application.ended else Remaining.of(application)
    use = application.totals.stage_use() if what is None or what.cpu_source == "container" else None
    attempts = application.run.attempts.items()
    done = {key: stage.work_core_s(None if use is None else use.get(key, 0.0)) for key, stage in attempts}
    if remaining is None:
        return sum(done.values())
    matched = remaining.matched
    active = {key: max(done[key], matched.work_ratio * stage.work_core_s) for key, stage in matched.active.items()}
    return sum((done | active).values()) + matched.work_ratio * sum(stage.work_core_s for stage in matched.to_come)

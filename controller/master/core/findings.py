"""Two findings about an application for its user: the basis of its forecast, and the reason why it was late."""

from __future__ import annotations

from controller.master.core.application import Application
from controller.master.core.basis import basis
from controller.master.core.capacity import Capacity
from controller.master.core.feasibility import whole_forecast
from controller.master.core.lateness import RunEnd, why_late
from controller.master.core.remaining import Remaining
from controller.wire.basis import Basis, Lateness


def basis_of(application: Application) -> Basis:
    """Return the basis of an application's forecast, as it is now."""
    remaining, late_since_s = Remaining.of(application), application.late_since_s()
    if remaining is None:
        return basis(None, None, late_since_s)
    return basis(remaining.estimate.grounds, remaining.matched.matched_share, late_since_s)


def lateness_of(application: Application, most: Capacity) -> Lateness | None:
    """Return the reason why an application that has ended well was late; None if it was not late or had no deadline."""
    record, what, deadline_s = application.record, application.estimate, application.options.deadline_s
    if record.ended_s is None or not application.succeeded or deadline_s is None:
        return None
    # the work is measured as the profile's was, so that both can be compared
    use = application.totals.stage_use() if what is None or what.cpu_source == "container" else None
    attempts = application.run.attempts.items()
    used_core_s = sum(stage.work_core_s(None if use is None else use.get(key, 0.0)) for key, stage in attempts)
    first_ms = application.stream.first_task_ms
    return why_late(
        RunEnd(
            deadline_s=deadline_s,
            end_s=record.ended_s,
            cores=most.cores,
            used_core_s=used_core_s,
            least_s=whole_forecast(what, most).time_s(most.cores) if what is not None and most.cores > 0 else None,
            planned_core_s=sum(stage.work_core_s for stage in what.stages) if what is not None else None,
            other_arguments=what is not None and what.grounds.other_arguments,
            planned_start_s=what.startup_s if what is not None else None,
            first_task_s=application.since_submission(first_ms) if first_ms else None,
            waited_for=application.placement.waited_for,
            owed_core_s=application.debt_core_s(),
            squeezed_by=application.totals.squeezed_by(),
            late_since_s=application.late_since_s(),
        )
    )

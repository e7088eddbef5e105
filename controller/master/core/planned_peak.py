"""The peak of cores that is planned for one executor of an application: placement and growth leave room for it."""

from __future__ import annotations

from controller.master.core.application import Application
from controller.master.core.feasibility import whole_forecast
from controller.master.core.placement_state import PlannedCores
from controller.master.core.workers import Workers


def needs_peak(application: Application) -> bool:
    """Return True if the application needs its planned peak to keep its deadline; otherwise it can use that much, or less."""
    return application.estimate is not None and application.options.deadline_s is not None


def planned_peak(application: Application, workers: Workers, now_s: float, slots: int | None = None) -> float:
    """Return the peak that is planned for one executor, in cores: its share of the least cores for the deadline as they were
    at submission. Without a deadline or a profile the peak is all that an executor can use: its `slots` once it is placed,
    before that the mean over the workers that the application may get."""
    what, deadline_s = application.estimate, application.options.deadline_s
    if slots is not None and not needs_peak(application):
        return float(slots)
    known = application.placement.planned_cores
    if known is None or known.estimate is not what or known.deadline_s != deadline_s:
        most = workers.capacity(application, now_s)
        cores = None if what is None or deadline_s is None else whole_forecast(what, most).least_cores(deadline_s)
        peak = most.cores if cores is None else min(cores, most.cores)
        known = PlannedCores(what, deadline_s, peak / most.executors)
        # without a worker the peak is not known yet
        application.placement.planned_cores = known if most.cores else None
    return known.cores

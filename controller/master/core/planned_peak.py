"""The peak of cores that is planned for one executor of an application: placement and growth leave room for it."""

from __future__ import annotations

from controller.master.core.application import Application
from controller.master.core.feasibility import whole_forecast
from controller.master.core.placement_state import PlannedCores
from controller.master.core.workers import Workers
from stage_model.settings import QuotaSettings


def planned_peak(application: Application, workers: Workers, now_s: float) -> float:
    """Return the peak that is planned for one executor: the floor without a profile, all it can use with a profile and no
    deadline, else its share of the least cores for the deadline as they were at submission."""
    what, deadline_s = application.estimate, application.options.deadline_s
    if what is None:
        return QuotaSettings().floor
    known = application.placement.planned_cores
    if known is None or known.estimate is not what or known.deadline_s != deadline_s:
        most = workers.capacity(application, now_s)
        cores = None if deadline_s is None else whole_forecast(what, most).least_cores(deadline_s)
        peak = most.cores if cores is None else min(cores, most.cores)
        known = PlannedCores(what, deadline_s, peak / most.executors)
        # without a worker the peak is not known yet
        application.placement.planned_cores = known if most.cores else None
    return known.cores

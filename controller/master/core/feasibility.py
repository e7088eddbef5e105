"""The verdict on the deadline of a run to come, by itself and alongside what was promised to others.

The formulas are in docs/control.md (`stage_model.deadlines`, `stage_model.forecast`). A running application is
`remaining`'s.
"""

from __future__ import annotations

from dataclasses import replace

from controller.master.core.capacity import Capacity
from controller.wire.command import PlanReply
from stage_model.deadlines import round_up
from stage_model.forecast.bounds import hindrance
from stage_model.forecast.curve import whole
from stage_model.forecast.estimate import ApplicationEstimate
from stage_model.forecast.promises import NOTHING_PROMISED, Claim, Promised, fits, least_deadline_s
from stage_model.forecast.virtual_time import Forecast
from stage_model.settings import CORE_QUANTUM
from stage_model.units import NORMAL_PRIORITY, format_duration

ACCEPTED = "; accepted: "
"""The beginning of the last part of a refusal: the deadlines that can be met."""


def whole_forecast(what: ApplicationEstimate, most: Capacity, spent_s: float = 0.0) -> Forecast:
    """Return the forecast of the whole application to its end, `spent_s` after its submission: that much less of the
    start-up."""
    return whole(what, most.slots, most.speed_limit, spent_s)


def feasibility(
    what: ApplicationEstimate,
    deadline_s: float | None,
    most: Capacity,
    *,
    spent_s: float = 0.0,
    priority: int = NORMAL_PRIORITY,
    promised: Promised = NOTHING_PROMISED,
) -> PlanReply:
    """Return the verdict on the deadline alongside what is `promised`, with the least deadline, `spent_s` after
    submission."""
    forecast = whole_forecast(what, most, spent_s)
    alone_s = spent_s + (forecast.time_s(most.cores) if most.cores > 0 else float("inf"))
    new = Claim(forecast, (deadline_s or 0.0) - spent_s, priority)
    others = replace(promised.to_rank(priority), cores=max(promised.cores, most.cores))
    feasible = None if deadline_s is None else alone_s <= deadline_s and fits(new, others)
    least_s = alone_s if feasible or not others.claims else max(alone_s, spent_s + least_deadline_s(new, others))
    cores = None
    if feasible and deadline_s is not None:
        cores = forecast.least_cores(deadline_s - spent_s)
    reason = f"with all {most.cores:.2f} cores it takes {format_duration(alone_s)}"
    if deadline_s is not None:
        reason += "" if feasible else hindrance(what, most.slots, deadline_s)
        verdict = "can" if feasible else "cannot"
        reason = f"deadline {format_duration(deadline_s)} {verdict} be met: {reason}"
    if least_s > alone_s:
        reason += f", alongside {len(others.claims)} promised of the same or a higher priority {format_duration(least_s)}"
    if feasible is False:
        reason += f"{ACCEPTED}{rounded_up(least_s)} or more"
    return PlanReply(
        known=True,
        feasible=feasible,
        least_deadline_s=round(least_s, 1),
        cores=None if cores is None else round_up(min(cores, most.cores), CORE_QUANTUM),
        cluster_cores=most.cores,
        reason=reason,
    )


def rounded_up(seconds: float) -> str:
    """Return a deadline to offer: rounded up, so that it is feasible when it is taken."""
    return format_duration(float(int(seconds * 1.01) + 1))

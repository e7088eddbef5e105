"""The answer to `sparkpace plan`: the verdict on a deadline (`feasibility`), and what the law makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from controller.master.core.capacity import Capacity, asked_capacity, capacity, initial, slots_on
from controller.master.core.feasibility import Offer, feasibility, judged_with, whole_forecast
from controller.master.core.lesson import LastUntaught, basis, no_profile
from controller.wire.command import PlannedStage, PlanReply, PlanRequest
from controller.wire.worker import WorkerInfo
from stage_model.deadlines import stage_deadlines
from stage_model.errors import BadInput
from stage_model.forecast.curve import curve
from stage_model.forecast.estimate import ApplicationEstimate, estimate
from stage_model.forecast.promises import NOTHING_PROMISED, Promised
from stage_model.history.profile import Profile
from stage_model.laws import LAWS, parse_constants, parse_law
from stage_model.laws.paper import PaperSettings
from stage_model.settings import LAW_PREFIX
from stage_model.units import format_duration

ROUNDING = 0.005
"""Cores are shown, and so given, to a hundredth."""


@dataclass(frozen=True, slots=True)
class ClusterNow:
    """The cluster as it is, for a job to come: its workers, whether it can start further ones for that job, the law of jobs
    that name none, the jobs whose last run taught nothing, and the further workers that could be started for its deadline
    (None: none may be)."""

    workers: Sequence[WorkerInfo]
    grows: bool = False
    default_law: str = "forecast"
    untaught: LastUntaught = field(default_factory=dict)
    offer: Offer | None = None


def plan_reply(
    request: PlanRequest,
    profile: Profile | None,
    cluster: ClusterNow,
    promised: Promised = NOTHING_PROMISED,
    profiles: Sequence[str] = (),
) -> PlanReply:
    """Answer `sparkpace plan` for a profile (None: no profile is known); `profiles` are all known keys, for a hint. The
    verdict on a deadline is the same under every law; the job's law decides the cores and the stages' deadlines. Raise
    `BadInput` for an unusable profile, law or constant, more cores than there are, or an empty cluster that does not grow."""
    law, workers = asked_law(request, cluster.default_law), cluster.workers
    most = planned_capacity(request, workers)
    if profile is None:
        reason = no_profile(request.profile or "", cluster.untaught, profiles)
        return PlanReply(known=False, cluster_cores=most.cores, reason=reason)
    if not workers and cluster.grows:
        return PlanReply(known=True, cluster_cores=0.0, reason="no worker is there yet; one is started for what is submitted")
    if not workers:
        raise BadInput("no worker has joined, so nothing can be planned; start an agent")
    return planned_on(most, profile, estimate(profile, request.arguments), request, promised, law, cluster.offer)


def planned_capacity(request: PlanRequest, workers: Sequence[WorkerInfo]) -> Capacity:
    """Return the most that a job to come can get of these workers."""
    if request.attached:
        return asked_capacity(request.conf or {}, workers)
    return capacity(workers, lambda w: slots_on(w.cores, request.executor_cores), request.executors)


def asked_law(request: PlanRequest, default: str) -> tuple[str, Mapping[str, float]]:
    """Return the law's name, and the constants."""
    name = default if request.law is None else parse_law(request.law)
    return name, parse_constants({LAW_PREFIX + key: str(value) for key, value in request.settings.items()})


def planned_on(
    most: Capacity,
    profile: Profile,
    what: ApplicationEstimate,
    request: PlanRequest,
    promised: Promised,
    law: tuple[str, Mapping[str, float]],
    offer: Offer | None = None,
) -> PlanReply:
    """Return the plan on these cores, or on those with the fewest offered workers that a deadline needs; with `most_cores`,
    on only that many, whatever was promised and offered. `what` is the estimate for the request's arguments."""
    if request.most_cores is not None:
        if not 0 < request.most_cores <= most.cores + ROUNDING:
            raise BadInput(f"{request.most_cores:g} cores are not there; accepted: more than 0, at most {most.cores:.2f}")
        most, promised, offer = replace(most, cores=min(request.most_cores, most.cores)), NOTHING_PROMISED, None

    def judge(deadline_s: float | None, most: Capacity, promised: Promised) -> PlanReply:
        return feasibility(what, deadline_s, most, priority=request.priority, promised=promised)

    reply = judge(request.deadline_s, most, promised)
    if reply.feasible is False and request.deadline_s is not None and offer is not None:
        reply, number = judged_with(offer, judge, request.deadline_s, promised, reply)
        most = offer.grown[number - 1] if number else most
    if request.curve:
        expected = what if request.arguments is None else None
        reply = structs.replace(reply, curve=curve(profile, most.slots, most.cores, most.speed_limit, expected))
    return _under(*law, reply, what, request.deadline_s, most)


def _under(
    name: str,
    constants: Mapping[str, float],
    reply: PlanReply,
    what: ApplicationEstimate,
    deadline_s: float | None,
    most: Capacity,
) -> PlanReply:
    """Return the plan as a law makes it: with the cores that it would give, and the stages' deadlines if it follows them."""
    law, cores, reason = LAWS[name], reply.cores, reply.reason
    if deadline_s is not None and (reply.feasible or law.always):
        forecast = whole_forecast(what, most)
        cores = law.planned_cores(forecast, deadline_s, most.cores, constants)
        if law.always:
            takes = format_duration(forecast.time_s(cores))
            reason += f"; the law {name} gives it {cores:.2f} cores, with which it takes {takes}"
    followed_s = deadline_s if law.stage_deadlines else None
    stages = _planned(what, followed_s, most, PaperSettings.from_numbers(constants))
    forecast = whole_forecast(what, most)
    return structs.replace(reply, cores=cores, stages=stages, reason=reason, forecast=forecast, basis=basis(what.grounds))


def _planned(
    what: ApplicationEstimate, deadline_s: float | None, most: Capacity, constants: PaperSettings
) -> tuple[PlannedStage, ...]:
    lengths: Sequence[float | None] = [None] * len(what.stages)
    if deadline_s is not None:
        durations = [stage.duration_s for stage in what.stages]
        alpha, beta = constants.alpha, constants.beta
        lengths = stage_deadlines(durations, deadline_s=deadline_s, spent_s=what.startup_s, alpha=alpha, beta=beta)
    return tuple(
        PlannedStage(
            name=stage.name,
            tasks=stage.tasks,
            work_core_s=round(stage.work_core_s, 3),
            deadline_s=None if length_s is None else round(length_s, 2),
            initial_cores=None if length_s is None else initial(stage.work_core_s, length_s, most),
        )
        for stage, length_s in zip(what.stages, lengths, strict=True)
    )

"""The promises to running applications, and the deadline of an application to come, judged alongside these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace

from msgspec import structs

from controller.master.core import remaining
from controller.master.core.application import Application
from controller.master.core.capacity import Capacity
from controller.master.core.feasibility import Offer, feasibility, judged_with, whole_forecast
from controller.master.core.guard import guarded
from controller.master.core.registry import AT_A_TIME, Registry
from controller.wire.command import PlanReply
from placement.growth import WorkerType
from stage_model.errors import InfeasibleDeadline
from stage_model.forecast.promises import Claim, Promised


def promised(registry: Registry, now_s: float, but: str = "", *, attached: bool = False) -> Generator[None, None, Promised]:
    """Return the promises to the running applications, but one, that share workers with an application that is `attached`, or
    is not. The work pauses where other work may have its turn."""
    claims: list[Claim] = []
    claimed = Counter[WorkerType]()
    # a worker that several deadlines wait for counts for the first of the highest priority
    for number, other in enumerate(sorted(registry.applications.values(), key=lambda one: -one.priority()), 1):
        if number % AT_A_TIME == 0:
            yield
        if other.id != but and other.attached == attached:
            with guarded(other, "working out what it was promised"):
                most = registry.workers.capacity(other, now_s)
                found = remaining.promises(other, most, now_s, registry.workers.awaited_capacity(other, most, now_s))
                further = other.placement.further
                if found and further is not None and further.awaited:
                    own, claimed = Counter(further.awaited) - claimed, claimed | Counter(further.awaited)
                    found[-1] = _with_own(found[-1], own, max(0.0, further.comes_s - now_s))
                claims += found
    return Promised(claims, registry.workers.cores(now_s, adopts=attached))


def _with_own(claim: Claim, own: Counter[WorkerType], start_s: float) -> Claim:
    """Return a claim that counts on its `own` workers, which come in `start_s`, and on no work before that."""
    forecast = structs.replace(claim.forecast, fixed_s=claim.forecast.fixed_s + start_s)
    return replace(claim, forecast=forecast, own_cores=sum(kind.cores * count for kind, count in own.items()))


def claim_of(application: Application, most: Capacity, now_s: float) -> Claim | None:
    """Return the promise that the application's deadline would get, also if it asks to be admitted by force; None without a
    deadline, a profile or a worker."""
    options = application.options
    if options.deadline_s is None or application.estimate is None or most.cores <= 0:
        return None
    spent_s = application.elapsed_s(now_s)
    return Claim(whole_forecast(application.estimate, most, spent_s), options.deadline_s - spent_s, options.priority)


def to_be_judged(application: Application, most: Capacity) -> bool:
    """Return True if the application asks for a deadline that could be refused. Without a worker to judge it by, it waits."""
    options = application.options
    return options.deadline_s is not None and application.estimate is not None and most.cores > 0 and not options.unjudged


def check_feasible(
    application: Application, most: Capacity, now_s: float, promised: Promised, offers: Sequence[Offer] = ()
) -> tuple[Offer, int] | None:
    """Return the first offer that keeps the deadline of an application which is `to_be_judged`, with the least number of its
    workers that is enough; None where the deadline can be met without. The last offer counts on all that the application can
    get. Raise `InfeasibleDeadline` where the deadline cannot be met, with the least deadline that can be met alongside the
    promises."""
    assert application.estimate is not None
    what, options, spent_s = application.estimate, application.options, application.elapsed_s(now_s)
    deadline_s = options.deadline_s
    assert deadline_s is not None

    def judge(deadline_s: float, most: Capacity, promised: Promised) -> PlanReply:
        return feasibility(what, deadline_s, most, spent_s=spent_s, priority=options.priority, promised=promised)

    reply = judge(deadline_s, most, promised)
    for offer in offers:
        without = judge(deadline_s, offer.most, promised)
        if without.feasible:
            return None
        reply, number = judged_with(offer, judge, deadline_s, promised, without)
        if number:
            return offer, number
    if not reply.feasible:
        raise InfeasibleDeadline(f"{reply.reason}, or --force")
    return None

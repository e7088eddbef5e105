"""The verdict on the deadline of a run to come: by itself, alongside what was promised to others, and with further workers
where the present ones cannot keep it (document 000, section 3.3).

The formulas are in docs/control.md (`stage_model.deadlines`, `stage_model.forecast`). `remaining` judges running
applications. Workers take time to start. With further workers, a deadline is judged on all workers together, with that much
less time. Work that the present workers do meanwhile is not counted on, so it is a reserve. Not covered: which workers may be
started (`deadline_growth`, `placement.growth`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from controller.master.core.capacity import Capacity, expected_worker
from controller.wire.command import PlanReply
from controller.wire.worker import WorkerInfo
from placement.growth import WorkerType
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
NO_USE = "its settings allow no executor on more workers (--num-executors, spark.dynamicAllocation.maxExecutors)"

Judge = Callable[[float, Capacity, Promised], PlanReply]
"""The verdict on a deadline (seconds after submission) with a capacity, alongside promises."""


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
    if most.cores <= 0:
        return PlanReply(known=True, feasible=None if deadline_s is None else False, reason="there is no core for it")
    forecast = whole_forecast(what, most, spent_s)
    alone_s = spent_s + forecast.time_s(most.cores)
    new = Claim(forecast, (deadline_s or 0.0) - spent_s, priority)
    others = alongside(promised, priority, most)
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


def alongside(promised: Promised, priority: int, most: Capacity) -> Promised:
    """Return what is promised to that priority and above, on the cores of all workers; where no worker is known, on those
    that the application can get."""
    return replace(promised.to_rank(priority), cores=promised.cores or most.cores)


def rounded_up(seconds: float) -> str:
    """Return a deadline to offer: rounded up, so that it is feasible when it is taken."""
    return format_duration(float(int(seconds * 1.01) + 1))


@dataclass(frozen=True, slots=True)
class Offer:
    """The further workers that one application could have, in the order in which it would get them: workers on their way
    first, then workers of `kind` that may still be started.

    `most` is the most that the application can get without them, `grown[n - 1]` with n of them. `start_s`: expected seconds
    from a worker's request to its first report. `limit` is a clause that says why there are no more. `claimed`: the workers
    that deadlines of the same or a higher priority wait for already."""

    kind: WorkerType
    kinds: tuple[WorkerType, ...]
    most: Capacity
    grown: tuple[Capacity, ...]
    start_s: float
    limit: str
    claimed: Counter[WorkerType] = field(default_factory=Counter)

    def added_cores(self, number: int) -> float:
        """Return the cores of the first `number` of these workers, without those that are claimed."""
        return sum(kind.cores * count for kind, count in self.unclaimed(number).items())

    def unclaimed(self, number: int) -> Counter[WorkerType]:
        """Return those of the first `number` of these workers that no other deadline waits for."""
        return Counter(self.kinds[:number]) - self.claimed

    def least(self, kept: Callable[[int], bool]) -> int:
        """Return the least number of these workers, from 1, with which a deadline is `kept`; 0 if all of them are too few. A
        deadline that is kept with some of them is assumed to be kept with more."""
        numbers = range(1, len(self.kinds) + 1)
        place = bisect_left(numbers, True, key=kept)
        return numbers[place] if place < len(numbers) else 0

    def named(self, number: int) -> str:
        """Return "2 further workers (1 cores, 1536 MiB)"."""
        return f"{number} further worker{'' if number == 1 else 's'} ({self.kind})"

    def takes(self, number: int) -> str:
        """Return a clause that says how long that many take to start."""
        return f"which take{'s' if number == 1 else ''} about {format_duration(round(self.start_s))} to start"

    def too_few(self) -> str:
        """Return a clause that says why even all of these workers do not keep a deadline."""
        number = len(self.kinds)
        even = f"{self.named(number)}, {self.takes(number)}, would not keep it, and " if number else ""
        return even + self.limit


def make_offer(
    kinds: Sequence[WorkerType],
    kind: WorkerType,
    start_s: float,
    limit: str,
    grown: Callable[[Sequence[WorkerInfo]], Capacity],
) -> Offer:
    """Return the offer of `kinds`, up to the first worker on which the application could have no further executor; `grown`
    says what the application can get with further workers."""
    sizes, most = list[Capacity](), grown(())
    for number in range(1, len(kinds) + 1):
        size = grown([expected_worker(one) for one in kinds[:number]])
        if size.executors <= (sizes[-1] if sizes else most).executors:
            limit = NO_USE
            break
        sizes.append(size)
    return Offer(kind, tuple(kinds[: len(sizes)]), most, tuple(sizes), start_s, limit)


def judged_with(
    offer: Offer, judge: Judge, deadline_s: float, promised: Promised, refused: PlanReply
) -> tuple[PlanReply, int]:
    """Return the verdict on a deadline that is `refused` on the workers that are there, and the least number of the offered
    workers with which the deadline is kept; 0 if all of them are too few, or no worker is offered."""

    def with_first(number: int) -> PlanReply:
        cores = promised.cores + offer.added_cores(number)
        return judge(deadline_s - offer.start_s, offer.grown[number - 1], replace(promised, cores=cores))

    number = offer.least(lambda one: with_first(one).feasible is True)
    if number:
        return _kept(offer, number, deadline_s, with_first(number)), number
    why, least_s = offer.limit, refused.least_deadline_s or 0.0
    if offer.kinds:
        all_s = offer.start_s + (with_first(len(offer.kinds)).least_deadline_s or 0.0)
        why = f"with {offer.named(len(offer.kinds))} it would take {format_duration(all_s)}, and {offer.limit}"
        least_s = min(least_s, all_s)
    verdict = refused.reason.partition(ACCEPTED)[0]
    return structs.replace(refused, reason=f"{verdict}; {why}{ACCEPTED}{rounded_up(least_s)} or more"), 0


def _kept(offer: Offer, number: int, deadline_s: float, reply: PlanReply) -> PlanReply:
    """Return the verdict that was reached with that many workers, with the time in which they start."""
    least_s = round(offer.start_s + (reply.least_deadline_s or 0.0), 1)
    reason = (
        f"deadline {format_duration(deadline_s)} can be met with {offer.named(number)}, {offer.takes(number)}: with all "
        f"{reply.cluster_cores:.2f} cores it takes {format_duration(least_s)}, the start included"
    )
    return structs.replace(reply, least_deadline_s=least_s, reason=reason, further_workers=number)

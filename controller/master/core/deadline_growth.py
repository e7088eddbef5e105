"""The deadlines for which further workers are started: of an application that asks to be admitted, and of a running one whose
forecast has passed its deadline. The verdicts are `feasibility`'s.

An application runs on the workers that are there while further ones start. It waits for these until it could have an executor
on each, or a worker would come after the deadline. Until then later deadlines are judged as if the further workers were only
its own (`promised`), unless one has failed to come. It asks once for each need: a worker that it then does not use goes back
as any other. Backfills, watched and attached applications, and applications that wait for their user's share get no further
workers. Times `*_s` are monotonic seconds unless they are said to count from submission."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from controller.master.core import queue
from controller.master.core.application import Application, Target
from controller.master.core.capacity import Capacity, expected_worker
from controller.master.core.executors import has_all_executors
from controller.master.core.feasibility import Offer, make_offer
from controller.master.core.guard import guarded
from controller.master.core.placement_state import FurtherWorkers
from controller.master.core.placing import Placing
from controller.master.core.registry import Registry
from controller.master.core.remaining import Remaining
from controller.master.core.share_rules import LOWEST
from controller.master.core.view import forecast_end_s
from controller.wire.worker import WorkerInfo
from placement.growth import Growth, WorkerType
from stage_model.errors import InfeasibleDeadline

LATE_S = 5.0
"""Seconds that a forecast must have been past the deadline: a shorter time may be noise."""
AGAIN_S = 30.0
"""Seconds until the next search for further workers: a forecast takes that long to show the workers that have come."""


class DeadlineGrowth:
    def __init__(self, registry: Registry, placing: Placing, growth: Growth) -> None:
        self.registry, self.placing, self.growth = registry, placing, growth

    # ------------------------------------------------------------------ what could be started

    def offers(self, application: Application, now_s: float) -> list[Offer]:
        """Return the further workers that could be started for an application that has no executor yet; nothing where none
        may be. Where others leave it no room on some workers, the first offer counts on none of these, because no one knows
        when there will be room, and on no worker that another deadline waits for. The last offer counts on all workers."""
        offer, workers = self.offer(application, now_s), self.registry.workers
        if offer is None:
            return []
        room = self.placing.with_room(application, now_s)
        if room >= self.placing.ever(application):
            return [offer]
        kinds, _ = self._startable(offer.kind, now_s)

        def grown(number: int) -> Capacity:
            own = (Counter(kinds[:number]) - offer.claimed).elements()
            return workers.capacity(application, now_s, [expected_worker(one) for one in own], room)

        most, *sizes = (grown(number) for number in range(len(kinds) + 1))
        return [replace(offer, kinds=tuple(kinds), most=most, grown=tuple(sizes)), offer]

    def offer(self, application: Application, now_s: float) -> Offer | None:
        """Return the further workers that could be started for the application; None where none may be."""
        workers = self.registry.workers
        if not _may_ask(application) or not workers.all_heard(now_s):
            return None
        return self.offer_for(
            application.priority(),
            lambda cores: self.placing.further_type(application, cores),
            lambda further: workers.capacity(application, now_s, further),
            now_s,
        )

    def offer_for(
        self,
        priority: int,
        needed: Callable[[float], WorkerType],
        grown: Callable[[Sequence[WorkerInfo]], Capacity],
        now_s: float,
    ) -> Offer:
        """Return the further workers for the executors of one application of that priority: `needed` says what a worker of a
        number of cores must have for one, `grown` what the application could get with further workers."""
        self.look(now_s)
        most = grown(())
        kind = self.growth.kind_for(needed, most.cores / most.executors)
        kinds, limit = self._startable(kind, now_s)
        return replace(make_offer(kinds, kind, self.growth.start_s, limit, grown), claimed=self._claimed(priority))

    def _startable(self, kind: WorkerType, now_s: float) -> tuple[list[WorkerType], str]:
        """Return the workers on their way that would do for `kind`, then those that may still be started, and why there are
        no more."""
        coming, held = self.growth.on_the_way(kind), self.growth.held(kind, now_s)
        limit = "the last such worker could not be started" if held else self._limit()
        return [*coming, *[kind] * (0 if held else self.growth.room_for(kind))], limit

    def _claimed(self, priority: int) -> Counter[WorkerType]:
        """Return the workers that applications of that priority or above wait for: one may be for several deadlines, but an
        executor that fits on no other worker takes one for itself."""
        claimed, fitting = Counter[WorkerType](), Counter[WorkerType]()
        for other in self.registry.applications.values():
            if not other.ended and other.priority() >= priority:
                claimed |= Counter(other.placement.awaited)
                if other.placement.infeasible is not None and queue.waits(other):
                    fitting[self.growth.sized(other.placement.infeasible)] += 1
        return claimed + fitting

    def _limit(self) -> str:
        limits = self.growth.limits
        up_to = f", --grow-up-to {limits}" if math.isfinite(limits.cores) else ""
        return f"no more workers may be started (--grow {limits.workers}{up_to})"

    # ------------------------------------------------------------------ what is asked for

    def ask(self, application: Application, offer: Offer, number: int, now_s: float) -> None:
        """Have the application wait for the first `number` of the offered workers, which are started for its deadline."""
        sentence = f"its deadline needs {offer.named(number)}, {offer.takes(number)}"
        there = self.placing.ever(application)
        application.placement.further = FurtherWorkers(
            kind=offer.kind,
            total=len(there) + number,
            deadline_s=application.options.deadline_s,
            waiting=sentence,
            awaited=offer.kinds[:number],
            comes_s=now_s + offer.start_s,
            own=sum(offer.unclaimed(number).values()),
            there=there,
        )
        application.notify(sentence)
        self.registry.changes.log(f"{application.id}: {sentence}")

    def look(self, now_s: float) -> None:
        """Take in which of the awaited workers have joined, and which deadlines no longer wait for a worker."""
        self.placing.refresh(now_s)
        for application in self.registry.applications.values():
            further = application.placement.further
            if further is not None and not application.ended:
                with guarded(application, "looking for workers that its deadline needs"):
                    self._look(application, further, now_s)

    def _look(self, application: Application, further: FurtherWorkers, now_s: float) -> None:
        """Look at one application. No further worker is to be started once all are there, the deadline has changed,
        or a worker would come after it."""
        state, deadline_s = application.placement, application.options.deadline_s
        missing = further.total - len(self.placing.ever(application))
        over = missing <= 0 or deadline_s is None or deadline_s != further.deadline_s
        late = deadline_s is not None and application.elapsed_s(now_s) + self.growth.start_s >= deadline_s
        if late and not over:
            self._count_on_none(application, "has not joined in time")
        if late or over:
            state.further, state.further_judged_s = None, now_s
            self.registry.changes.application(application)
        elif missing < len(further.awaited):
            state.further = replace(further, awaited=further.awaited[-missing:])

    def give_up(self, kind: WorkerType, why: str) -> None:
        """Let each deadline that waits for such a worker as this one of `kind`, which does not come, count only on the
        workers that are there; `why` completes "a further worker"."""
        for application in self.registry.applications.values():
            further = application.placement.further
            if further is not None and not application.ended and kind.holds(further.kind):
                self._count_on_none(application, why)

    def _count_on_none(self, application: Application, why: str) -> None:
        further = application.placement.further
        if further is not None and further.awaited:
            application.placement.further = replace(further, awaited=())
            sentence = f"its deadline counts only on the workers that are there, because a further worker {why}"
            application.notify(sentence)
            self.registry.changes.log(f"{application.id}: {sentence}")

    def lacks(self, application: Application, now_s: float) -> tuple[WorkerType, int, frozenset[str]] | None:
        """Return the kind and number of the workers that are still to be started for the application's deadline, as it was
        last looked at, and the workers that could take an executor; None where none is to be. A running application asks
        here."""
        state, before = application.placement, application.placement.further
        if (before is None and application.late_since_s() is None) or not _may_ask(application):
            return None
        there = self.placing.ever(application)
        if before is None and self._may_be_helped(application, there, now_s):
            state.further_judged_s = now_s
            self._help(application, now_s)
        asked = state.further
        if asked is not before:
            self.registry.changes.application(application)
        return None if asked is None else (asked.kind, asked.total - len(there), there)

    def _may_be_helped(self, application: Application, there: frozenset[str], now_s: float) -> bool:
        """Return True if the forecast has been past the application's deadline for a while, and the application wants more
        executors than it has on all the workers that could take one."""
        target, since_s = application.target(), application.late_since_s()
        if target is None or target.jobs is not None or since_s is None:
            return False
        if application.elapsed_s(now_s) - since_s < LATE_S or now_s - application.placement.further_judged_s < AGAIN_S:
            return False
        has = {executor.record.worker_id for executor in application.live_executors()}
        return bool(has) and there <= has and not has_all_executors(application)

    def _help(self, application: Application, now_s: float) -> None:
        """Ask for the least further workers with which the application is forecast to end in time. If all of them are too
        few, none is started, because workers cost money, and the application learns why."""
        workers, shares = self.registry.workers, self.registry.shares
        most, end_s = workers.capacity(application, now_s), forecast_end_s(application)
        target, offer, remaining = application.target(), self.offer(application, now_s), Remaining.of(application)
        if target is None or offer is None or remaining is None or end_s is None or most.cores <= 0:
            return
        number = _least(remaining, target, most, end_s, offer, now_s)
        if not number:
            if application.placement.unhelped_s != target.due_s:
                application.placement.unhelped_s = target.due_s
                application.notify(f"no further worker is started for its deadline: {offer.too_few()}")
            return
        if shares.limited:
            grown, held = offer.grown[number - 1], shares.cores(application, now_s)
            claim = remaining.claim(target, frozenset(), most, now_s, grown)
            try:
                shares.check_deadline(application.uid, claim, grown.cores, now_s, held)
            except InfeasibleDeadline:
                application.notify("no further worker is started for its deadline: its user has too few cores left")
                return
        self.ask(application, offer, number, now_s)


def _least(remaining: Remaining, target: Target, most: Capacity, end_s: float, offer: Offer, now_s: float) -> int:
    """Return the least number of the offered workers with which a running application keeps its deadline, their start
    included; 0 if all of them are too few. It can get `most` now, and is forecast to end `end_s` after submission. The
    agents' forecast knows more than the work that is left, such as the pace of this run. If it is longer than the time that
    this work takes here, times with further workers are stretched in the same ratio."""
    modelled_s = remaining.claim(target, frozenset(), most, now_s).forecast.time_s(most.cores)
    forecast_s = end_s - remaining.application.elapsed_s(now_s)
    longer = max(1.0, forecast_s / modelled_s) if modelled_s > 0 else 1.0

    def kept(number: int) -> bool:
        grown = offer.grown[number - 1]
        claim = remaining.claim(target, frozenset(), most, now_s, grown)
        return longer * claim.forecast.time_s(grown.cores) <= claim.left_s - offer.start_s

    return offer.least(kept)


def _may_ask(application: Application) -> bool:
    """Return True if workers may be started for the application's deadline."""
    options, waits = application.options, application.held_back or application.placement.over_share
    return not (application.attached or options.observe or waits) and options.priority > LOWEST

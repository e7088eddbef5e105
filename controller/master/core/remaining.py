"""The work that a running application has left, by its estimate, its run and the clock, for each deadline that governs now.

The formulas are in docs/control.md (`stage_model.forecast.virtual_time`); this module only puts estimate, run and clock
together. Seconds count from submission unless said otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from msgspec import structs

from controller.master.core.application import Application, Target
from controller.master.core.capacity import Capacity
from controller.master.core.plan_state import PlanCache, RemainingSchedule
from stage_model.forecast.beyond_plan import come_already_core_s, like, reserve_s, unknown_core_s
from stage_model.forecast.curve import to_come
from stage_model.forecast.doubt import doubt
from stage_model.forecast.estimate import ApplicationEstimate, StageEstimate
from stage_model.forecast.fixed import modelled_s
from stage_model.forecast.match import Matched, match, pace
from stage_model.forecast.promises import Claim
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.stage_run import StageKey


@dataclass(frozen=True, slots=True)
class Remaining:
    """The work that an application has left. Its run is `matched` to the `estimate`, once as long as neither changes.

    A target of None is all that the application does."""

    application: Application
    estimate: ApplicationEstimate
    matched: Matched
    _cache: PlanCache

    @staticmethod
    def of(application: Application) -> Remaining | None:
        """Return the work that an application has left; None without a profile."""
        known, estimate = application.plan.cache, application.estimate
        if estimate is None:
            return None
        if known is None or known.estimate is not estimate:
            matched = match(estimate, application.run, application.totals.stage_use())
            known = application.plan.cache = PlanCache(estimate, matched)
        return Remaining(application, estimate, known.matched, known)

    # ------------------------------------------------------------------ for one target

    def stages(self, target: Target | None) -> tuple[StageEstimate, ...]:
        """Return the stages to come of a target: those of the profile's jobs and SQL executions that the target's stages
        belong to."""
        if target is None or target.jobs is None:
            return self.matched.to_come
        mine = self._actions(target.jobs)
        return tuple(stage for stage in self.matched.to_come if stage.action in mine)

    def schedule(self, target: Target | None, slots: int, most: Capacity) -> RemainingSchedule:
        """Return the schedule of a target's stages to come, worked out once for the same question."""
        jobs = target.jobs if target else None
        known = self._cache.ahead.get((jobs, slots, most))
        if known is None:
            stages, matched = self.stages(target), self.matched
            paced = self._pace(most)
            known = self._cache.ahead[jobs, slots, most] = RemainingSchedule(
                ahead=to_come(stages, slots, matched.work_ratio, most.speed_limit),
                shape=to_come(matched.stages, slots, 1.0, most.speed_limit),
                last_task_sd_s=matched.work_ratio * stages[-1].task_sd_s if stages else 0.0,
                doubt=doubt([stage.work_core_s for stage in stages], matched.shown),
                pace=paced,
                further_s=paced * self._reserve_s(slots, most) if jobs is None else 0.0,
            )
        return known

    def future(self, target: Target | None, schedule: RemainingSchedule, elapsed_s: float) -> Forecast:
        """Return the forecast of all that is to come for a target. For an action that is its stages; for an application these
        are bounded by its total, and the driver's own time is added."""
        if target is not None and target.jobs is not None:
            return schedule.ahead
        share, unknown = self._by_the_total(schedule)
        known = schedule.ahead.times(share).then(unknown)
        return structs.replace(known, fixed_s=known.fixed_s + self._margins_s(target, elapsed_s))

    def claim(
        self, target: Target, claimed: frozenset[int], most: Capacity, now_s: float, grown: Capacity | None = None
    ) -> Claim:
        """Return the work that is left for a deadline, without the `claimed` jobs. `grown`: the most that the application can
        get with further workers, where it is to have them."""
        application, elapsed_s = self.application, self.application.elapsed_s(now_s)
        grown = grown or most
        under_way = []
        for key, expected in self.matched.active.items():
            if application.run.attempts[key].job in claimed or not application.concerns(target, key):
                continue
            part = self._share_left(key)
            under_way.append(
                structs.replace(
                    expected,
                    tasks=max(1, round(expected.tasks * part)),
                    work_core_s=expected.work_core_s * part,
                    fixed_s=expected.fixed_s * part,
                    waiting_s=expected.waiting_s * part,
                    gap_s=0.0,
                )
            )
        others = self._actions(claimed)
        ahead = [stage for stage in self.stages(target) if stage.action not in others]
        slots = (application.slots() or most.slots) + grown.slots - most.slots
        left = to_come([*under_way, *ahead], slots, self.matched.work_ratio, grown.speed_limit)
        left = structs.replace(left, fixed_s=left.fixed_s + self._margins_s(target, elapsed_s))
        return Claim(left, target.due_s - elapsed_s, application.priority())

    def bytes_left(self, target: Target) -> tuple[float, float] | None:
        """Return the bytes that the stages of a target have still to read (input and shuffle), and to write for shuffles:
        those of the profile, as much larger as the stages are in this run. None where the profile has none."""
        active = self.matched.active.items()
        left = [(what, self._share_left(key)) for key, what in active if self.application.concerns(target, key)]
        left += [(stage, 1.0) for stage in self.stages(target)]
        parts = [(stage.amounts, part * self._growth_of(stage)) for stage, part in left]
        read = math.fsum(part * amounts.bytes for amounts, part in parts)
        written = math.fsum(part * amounts.written_bytes for amounts, part in parts)
        return (read, written) if read + written > 0 else None

    def _growth_of(self, stage: StageEstimate) -> float:
        """Return the records of a stage in this run / those of the profile; 1 where it reads none."""
        planned = self.estimate.stages[stage.index].records if stage.index < len(self.estimate.stages) else None
        return stage.records / planned if planned and stage.records is not None else 1.0

    def _share_left(self, key: StageKey) -> float:
        """Return the share of a stage's tasks that have not ended."""
        stage = self.application.run.attempts[key]
        return 1.0 - len(stage.done) / max(1, stage.info.tasks)

    def _actions(self, jobs: frozenset[int]) -> set[tuple[str, int]]:
        """Return the profile's jobs and SQL executions that stages of these jobs belong to."""
        attempts = self.application.run.attempts
        return {what.action for key, what in self.matched.seen.items() if attempts[key].job in jobs}

    def _margins_s(self, target: Target | None, elapsed_s: float) -> float:
        """Return the seconds of the driver's own at both ends of an application that are still to come; an action has
        none."""
        if target is not None and target.jobs is not None:
            return 0.0
        begun = self.application.stream.first_task_ms is not None
        start_up_s = 0.0 if begun else max(0.0, self.estimate.first_task_s - elapsed_s)
        return self.estimate.tail_s + start_up_s

    # ------------------------------------------------------------------ for the whole application

    def share_done(self) -> float | None:
        """Return the share of the application's expected work that is done; None where no work is expected."""
        total = sum(stage.work_core_s for stage in self.matched.stages)
        left = sum(stage.work_core_s for stage in self.matched.to_come)
        left += sum(what.work_core_s * self._share_left(key) for key, what in self.matched.active.items())
        return round(min(1.0, max(0.0, 1 - left / total)), 4) if total > 0 else None

    def _by_the_total(self, schedule: RemainingSchedule) -> tuple[float, Forecast]:
        """Return the bounds that the total CPU sets to the work left (`stage_model.forecast.beyond_plan`): the share of the
        work of the stages to come that has not come already, and the work that belongs to no known stage. CPU that stages
        under way have used is taken off their work, because one report of an agent holds it together with the CPU of the
        whole executor."""
        estimate, matched, totals = self.estimate, self.matched, self.application.totals
        if estimate.used_core_s is None:
            return 1.0, Forecast(())
        used, ratio = totals.stage_use(), matched.work_ratio
        to_come_core_s = ratio * math.fsum(stage.work_core_s for stage in matched.to_come)
        active = [max(0.0, ratio * s.work_core_s - used.get(key, 0.0)) for key, s in matched.active.items()]
        known_core_s = to_come_core_s + math.fsum(active)
        stages_core_s = math.fsum(stage.work_core_s for stage in matched.stages)
        share, used_core_s = self._input_share(), totals.used_core_s()
        whole_core_s = share * estimate.used_core_s
        # a run may need as little as the cheapest of the earlier runs, so only that much is a lower bound
        least_core_s = whole_core_s - share * estimate.less_core_s
        # known stages that needed more than profiled say nothing about work outside of them
        unknown = unknown_core_s(min(1.0, ratio) * least_core_s, stages_core_s, used_core_s, known_core_s)
        if unknown > 0:
            return 1.0, like(schedule.shape, stages_core_s, unknown)
        moving_core_s = ratio * math.fsum(stage.moving_core_s for stage in matched.to_come)
        come_core_s = come_already_core_s(whole_core_s, stages_core_s, used_core_s, known_core_s, moving_core_s)
        return (1 - come_core_s / to_come_core_s if come_core_s > 0 else 1.0), Forecast(())

    def _input_share(self) -> float:
        """Return the size of this run's input as a share of the profile's, by the stages that read input. The amounts that
        other stages read are no measure, because they depend on which stage is taken for which."""
        planned, matched = self.estimate.stages, self.matched.stages
        sources = [place for place, stage in enumerate(planned) if stage.amounts.input(stage.in_bytes)]
        then = math.fsum(planned[place].work_core_s for place in sources)
        return math.fsum(matched[place].work_core_s for place in sources) / then if then > 0 else 1.0

    def _reserve_s(self, slots: int, most: Capacity) -> float:
        """Return the seconds with all cores for the further work that new arguments may bring; 0 while the application can
        get no cores."""
        if most.cores <= 0:
            return 0.0
        run, use, limit = self.application.run, self.application.totals.stage_use(), most.speed_limit
        return reserve_s(self.estimate, self.matched, run, use, slots=slots, cores=most.cores, speed_limit=limit)

    def _pace(self, most: Capacity) -> float:
        """Return the ratio of this run's finished stages to the model of their real work on the cores they had."""
        run, totals = self.application.run, self.application.totals
        used, allocated = totals.stage_use(), totals.stage_allocation()
        compared = []
        for key in self.matched.exact:
            stage, what = run.attempts[key], self.matched.seen[key]
            if not stage.teaches or stage.completed_ms is None:
                continue
            real_s = (stage.completed_ms - stage.submitted_ms) / 1000
            cores = allocated.get(key, 0.0) / real_s if real_s > 0 else 0.0
            sized = (stage.info.tasks, stage.work_core_s(used.get(key)), what.task_cv)
            explained = modelled_s(sized, cores, most.cores, most.slots, what.waiting_s)
            compared.append((real_s, explained + what.fixed_s - what.waiting_s if explained > 0 else 0.0))
        return pace(compared)


def promises(application: Application, most: Capacity, now_s: float, grown: Capacity | None = None) -> list[Claim]:
    """Return the work that a running application still has for each deadline that governs now; empty without a profile. Work
    to which several deadlines apply is claimed once, for the first of them. `grown`: the most with the workers that its own
    deadline waits for; the deadlines of single jobs do not count on these."""
    claims: list[Claim | None] = []
    claimed: frozenset[int] = frozenset()
    for target in application.targets():
        claims.append(promise(application, target, most, now_s, claimed, grown if target.jobs is None else None))
        if target.jobs is None:
            break
        claimed |= target.jobs
    return [claim for claim in claims if claim is not None]


def promise(
    application: Application,
    target: Target,
    most: Capacity,
    now_s: float,
    claimed: frozenset[int] = frozenset(),
    grown: Capacity | None = None,
) -> Claim | None:
    """Return the work that a running application still has for this deadline, without the `claimed` jobs; None without a
    profile, or if it has ended. Past the deadline the application has no time left and still takes what it can. `grown` is as
    in `Remaining.claim`."""
    remaining = None if application.ended else Remaining.of(application)
    return None if remaining is None else remaining.claim(target, claimed, most, now_s, grown)

"""Deadlines and plans of a running application: from what is known of it to what its agents need.

The formulas are in docs/control.md (`stage_model.deadlines`, `stage_model.forecast.virtual_time`); this module only
puts estimate, run and clock together. Seconds count from submission unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from controller.master.core.application import Application, Target
from controller.master.core.capacity import Capacity, initial
from controller.master.core.executor_state import Executor
from controller.master.core.lateness import late_since
from controller.master.core.plan_state import PlanCache, RemainingSchedule, StageGoal
from controller.wire.worker import Sample, StageUse
from stage_model.deadlines import stage_deadline
from stage_model.forecast.budget import come_already_core_s, like, untold_core_s
from stage_model.forecast.doubt import PROFILE_DOUBT, doubt
from stage_model.forecast.estimate import ApplicationEstimate, StageEstimate
from stage_model.forecast.fixed import modelled_s
from stage_model.forecast.match import Matched, match
from stage_model.forecast.pace import pace
from stage_model.forecast.promises import Claim
from stage_model.forecast.reserve import reserve_s
from stage_model.forecast.schedule import to_come
from stage_model.forecast.virtual_time import Busy, Forecast, add
from stage_model.history.events import AnyEvent, StageSubmitted
from stage_model.history.stage_run import StageKey, StageRun
from stage_model.laws.paper import PaperSettings
from stage_model.plan import Aim, ApplicationPlan, StagePlan
from stage_model.units import format_duration

SHORT_PERIODS = 3.0
"""Stages with a deadline under this many periods are controlled together with the ones after them."""
SHOWN = 200
"""Characters of a stage's name that agents get."""
_NOTHING_RUNS: Final = {"running": 0, "records_running": 0.0, "cpu_running_core_s": 0.0, "speed": 0.0}


def take_event(
    application: Application, event: AnyEvent, most: Callable[[], Capacity], now_s: float, at_ms: int | None = None
) -> None:
    """Fold one event of the driver in, with what follows from it for the plan. `most` is asked only where it counts; `at_ms`
    is the time when the event was reported, if that was not now."""
    application.apply(event)
    if isinstance(event, StageSubmitted):
        set_goal(application, event.info.stage, event.info.attempt, most(), now_s, at_ms)


def promises(application: Application, most: Capacity, now_s: float) -> list[Claim]:
    """Return the work that a running application still has for each deadline that governs now; empty without a profile. Work
    to which several deadlines apply is claimed once, for the first of them."""
    claims: list[Claim | None] = []
    claimed: frozenset[int] = frozenset()
    for target in application.targets():
        claims.append(promise(application, target, most, now_s, claimed))
        if target.jobs is None:
            break
        claimed |= target.jobs
    return [claim for claim in claims if claim is not None]


def promise(
    application: Application, target: Target, most: Capacity, now_s: float, claimed: frozenset[int] = frozenset()
) -> Claim | None:
    """Return the work that a running application still has for this deadline, without the `claimed` jobs; None without a
    profile, or if it has ended. Past the deadline the application has no time left and still takes what it can."""
    what = application.estimate
    if what is None or application.ended:
        return None
    left_s = target.due_s - application.elapsed_s(now_s)
    matched = matched_run(application, what)
    under_way = []
    for key, expected in matched.active.items():
        stage = application.run.attempts[key]
        if stage.job in claimed or not _concerns(application, target, key):
            continue
        part = 1.0 - len(stage.done) / max(1, stage.info.tasks)
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
    others = _actions(application, matched, claimed)
    ahead = [stage for stage in _ahead(application, target, matched) if stage.action not in others]
    slots = application.slots() or most.slots
    busy, fixed_s = to_come([*under_way, *ahead], slots, matched.work_ratio, most.speed_limit)
    fixed_s += _margins(application, target, what, application.elapsed_s(now_s))
    return Claim(Forecast(busy, fixed_s, most.speed_limit), left_s, application.priority())


# ---------------------------------------------------------------- a running application


def set_goal(
    application: Application, stage: int, attempt: int, most: Capacity, now_s: float, at_ms: int | None = None
) -> None:
    """Fix the deadline of a stage that was just submitted: the formulas of docs/control.md, Law `paper`, at this moment. Of
    the deadlines that apply to the stage, the one that needs most cores counts; where no deadline applies to it, the first
    due."""
    key, targets, what = (stage, attempt), application.targets(), application.estimate
    if not targets or what is None:
        return
    submitted_s = application.elapsed_s(now_s) if at_ms is None else application.since_submission(at_ms)
    matched = matched_run(application, what)
    if key in matched.active:
        concerned = [target for target in targets if _concerns(application, target, key)] or targets[:1]
        goals = [_goal(application, target, matched, key, submitted_s, most) for target in concerned]
        application.plan.goals[key] = max(goals, key=lambda goal: goal.cores)


def _goal(
    application: Application, target: Target, matched: Matched, key: StageKey, submitted_s: float, most: Capacity
) -> StageGoal:
    """Return the deadline that one target gives a stage submitted now."""
    constants = PaperSettings.from_numbers(application.options.settings)
    mine = matched.active[key]
    ahead = _ahead(application, target, matched)
    others = [other for other in matched.active if other != key and _concerns(application, target, other)]
    beside = [matched.active[other].duration_s for other in others]

    def length(group: Sequence[StageEstimate]) -> float:
        rest = ahead[len(group) - 1 :]
        remaining = [sum(e.duration_s for e in group), *beside, *(e.duration_s for e in rest)]
        spent_s = submitted_s - target.start_s
        return stage_deadline(
            remaining, 0, deadline_s=target.deadline_s, spent_s=spent_s, alpha=constants.alpha, beta=constants.beta
        )

    before = _group_going_on(application, target, submitted_s)
    if before is not None:
        done = before.group_base + before.group_share
        share = min(1 - done, mine.work_core_s / before.work_core_s) if before.work_core_s > 0 else 1 - done
        return replace(before, own_core_s=mine.work_core_s, group_base=done, group_share=share)
    group = [mine]
    for later in ahead:
        if length(group) >= SHORT_PERIODS * most.period_s:
            break
        group.append(later)
    work, length_s = sum(e.work_core_s for e in group), length(group)
    share = mine.work_core_s / work if work > 0 else 1.0
    return StageGoal(submitted_s, length_s, work, mine.work_core_s, key, 0.0, share, target.due_s)


def _concerns(application: Application, target: Target, key: StageKey) -> bool:
    """Return True if the deadline is for this stage."""
    return target.jobs is None or application.run.attempts[key].job in target.jobs


def _group_going_on(application: Application, target: Target, submitted_s: float) -> StageGoal | None:
    """Return the deadline's control group under way, if its work is not over with the stages that it has had."""
    goals = [
        goal
        for key, goal in application.plan.goals.items()
        if goal.due_s == target.due_s and _concerns(application, target, key)
    ]
    last = max(goals, key=lambda g: (g.submitted_s, g.group_base), default=None)
    if last is None or last.group_base + last.group_share > 0.999 or last.group_share >= 1.0:
        return None
    return last if submitted_s < last.submitted_s + last.length_s else None


def application_plan(application: Application, worker_id: str, most: Capacity, now_s: float) -> ApplicationPlan:
    """Return the plan by which the agent of one worker controls its executor of this application: workers differ in what is
    elsewhere."""
    options, what, targets = application.options, application.estimate, application.targets()
    target = targets[0] if targets else None
    what = None if application.stream.overflow else what
    elapsed_s = application.elapsed_s(now_s)
    slots = application.slots(worker_id) or most.slots
    busy: Busy = ()
    fixed_s, paced = 0.0, 1.0
    matched: Matched | None = None
    ahead: RemainingSchedule | None = None
    if what is not None:
        matched = matched_run(application, what)
        ahead = _schedule(application, target, matched, slots, most)
        paced = ahead.pace
        busy, fixed_s = _future(application, target, what, matched, ahead, elapsed_s)
    return ApplicationPlan(
        application_id=application.id,
        name=application.name,
        law=options.law,
        settings=options.settings,
        priority=application.priority(),
        known=what is not None,
        deadline_s=None if target is None else target.deadline_s,
        left_s=None if target is None else target.due_s - elapsed_s,
        elapsed_s=elapsed_s,
        stages=tuple(
            _stage_plan(application, worker_id, s, matched, most, elapsed_s) for s in application.run.active_stages()
        ),
        aims=_aims(application, what, targets, matched, slots, most, elapsed_s) if matched and what else (),
        fair=application.record.registration.conf.get("spark.scheduler.mode", "").upper() == "FAIR",
        future_busy=busy,
        future_fixed_s=fixed_s,
        future_task_sd_s=ahead.last_task_sd_s if ahead else 0.0,
        future_doubt=ahead.doubt if ahead else PROFILE_DOUBT,
        further_s=ahead.further_s if ahead else 0.0,
        work_ratio=matched.work_ratio if matched else 1.0,
        slots=slots,
        executors=most.executors,
        cores=most.cores,
        speed_limit=most.speed_limit,
        pace=paced,
        debt_core_s=round(application.debt_core_s(), 3),
    )


def matched_run(application: Application, what: ApplicationEstimate) -> Matched:
    """Return the run against its estimate, worked out once as long as neither changes."""
    known = application.plan.cache
    if known is None or known.estimate is not what:
        matched = match(what, application.run, application.totals.stage_use())
        known = application.plan.cache = PlanCache(what, matched)
    return known.matched


def _aims(
    application: Application,
    what: ApplicationEstimate,
    targets: Sequence[Target],
    matched: Matched,
    slots: int,
    most: Capacity,
    elapsed_s: float,
) -> tuple[Aim, ...]:
    """Return each deadline with the work it applies to; empty where the only deadline applies to everything under way."""
    active = application.run.active_stages()
    found = []
    for target in targets:
        mine = [stage.key for stage in active if _concerns(application, target, stage.key)]
        if len(targets) == 1 and len(mine) == len(active):
            return ()
        ahead = _schedule(application, target, matched, slots, most)
        busy, fixed_s = _future(application, target, what, matched, ahead, elapsed_s)
        found.append(
            Aim(
                left_s=target.due_s - elapsed_s,
                deadline_s=target.deadline_s,
                stages=tuple(mine),
                future_busy=busy,
                future_fixed_s=fixed_s,
                future_task_sd_s=ahead.last_task_sd_s,
                future_doubt=ahead.doubt,
                further_s=ahead.further_s,
                whole=target.jobs is None,
            )
        )
    return tuple(found)


def _schedule(
    application: Application, target: Target | None, matched: Matched, slots: int, most: Capacity
) -> RemainingSchedule:
    """Return the work to come of a run matched by `matched_run`, worked out once for the same question."""
    plan_cache, jobs = application.plan.cache, target.jobs if target else None
    assert plan_cache is not None
    known = plan_cache.ahead.get((jobs, slots, most))
    if known is None:
        stages = _ahead(application, target, matched)
        busy, fixed_s = to_come(stages, slots, matched.work_ratio, most.speed_limit)
        last_task_sd_s = matched.work_ratio * stages[-1].task_sd_s if stages else 0.0
        unsure = doubt([stage.work_core_s for stage in stages], matched.shown)
        paced = _pace(application, matched, most)
        further_s = paced * _reserve_s(application, plan_cache.estimate, matched, slots, most) if jobs is None else 0.0
        shape = Forecast(*to_come(matched.stages, slots, 1.0, most.speed_limit))
        known = plan_cache.ahead[jobs, slots, most] = RemainingSchedule(
            busy, shape, fixed_s, last_task_sd_s, unsure, paced, further_s
        )
    return known


def _reserve_s(application: Application, what: ApplicationEstimate, matched: Matched, slots: int, most: Capacity) -> float:
    """Return the seconds with all cores for the further work that new arguments may bring; 0 while the application can get no
    cores."""
    if most.cores <= 0:
        return 0.0
    use, limit = application.totals.stage_use(), most.speed_limit
    return reserve_s(what, matched, application.run, use, slots=slots, cores=most.cores, speed_limit=limit)


def _future(
    application: Application,
    target: Target | None,
    what: ApplicationEstimate,
    matched: Matched,
    ahead: RemainingSchedule,
    elapsed_s: float,
) -> tuple[Busy, float]:
    """Return the busy tuple and fixed seconds of all that is to come for a target. For an action these are its stages; for an
    application they are bounded by its total, and the driver's own time is added."""
    if target is not None and target.jobs is not None:
        return ahead.busy, ahead.fixed_s
    share, untold = _by_the_total(application, what, matched, ahead)
    margins_s = _margins(application, target, what, elapsed_s)
    known = tuple([share * seconds for seconds in ahead.busy])
    return add(known, untold.busy), ahead.fixed_s + untold.fixed_s + margins_s


def _by_the_total(
    application: Application, what: ApplicationEstimate, matched: Matched, ahead: RemainingSchedule
) -> tuple[float, Forecast]:
    """Return the bounds that the total CPU sets to the work left (`stage_model.forecast.budget`): the share of the work of
    the stages to come that has not come already, and the work that belongs to no known stage. CPU that stages under way have
    used is taken off their work, because one report of an agent holds it together with the CPU of the whole executor."""
    if what.used_core_s is None:
        return 1.0, Forecast(())
    used, ratio = application.totals.stage_use(), matched.work_ratio
    to_come_core_s = ratio * math.fsum(stage.work_core_s for stage in matched.to_come)
    active = [max(0.0, ratio * s.work_core_s - used.get(key, 0.0)) for key, s in matched.active.items()]
    known_core_s = to_come_core_s + math.fsum(active)
    stages_core_s = math.fsum(stage.work_core_s for stage in matched.stages)
    whole_core_s, used_core_s = _input_share(what, matched) * what.used_core_s, application.totals.used_core_s()
    # known stages that needed more than profiled say nothing about work outside of them
    untold = untold_core_s(min(1.0, ratio) * whole_core_s, stages_core_s, used_core_s, known_core_s)
    if untold > 0:
        return 1.0, like(ahead.shape, stages_core_s, untold)
    moving_core_s = ratio * math.fsum(stage.moving_core_s for stage in matched.to_come)
    come_core_s = come_already_core_s(whole_core_s, stages_core_s, used_core_s, known_core_s, moving_core_s)
    return (1 - come_core_s / to_come_core_s if come_core_s > 0 else 1.0), Forecast(())


def _input_share(what: ApplicationEstimate, matched: Matched) -> float:
    """Return the size of this run's input as a share of the profile's, by the stages that read input. The amounts that other
    stages read are no measure, because they depend on which stage is taken for which."""
    sources = [place for place, stage in enumerate(what.stages) if stage.amounts.input(stage.in_bytes)]
    then = math.fsum(what.stages[place].work_core_s for place in sources)
    return math.fsum(matched.stages[place].work_core_s for place in sources) / then if then > 0 else 1.0


def _ahead(application: Application, target: Target | None, matched: Matched) -> tuple[StageEstimate, ...]:
    """Return the stages to come of a target: those of the profile's jobs and SQL executions that the target's stages belong
    to."""
    if target is None or target.jobs is None:
        return matched.to_come
    mine = _actions(application, matched, target.jobs)
    return tuple(stage for stage in matched.to_come if stage.action in mine)


def _actions(application: Application, matched: Matched, jobs: frozenset[int]) -> set[tuple[str, int]]:
    """Return the profile's jobs and SQL executions that stages of these jobs belong to."""
    return {what.action for key, what in matched.seen.items() if application.run.attempts[key].job in jobs}


def _margins(application: Application, target: Target | None, what: ApplicationEstimate, elapsed_s: float) -> float:
    """Return the seconds of the driver's own at both ends of an application that are still to come; an action has none."""
    if target is not None and target.jobs is not None:
        return 0.0
    return what.tail_s + (0.0 if application.run.attempts else max(0.0, what.startup_s - elapsed_s))


def _pace(application: Application, matched: Matched, most: Capacity) -> float:
    """Return the ratio of this run's finished stages to the model of their real work on the cores they had."""
    used, allocated = application.totals.stage_use(), application.totals.stage_allocation()
    compared = []
    for key in matched.exact:
        stage, what = application.run.attempts[key], matched.seen[key]
        if not stage.teaches or stage.completed_ms is None:
            continue
        real_s = (stage.completed_ms - stage.submitted_ms) / 1000
        cores = allocated.get(key, 0.0) / real_s if real_s > 0 else 0.0
        sized = (stage.info.tasks, stage.work_core_s(used.get(key)), what.task_cv)
        explained = modelled_s(sized, cores, most.cores, most.slots, what.waiting_s)
        compared.append((real_s, explained + what.fixed_s - what.waiting_s if explained > 0 else 0.0))
    return pace(compared)


def _stage_plan(
    application: Application, worker_id: str, stage: StageRun, matched: Matched | None, most: Capacity, elapsed_s: float
) -> StagePlan:
    key = stage.key
    what = matched.active.get(key) if matched else None
    ratio = matched.work_ratio if matched else 1.0
    goal = application.plan.goals.get(key)
    elsewhere = _elsewhere(application, worker_id, key)
    return StagePlan(
        stage=key[0],
        attempt=key[1],
        tasks=stage.info.tasks,
        name=stage.info.name[:SHOWN],
        work_core_s=what.work_core_s * ratio if what else 0.0,
        records=what.records if what else None,
        task_cv=what.task_cv if what else 0.0,
        skew=what.skew if what else 1.0,
        fixed_s=what.fixed_s if what else 0.0,
        waiting_s=what.waiting_s if what else 0.0,
        left_s=None if goal is None else goal.submitted_s + goal.length_s - elapsed_s,
        length_s=goal.length_s if goal else None,
        initial_cores=_initial_cores(goal, what, most) if goal else None,
        group=goal.group if goal else None,
        group_base=goal.group_base if goal else 0.0,
        group_share=goal.group_share if goal else 1.0,
        elsewhere_running=sum(u.running for u in elsewhere),
        elsewhere_done=sum(u.done for u in elsewhere),
        elsewhere_records=sum(u.records for u in elsewhere),
        elsewhere_records_running=sum(u.records_running for u in elsewhere),
        elsewhere_cpu_core_s=sum(u.cpu_core_s for u in elsewhere),
        elsewhere_cpu_running_core_s=sum(u.cpu_running_core_s for u in elsewhere),
        elsewhere_speed=sum(u.speed for u in elsewhere),
    )


def _initial_cores(goal: StageGoal, what: StageEstimate | None, most: Capacity) -> float:
    """Return the initial cores of an executor (document 004, section 2), by what is known by now of what the stage reads. The
    rest of its group grows with it."""
    more = what.work_core_s / goal.own_core_s if what is not None and goal.own_core_s > 0 else 1.0
    return initial(more * goal.work_core_s, goal.length_s, most)


def _elsewhere(application: Application, worker_id: str, key: StageKey) -> list[StageUse]:
    """Return the stage's counters of executors on other workers, and of lost or silent ones anywhere: their ended tasks
    count, those that ran are to be run again. Of the worker's own executors only the CPU that earlier lives of its agent have
    seen counts, because the agent knows the tasks that ended before it."""
    uses = []
    for executor in application.executors.values():
        here = executor.live and executor.record.worker_id == worker_id
        use = executor.use_of(*key, earlier=here)
        if use is None:
            continue
        if here:
            use = structs.replace(use, done=0, records=0.0, **_NOTHING_RUNS)
        elif not executor.present:
            records, core_s = use.records - use.records_running, use.cpu_core_s - use.cpu_running_core_s
            use = structs.replace(use, records=records, cpu_core_s=core_s, **_NOTHING_RUNS)
        uses.append(use)
    return uses


def watch_forecast(application: Application, executor: Executor, sample: Sample) -> None:
    """Keep the time since when an executor's forecasts have been past the deadline, and warn once in the terminal of a stock
    spark-submit; `sparkpace submit` has a warning of its own."""
    target, before_s = application.target(), executor.record.late_since_s
    due_s = None if target is None else target.due_s
    executor.record.late_since_s = late_since(before_s, sample.forecast_end_s, due_s, sample.time_s)
    if target is None or sample.forecast_end_s is None:
        return
    late = sample.forecast_end_s > target.due_s + 0.005 * target.deadline_s
    if application.options.submission is None and application.plan.warns(late=late):
        application.notify(
            f"the forecast end, {format_duration(sample.forecast_end_s)}, is past the deadline, "
            f"{format_duration(target.due_s)}; the application goes on"
        )

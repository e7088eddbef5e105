"""The plans that agents get: what is known of a running application, as the agent of one worker needs it. Seconds count from
submission unless said otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from controller.master.core.application import Application, Target
from controller.master.core.capacity import Capacity, initial
from controller.master.core.goals import set_goals
from controller.master.core.plan_state import RemainingSchedule, StageGoal
from controller.master.core.remaining import Remaining
from controller.wire.worker import StageUse
from stage_model.forecast.doubt import PROFILE_DOUBT
from stage_model.forecast.estimate import StageEstimate
from stage_model.forecast.match import Matched
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.stage_run import StageKey, StageRun
from stage_model.plan import Aim, ApplicationPlan, StagePlan

SHOWN = 200
"""Characters of a stage's name that agents get."""
_NOTHING_RUNS: Final = {"running": 0, "records_running": 0.0, "cpu_running_core_s": 0.0, "speed": 0.0}


def application_plan(application: Application, worker_id: str, most: Capacity, now_s: float) -> ApplicationPlan:
    """Return the plan by which the agent of one worker controls its executor of this application, and fix the deadlines of
    stages that await one. Workers differ in what is elsewhere."""
    options, targets = application.options, application.targets()
    target = targets[0] if targets else None
    elapsed_s = application.elapsed_s(now_s)
    slots = application.slots(worker_id) or most.slots
    remaining = None if application.stream.overflow else Remaining.of(application)
    schedule: RemainingSchedule | None = None
    future, matched = Forecast(()), None
    aims: tuple[Aim, ...] = ()
    if remaining is not None:
        set_goals(remaining, targets, most)
        matched, schedule = remaining.matched, remaining.schedule(target, slots, most)
        future = remaining.future(target, schedule, elapsed_s)
        aims = _aims(remaining, targets, slots, most, elapsed_s)
    stages = application.run.active_stages()
    return ApplicationPlan(
        application_id=application.id,
        name=application.name,
        law=options.law,
        settings=options.settings,
        priority=application.priority(),
        known=remaining is not None,
        deadline_s=None if target is None else target.deadline_s,
        left_s=None if target is None else target.due_s - elapsed_s,
        elapsed_s=elapsed_s,
        stages=tuple(_stage_plan(application, worker_id, stage, matched, most, elapsed_s) for stage in stages),
        aims=aims,
        fair=application.record.registration.conf.get("spark.scheduler.mode", "").upper() == "FAIR",
        future_busy=future.busy,
        future_limited=future.limited,
        future_fixed_s=future.fixed_s,
        future_task_sd_s=schedule.last_task_sd_s if schedule else 0.0,
        future_doubt=schedule.doubt if schedule else PROFILE_DOUBT,
        further_s=schedule.further_s if schedule else 0.0,
        work_ratio=matched.work_ratio if matched else 1.0,
        slots=slots,
        executors=most.executors,
        cores=most.cores,
        speed_limit=most.speed_limit,
        pace=schedule.pace if schedule else 1.0,
        debt_core_s=round(application.debt_core_s(), 3),
        evict=options.placement.evict,
        bytes_left=remaining.bytes_left(target) if remaining is not None and target is not None else None,
    )


def _aims(remaining: Remaining, targets: Sequence[Target], slots: int, most: Capacity, elapsed_s: float) -> tuple[Aim, ...]:
    """Return each deadline with the work it applies to; empty where the only deadline applies to everything under way."""
    application = remaining.application
    active = application.run.active_stages()
    found = []
    for target in targets:
        mine = [stage.key for stage in active if application.concerns(target, stage.key)]
        if len(targets) == 1 and len(mine) == len(active):
            return ()
        schedule = remaining.schedule(target, slots, most)
        future = remaining.future(target, schedule, elapsed_s)
        found.append(
            Aim(
                left_s=target.due_s - elapsed_s,
                deadline_s=target.deadline_s,
                stages=tuple(mine),
                future_busy=future.busy,
                future_limited=future.limited,
                future_fixed_s=future.fixed_s,
                future_task_sd_s=schedule.last_task_sd_s,
                future_doubt=schedule.doubt,
                further_s=schedule.further_s,
                whole=target.jobs is None,
            )
        )
    return tuple(found)


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
        cold_core_s=what.cold_core_s * min(1.0, ratio) if what else 0.0,
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
    """Return the stage's counters of executors on other workers, and of lost or silent executors anywhere: their ended tasks
    count, and tasks that ran there are to be run again. Of the worker's own executors, only CPU that earlier lives
    of its agent have seen is counted, because the agent knows the tasks that ended before it."""
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

"""The number of cores that one executor should have now: the pure decision of an agent's period.

The laws control the *application's* progress over all its executors; this module divides an application's demand over its
executors by runnable tasks and treats the cases that laws do not know: before the first task, between stages, no profile, no
deadline, a stage the master has not described yet. Arbitration between applications is `arbitrate`; reading the world is
`loop`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from controller.agent.core.aims import by_law
from stage_model.history.stage_run import StageKey
from stage_model.laws import LAWS
from stage_model.laws.base import Decision, LawState, View, group_progress
from stage_model.live import StageLive
from stage_model.plan import ApplicationPlan
from stage_model.settings import QuotaSettings

SILENT_S = 10.0
"""Age of a plan beyond which the master is away: a master sends a plan every two seconds."""


class OwnStage(Struct):
    """Work of the executor on a stage attempt, as `accounting` counts it; not to be changed here. `seen_records` and
    `seen_core_s`: `records_running` and `cpu_running_core_s`, summed over the observations."""

    running: int = 0
    done: int = 0
    records: float = 0.0
    records_running: float = 0.0
    cpu_core_s: float = 0.0
    cpu_running_core_s: float = 0.0
    seen_records: float = 0.0
    seen_core_s: float = 0.0


class ObservedExecutor(Struct, frozen=True):
    """The executor as observed. `idle_s`: seconds since a task last ran here, None before the first task. `up`: the executor
    has reported progress, so it has started. `others`: the stages of the application's further executors on this worker.
    `speed_limit`: cores that one task can use at most on this worker."""

    slots: int
    stages: Mapping[StageKey, OwnStage]
    idle_s: float | None
    up: bool = True
    others: Sequence[Mapping[StageKey, OwnStage]] = ()
    speed_limit: float = 1.0


def aged(plan: ApplicationPlan, age_s: float) -> ApplicationPlan:
    """Return the plan `age_s` seconds after sending: less time left, and the other executors gone on at their last speed."""
    if age_s <= 0:
        return plan
    stages = [
        structs.replace(
            s,
            left_s=None if s.left_s is None else s.left_s - age_s,
            elsewhere_cpu_core_s=s.elsewhere_cpu_core_s + s.elsewhere_speed * age_s,
            elsewhere_cpu_running_core_s=s.elsewhere_cpu_running_core_s + s.elsewhere_speed * age_s,
        )
        for s in plan.stages
    ]
    aims = tuple([structs.replace(aim, left_s=aim.left_s - age_s) for aim in plan.aims])
    left_s = None if plan.left_s is None else plan.left_s - age_s
    return structs.replace(plan, stages=tuple(stages), aims=aims, left_s=left_s, elapsed_s=plan.elapsed_s + age_s)


NOTHING_DONE = OwnStage()


def live_stages(plan: ApplicationPlan, executor: ObservedExecutor) -> list[StageLive]:
    """Return the plan's stages with the parts of this executor and of the others on this worker added."""
    stages = []
    for s in plan.stages:
        own = executor.stages.get(s.key, NOTHING_DONE)
        others = [there[s.key] for there in executor.others if s.key in there]
        stages.append(
            StageLive(
                plan=s,
                running=s.elsewhere_running + sum([one.running for one in others]) + own.running,
                done=s.elsewhere_done + sum([one.done for one in others]) + own.done,
                records=s.elsewhere_records + sum([one.records for one in others]) + own.records,
                records_running=s.elsewhere_records_running
                + sum([one.records_running for one in others])
                + own.records_running,
                cpu_core_s=s.elsewhere_cpu_core_s + sum([one.cpu_core_s for one in others]) + own.cpu_core_s,
                cpu_running_core_s=s.elsewhere_cpu_running_core_s
                + sum([one.cpu_running_core_s for one in others])
                + own.cpu_running_core_s,
                own_running=own.running,
                seen_records=own.seen_records,
                seen_core_s=own.seen_core_s,
            )
        )
    return stages


START_CORES = 1.0
"""An executor that starts before there is work for it is one busy thread most of the time; other executors would lose further
cores for nothing. Once up, it needs no cores until there is work."""


def decide_demand(
    plan: ApplicationPlan,
    executor: ObservedExecutor,
    state: LawState,
    *,
    dt_s: float,
    quota: QuotaSettings,
    age_s: float = 0.0,
) -> Decision:
    """Return the demand of this executor. `plan` came `age_s` ago and must be aged to now; `dt_s`: since the last
    decision."""
    stages = live_stages(plan, executor)
    waiting = sum([s.waiting for s in stages])
    own, total = _runnable(plan, executor, stages, waiting)
    if plan.left_s is None or plan.deadline_s is None:
        constrained = None
    else:
        constrained = View(
            plan=plan,
            stages=stages,
            slots=executor.slots,
            own=own,
            total=total,
            speed_limit=executor.speed_limit,
            left_s=plan.left_s,
            deadline_s=plan.deadline_s,
            dt_s=dt_s,
            quota=quota,
            state=state,
        )
    if executor.idle_s is None:
        cores = float(executor.slots) if waiting else 0.0 if executor.up else START_CORES
        decision = Decision(cores, state, "before its first task")
    elif constrained is not None and LAWS[plan.law].always:
        decision = LAWS[plan.law].decide(constrained)
    elif not own:
        decision = _idle(plan, executor, constrained, state, quota.period_s, others_run=total > 0)
    elif constrained is None:
        decision = Decision(own * executor.speed_limit, state, "no deadline")
    elif age_s > SILENT_S and LAWS[plan.law].stage_deadlines and _undescribed(plan, executor):
        decision = Decision(own * executor.speed_limit, state, "the master is away and has not described this stage")
    elif not plan.known:
        decision = Decision(own * executor.speed_limit, state, "no profile")
    else:
        decision = by_law(LAWS[plan.law], constrained)
    if decision.forecast_end_s is None and constrained is not None and _foreseen(plan):
        # the driver or the cluster may keep the job waiting for long
        decision = structs.replace(decision, forecast_end_s=_between_stages(constrained, executor).forecast_end_s)
    return _with_progress(decision, stages)


def _runnable(
    plan: ApplicationPlan, executor: ObservedExecutor, stages: Sequence[StageLive], waiting: int
) -> tuple[int, float]:
    """Return the tasks that this executor, and all executors of the application, could run now.

    A waiting task may come to any executor: each counts it, so that few waiting tasks starve none of them. In the total it
    counts for each of them (as if all were alike), so that together they ask for no more than the application needs."""
    own = min(executor.slots, sum([s.running for s in executor.stages.values()]) + waiting)
    executors = plan.slots / max(1, executor.slots)
    return own, max(own, min(plan.slots, sum([s.running for s in stages]) + executors * waiting))


def _with_progress(decision: Decision, stages: Sequence[StageLive]) -> Decision:
    """Return the decision with the progress to show: that of the stage that most tasks of the executor belong to."""
    shown = max(stages, key=lambda s: (s.own_running, s.running, s.plan.stage), default=None)
    return structs.replace(
        decision,
        state=LawState(decision.demand, decision.state.kept),
        stage=shown.plan.stage if shown else None,
        set_point=shown.plan.set_point if shown else None,
        progress=group_progress([s for s in stages if s.plan.control_group == shown.plan.control_group]) if shown else None,
    )


def _undescribed(plan: ApplicationPlan, executor: ObservedExecutor) -> bool:
    """Return True if tasks of a stage run here that the plan does not know: by the plan's law the stage would have no
    cores."""
    known = {stage.key for stage in plan.stages}
    return any(stage.running and key not in known for key, stage in executor.stages.items())


def _idle(
    plan: ApplicationPlan,
    executor: ObservedExecutor,
    constrained: View | None,
    state: LawState,
    period_s: float,
    *,
    others_run: bool,
) -> Decision:
    """Decide for no runnable task. While other executors still run the stage's last tasks, nothing is asked for: the next
    stage cannot follow before they end. Else it usually follows at once: for two periods the executor asks for its part of
    the cores that the stages to come need or, where the law cannot tell, for its last demand."""
    if others_run or executor.idle_s is None or executor.idle_s >= 2 * period_s:
        return Decision(0.0, state, "no runnable task")
    if constrained is None or not _foreseen(plan):
        return Decision(state.demand or 0.0, state, "between stages")
    return _between_stages(constrained, executor)


def _foreseen(plan: ApplicationPlan) -> bool:
    """Return True if the law can tell the end of the application."""
    return plan.known and LAWS[plan.law].foresees


def _between_stages(view: View, executor: ObservedExecutor) -> Decision:
    """Return what the law decides for the stages to come, whose tasks may come to any slot."""
    total = max(executor.slots, view.plan.slots)
    return by_law(LAWS[view.plan.law], structs.replace(view, own=executor.slots, total=total))

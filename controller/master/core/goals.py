"""The deadlines of an application's stages, fixed by the first plan after a stage's submission: the formulas of
docs/control.md, Law `paper`.

Seconds count from submission unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from controller.master.core.application import Application, Target
from controller.master.core.capacity import Capacity
from controller.master.core.plan_state import StageGoal
from controller.master.core.remaining import Remaining
from stage_model.deadlines import stage_deadline
from stage_model.forecast.estimate import StageEstimate
from stage_model.history.events import AnyEvent, StageSubmitted
from stage_model.history.stage_run import StageKey
from stage_model.laws.paper import PaperSettings

SHORT_PERIODS = 3.0
"""Stages with a deadline under this many periods are controlled together with the ones after them."""
LATEST = 100
"""An ended stage gets no goal if this many stages were submitted after it, because its group is over."""


def take_event(application: Application, event: AnyEvent, now_s: float, at_ms: int | None = None) -> None:
    """Fold one event of the driver in, with what follows from it for the plan. `at_ms` is the time when the event was
    reported, if that was not now."""
    application.apply(event)
    if isinstance(event, StageSubmitted):
        await_goal(application, (event.info.stage, event.info.attempt), now_s, at_ms)


def await_goal(application: Application, key: StageKey, now_s: float, at_ms: int | None = None) -> None:
    """Have the next plan fix the deadline of a stage that was just submitted. A comparison of the run with its profile for
    each stage by itself would take a time that grows with the square of the number of stages."""
    submitted_s = application.elapsed_s(now_s) if at_ms is None else application.since_submission(at_ms)
    application.plan.awaiting_goals[key] = submitted_s


def set_goals(remaining: Remaining, targets: Sequence[Target], most: Capacity) -> None:
    """Fix the deadlines of the stages that were submitted since the last call. If several deadlines apply to a stage, the
    deadline that needs most cores counts; if no deadline applies to it, the deadline that is due first counts."""
    application = remaining.application
    awaiting, matched = application.plan.awaiting_goals, remaining.matched
    while awaiting:
        key = next(iter(awaiting))
        submitted_s = awaiting.pop(key)
        if targets and key in matched.seen and (key in matched.active or len(awaiting) < LATEST):
            concerned = [target for target in targets if application.concerns(target, key)] or targets[:1]
            goals = [_goal(remaining, target, key, submitted_s, most) for target in concerned]
            application.plan.goals[key] = max(goals, key=lambda goal: goal.cores)


def _goal(remaining: Remaining, target: Target, key: StageKey, submitted_s: float, most: Capacity) -> StageGoal:
    """Return the deadline that one target gives a stage that was submitted at `submitted_s`. Stages that still await a goal
    were submitted after this stage, so they count as stages to come."""
    application, active = remaining.application, remaining.matched.active
    constants = PaperSettings.from_numbers(application.options.settings)
    seen = remaining.matched.seen
    mine = seen[key]
    later = [other for other in application.plan.awaiting_goals if other in seen and application.concerns(target, other)]
    ahead = [*(seen[other] for other in later), *remaining.stages(target)]
    others = [other for other in active if other != key and other not in later and application.concerns(target, other)]
    side_by_side = [active[other].duration_s for other in others]

    def length(group: Sequence[StageEstimate]) -> float:
        rest = ahead[len(group) - 1 :]
        durations = [sum(e.duration_s for e in group), *side_by_side, *(e.duration_s for e in rest)]
        spent_s = submitted_s - target.start_s
        return stage_deadline(
            durations, 0, deadline_s=target.deadline_s, spent_s=spent_s, alpha=constants.alpha, beta=constants.beta
        )

    before = _group_going_on(application, target, submitted_s)
    if before is not None:
        done = before.group_base + before.group_share
        share = min(1 - done, mine.work_core_s / before.work_core_s) if before.work_core_s > 0 else 1 - done
        return replace(before, own_core_s=mine.work_core_s, group_base=done, group_share=share)
    group = [mine]
    for stage in ahead:
        if length(group) >= SHORT_PERIODS * most.period_s:
            break
        group.append(stage)
    work, length_s = sum(e.work_core_s for e in group), length(group)
    share = mine.work_core_s / work if work > 0 else 1.0
    return StageGoal(submitted_s, length_s, work, mine.work_core_s, key, 0.0, share, target.due_s)


def _group_going_on(application: Application, target: Target, submitted_s: float) -> StageGoal | None:
    """Return the deadline's control group under way, if its work is not over with the stages that it has had."""
    goals = [
        goal
        for key, goal in application.plan.goals.items()
        if goal.due_s == target.due_s and application.concerns(target, key)
    ]
    last = max(goals, key=lambda g: (g.submitted_s, g.group_base), default=None)
    if last is None or last.group_base + last.group_share > 0.999 or last.group_share >= 1.0:
        return None
    return last if submitted_s < last.submitted_s + last.length_s else None

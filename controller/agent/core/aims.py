"""The demand of a law for an application with several deadlines at once: one for each action under way, and its own.

The aim that needs most counts: cores cannot be given to only one action, because tasks of all actions share the executors.
Their order is up to Spark's scheduler: order of submission, or turns in FAIR pools. Not covered: the actions under way
(`controller.master.core.actions`) and the work to come of each (`controller.master.core.remaining`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from msgspec import structs

from stage_model.forecast.virtual_time import add, merged
from stage_model.laws.base import Decision, Law, View
from stage_model.plan import Aim, ApplicationPlan


def by_law(law: Law, view: View) -> Decision:
    """Return the law's decision; where there are several aims, the decision for the aim that needs most cores. The first aim
    that can be kept ranks the application."""
    aims = view.plan.aims
    if not aims or not law.foresees:
        return law.decide(view)
    decisions = [_for_aim(law, structs.replace(view, left_s=aim.left_s, deadline_s=aim.deadline_s), aim) for aim in aims]
    most = max(decisions, key=lambda decision: decision.demand)
    timely = (aim for aim, decision in zip(aims, decisions, strict=True) if aim.left_s > 0 and not decision.beyond_saving)
    kept = next(timely, None)
    return structs.replace(
        most,
        beyond_saving=kept is None,
        ranked_s=None if kept is None else kept.left_s,
        forecast_end_s=decisions[0].forecast_end_s,
    )


def _for_aim(law: Law, view: View, aim: Aim) -> Decision:
    if aim.whole:
        return law.decide(structs.replace(view, plan=_with_future(view.plan, aim, [aim])))
    return _fair(law, view, aim) if view.plan.fair else _in_order(law, view, aim)


def _actions(plan: ApplicationPlan) -> list[Aim]:
    return [aim for aim in plan.aims if not aim.whole]


def _in_order(law: Law, view: View, aim: Aim) -> Decision:
    """Decide for first in, first out: stages submitted before the aim's last stage have to end, too. An action between two of
    its stages counts as submitted before."""
    last = max([stage for stage, _ in aim.stages], default=math.inf)
    before = [other for other in _actions(view.plan) if min([stage for stage, _ in other.stages], default=-math.inf) <= last]
    stages = [stage for stage in view.stages if stage.plan.stage <= last]
    return law.decide(structs.replace(view, stages=stages, plan=_with_future(view.plan, aim, before)))


def _fair(law: Law, view: View, aim: Aim) -> Decision:
    """Decide for FAIR: one of n busy actions gets an n-th of the cores, as if each was in a pool of its own. So it needs n
    times more than if it ran by itself; yet never more than what ends all of them by its deadline."""
    actions = _actions(view.plan)
    everything = law.decide(structs.replace(view, plan=_with_future(view.plan, aim, actions)))
    of_aims = {stage for other in actions for stage in other.stages}
    others = any(stage.waiting or stage.started for stage in view.stages if stage.plan.key not in of_aims)
    mine = [stage for stage in view.stages if stage.plan.key in aim.stages]
    total = view.total / (len(actions) + others)
    alone = law.decide(structs.replace(view, plan=_with_future(view.plan, aim, [aim]), stages=mine, total=total))
    return min(everything, alone, key=lambda decision: decision.demand)


def _with_future(plan: ApplicationPlan, aim: Aim, parallel: Sequence[Aim]) -> ApplicationPlan:
    """Return one aim's plan: the work to come of these aims runs side by side. The aim's end depends on its own last task."""
    return structs.replace(
        plan,
        future_busy=reduce(add, [other.future_busy for other in parallel]),
        future_limited=merged([other.future_limited for other in parallel]),
        future_fixed_s=max([other.future_fixed_s for other in parallel]),
        future_task_sd_s=aim.future_task_sd_s,
        future_doubt=max([other.future_doubt for other in parallel]),
        further_s=aim.further_s,
    )

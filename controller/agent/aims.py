"""What a law asks for where an application has several deadlines at once, one for each action under way.

The one that needs most counts: cores cannot be given to one action alone, as tasks of all of them share the executors. Which
of them runs first is up to Spark's scheduler: in order of submission, or in turn in FAIR pools. Not covered: which actions
there are (`controller.master.actions`) and what is still to come of each (`controller.master.planning`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from msgspec import structs

from stage_model.forecast.virtual_time import add
from stage_model.laws.base import Decision, Law, View
from stage_model.plan import Aim, ApplicationPlan


def by_law(law: Law, view: View) -> Decision:
    """What the law asks for; where there are several aims, for the one that asks for most."""
    if not view.plan.aims or not law.foresees:
        return law.decide(view)
    for_aim = _fair if view.plan.fair else _in_order
    decisions = [
        for_aim(law, structs.replace(view, left_s=aim.left_s, deadline_s=aim.deadline_s), aim) for aim in view.plan.aims
    ]
    most = max(decisions, key=lambda one: one.demand)
    return structs.replace(most, forecast_end_s=decisions[0].forecast_end_s)


def _in_order(law: Law, view: View, aim: Aim) -> Decision:
    """First in, first out: what was submitted before the aim's last stage has to end, too. An action between two of its
    stages counts as submitted before."""
    last = max([stage for stage, _ in aim.stages], default=math.inf)
    before = [other for other in view.plan.aims if min([stage for stage, _ in other.stages], default=-math.inf) <= last]
    stages = [stage for stage in view.stages if stage.plan.stage <= last]
    return law.decide(structs.replace(view, stages=stages, plan=_with_future(view.plan, before)))


def _fair(law: Law, view: View, aim: Aim) -> Decision:
    """FAIR: one of n that have something to do gets an n-th of the cores, as if each was in a pool of its own. So it needs n
    times more than alone; yet never more than what ends all of them by then."""
    everything = law.decide(structs.replace(view, plan=_with_future(view.plan, view.plan.aims)))
    of_aims = {stage for other in view.plan.aims for stage in other.stages}
    others = any(stage.waiting or stage.started for stage in view.stages if stage.plan.key not in of_aims)
    mine = [stage for stage in view.stages if stage.plan.key in aim.stages]
    total = view.total / (len(view.plan.aims) + others)
    alone = law.decide(structs.replace(view, plan=_with_future(view.plan, [aim]), stages=mine, total=total))
    return min(everything, alone, key=lambda one: one.demand)


def _with_future(plan: ApplicationPlan, aims: Sequence[Aim]) -> ApplicationPlan:
    """The plan with what these have to come, side by side."""
    return structs.replace(
        plan,
        future_busy=reduce(add, [aim.future_busy for aim in aims]),
        future_fixed_s=max([aim.future_fixed_s for aim in aims]),
        future_task_sd_s=max([aim.future_task_sd_s for aim in aims]),
        future_doubt=max([aim.future_doubt for aim in aims]),
    )

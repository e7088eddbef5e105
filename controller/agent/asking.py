"""From an executor's decision to its request at the arbiter, and whether what it got is a squeeze: pure.

Not covered: the decision (`decide`) and the sharing (`arbitrate`).
"""

from __future__ import annotations

from controller.agent.arbitrate import CoreRequest, Key
from stage_model.laws.base import Decision
from stage_model.plan import ApplicationPlan
from stage_model.units import NORMAL_PRIORITY


def request(
    key: Key, application_id: str, decision: Decision, plan: ApplicationPlan | None, floor: float
) -> CoreRequest[Key]:
    """`plan` is aged to now; None: none has come yet. `floor` in cores."""
    return CoreRequest(
        key=key,
        application_id=application_id,
        demand=decision.demand,
        floor=floor,
        priority=plan.priority if plan else NORMAL_PRIORITY,
        left_s=decision.ranked_s if decision.ranked_s is not None or plan is None else plan.left_s,
        beyond_saving=decision.beyond_saving,
        debt_core_s=plan.debt_core_s if plan else 0.0,
    )


def is_squeezed(decision: Decision, grant: float, capacity: float, quantum: float) -> bool:
    """Whether others took cores that a law asked for: `grant` is less than the demand that the worker could have met."""
    return decision.planned and grant < min(decision.demand, capacity) - quantum

"""The step from an executor's decision to its request at the arbiter, and the test for a squeezed grant: pure.

Not covered: the decision (`decide`) and the sharing (`arbitrate`).
"""

from __future__ import annotations

from controller.agent.core.arbitrate import CoreRequest, Key
from stage_model.laws.base import Decision
from stage_model.plan import ApplicationPlan
from stage_model.units import NORMAL_PRIORITY


def request(
    key: Key, application_id: str, decision: Decision, plan: ApplicationPlan | None, floor: float
) -> CoreRequest[Key]:
    """Return the executor's request. `plan` is aged to now; None: no plan has come yet. `floor` in cores."""
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
    """Return True if others took cores that a law asked for: `grant` is less than the worker could have given."""
    return decision.planned and grant < min(decision.demand, capacity) - quantum

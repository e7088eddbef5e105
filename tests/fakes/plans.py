"""Plans of applications, as a master sends them to an agent."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from stage_model.plan import ApplicationPlan, StagePlan


def plan(
    application: str = "app", left_s: float | None = 100.0, work_core_s: float = 50.0, **changed: Any
) -> ApplicationPlan:
    """Make a plan of 20 tasks under way; alpha is 1, so 50 core-seconds in 100 s ask for exactly half a core."""
    settings = {"forecast.alpha": 1.0, "forecast.surety": 0.0, "forecast.lead": 0.0}
    plain = ApplicationPlan(
        application_id=application, name=application, settings=settings,
        deadline_s=None if left_s is None else 200.0, left_s=left_s, elapsed_s=100.0,
        stages=(StagePlan(stage=1, attempt=0, tasks=20, work_core_s=work_core_s),), slots=2, cores=2.0,
    )  # fmt: skip
    return structs.replace(plain, **changed)

"""The law `paper`: dynaSpark's, PI with back-calculation (document 004; docs/design.md, "Control law").

The set-point rises linearly from 0 to 1 over the stage's deadline; the law asks for the cores that bring progress
to it. What saturation and rounding cut off is fed back into the integral part, csi, so it cannot wind up. Pure: one
`control_step` per control period and control group, state in and out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct

from stage_model.deadlines import round_up
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.stage_run import StageKey
from stage_model.laws.base import Decision, Law, LawState, View, control_groups, group_progress, least_cores
from stage_model.settings import CORE_QUANTUM, LAW_PREFIX, Topic, setting


@dataclass(frozen=True, slots=True)
class PaperSettings(Topic):
    """The law `paper`: constants of dynaSpark, as printed (docs/design.md, "Control law")."""

    PREFIX: ClassVar[str] = LAW_PREFIX + "paper."

    alpha: float = setting(
        0.95, "alpha", unit="", least=0, most=1, open_least=True,
        reason="1 aims exactly at the deadline; 5% are kept for what stage deadlines cannot foresee",
    )  # fmt: skip
    beta: float = setting(
        0.33, "beta", unit="", least=0, most=1,
        reason="0 splits the time as the profile did, 1 equally; a third keeps the split from over-fitting one pre-run",
    )  # fmt: skip
    k: float = setting(
        50.0, "k", unit="cores per unit of progress", least=0, open_least=True,
        reason="dynaSpark's gain; at 1 or 2 slots it is nearly on/off, so scale it to the slots there",
    )  # fmt: skip
    ti_s: float = setting(
        12.0, "ti", unit="s", least=0, open_least=True,
        reason="dynaSpark's integral time: twelve of its periods",
    )  # fmt: skip
    overscale: float = setting(
        2.0, "overscale", unit="times initial cores", least=1,
        reason="a stage may catch up with at most twice the cores that its profile asks for",
    )  # fmt: skip
    quota_cap: float = setting(
        1.0, "quotaCap", unit="", least=0, most=1,
        reason="1: never more cores than tasks that the executor could run now, because others are wasted; 0: no such cap",
    )  # fmt: skip


class PaperLimits(Struct, frozen=True):
    """Cores. `core_max` is the paper's coreMax: min(overscale * initial cores, slots); the executor's `tasks_left` cap it
    further. Demands are multiples of `quantum`."""

    core_min: float
    core_max: float
    tasks_left: float
    quantum: float = CORE_QUANTUM

    @property
    def ceiling(self) -> float:
        """The most that may be asked for now; `core_min` gives way to the ceiling (no core without a task)."""
        return max(0.0, min(self.tasks_left, self.core_max))


def control_step(
    csi: float, planned: float, progress: float, limits: PaperLimits, dt_s: float, settings: PaperSettings
) -> tuple[float, float]:
    """Run one control period and return the cores asked for, and csi after it.

    `csi` is the integral part, in cores; it starts as the initial cores. `planned` and `progress` are in [0, 1], `dt_s` is
    the time since the last step. Once the set-point has reached 1 the stage is late and gets the most there is; csi then
    rests, because the law no longer runs. The cores are rounded up to whole quanta, then held under the ceiling, which need
    not be a multiple (1.03 slots).
    """
    error = planned - progress
    proportional = settings.k * error
    integral = settings.k * (dt_s / settings.ti_s) * error
    ceiling = limits.ceiling
    if planned >= 1:
        return ceiling, csi
    cores = min(max(proportional + csi + integral, limits.core_min), ceiling)
    cores = min(round_up(cores, limits.quantum), ceiling)
    return cores, cores - proportional


def decide(view: View) -> Decision:
    """Return the decision of the PI law over all control groups that this executor can run tasks of; groups under way at the
    same time add up."""
    settings = PaperSettings.from_numbers(view.plan.settings)
    groups = control_groups(view.stages)
    before: Mapping[StageKey, float] = view.state.kept or {}
    # a group may have nothing to run here for a while, and the one begun last may wait for its next stage
    kept = {*groups, *list(before)[-1:]}
    csi = {group: integral for group, integral in before.items() if group in kept}
    cores, reasons = [], []
    for group, stages in groups.items():
        plan = stages[0].plan
        runnable = min(view.slots, sum(stage.waiting + stage.own_running for stage in stages))
        line = plan.set_point
        if not runnable or line is None:
            continue
        initial = plan.initial_cores or view.quota.floor
        limits = PaperLimits(
            core_min=view.quota.floor,
            core_max=min(settings.overscale * initial, float(view.slots)),
            tasks_left=float(runnable if settings.quota_cap > 0 else view.slots),
            quantum=view.quota.core_quantum,
        )
        progress = group_progress(stages)
        asked, csi[group] = control_step(csi.get(group, initial), line, progress, limits, view.dt_s, settings)
        cores.append(asked)
        reasons.append(f"stage {stages[-1].plan.stage}: error {line - progress:+.3f}")
    return Decision(
        min(math.fsum(cores), float(view.slots)),
        LawState(kept=csi),
        "; ".join(reasons) or "no stage with a deadline has a task to run here",
        planned=True,
        beyond_saving=view.left_s < 0,
    )


def planned_cores(forecast: Forecast, deadline_s: float, most: float, constants: Mapping[str, float]) -> float:
    return least_cores(forecast, PaperSettings.from_numbers(constants).alpha * deadline_s, most)


LAW = Law(decide, PaperSettings, planned_cores, stage_deadlines=True)

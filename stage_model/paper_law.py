"""The control law of the paper: PI with back-calculation (document 004; docs/design.md, "Control law").

The set-point rises linearly from 0 to 1 over the stage's deadline; the law asks for the cores that bring progress
to it. What saturation and rounding cut off is fed back into the integral part, csi, so it cannot wind up. Pure: one
`step` per control period, state in and out. Not covered: whose progress it is (the stage's; docs/control.md)
and the constants' reasons (`stage_model.settings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from stage_model.deadlines import round_up
from stage_model.settings import CORE_QUANTUM, PaperSettings


@dataclass(frozen=True, slots=True)
class PaperState:
    """`csi`: the integral part, in cores. It starts as the initial cores."""

    csi: float


@dataclass(frozen=True, slots=True)
class PaperLimits:
    """Cores. `core_max`: see `core_max()`; the executor's `tasks_left` cap it further."""

    core_min: float
    core_max: float
    tasks_left: float

    @property
    def ceiling(self) -> float:
        """The most that may be asked for now; `core_min` gives way to it (no core without a task)."""
        return max(0.0, min(self.tasks_left, self.core_max))


@dataclass(frozen=True, slots=True)
class PaperParts:
    """What the demand was made of, in cores (for plots and the decision log). `error` has no unit."""

    error: float
    proportional: float
    previous: float
    integral: float
    unlimited: float


class Step(NamedTuple):
    """What one control period yields: the cores asked for, the state after it, and what they were made of."""

    cores: float
    state: PaperState
    parts: PaperParts


def core_max(initial_cores: float, *, overscale: float, slots: float) -> float:
    """The paper's coreMax: min(overscale * initial cores, slots)."""
    return min(overscale * initial_cores, slots)


def set_point(elapsed_s: float, length_s: float) -> float:
    """Planned progress `elapsed_s` after the stage's submission; 1 from its deadline on (at once if that is 0 long)."""
    if length_s <= 0 or elapsed_s >= length_s:
        return 1.0
    return max(0.0, elapsed_s / length_s)


def step(
    state: PaperState,
    planned: float,
    progress: float,
    limits: PaperLimits,
    dt_s: float,
    settings: PaperSettings,
    core_quantum: float = CORE_QUANTUM,
) -> Step:
    """One control period.

    `planned` and `progress` are in [0, 1], `dt_s` is the time since the last step. Once the set-point has reached 1 the
    stage is late and gets the most there is; csi then rests, as the law no longer runs.
    The cores are rounded up to whole quanta, then held under the ceiling, which need not be a multiple (1.03 slots).
    """
    error = planned - progress
    proportional = settings.k * error
    integral = settings.k * (dt_s / settings.ti_s) * error
    unlimited = proportional + state.csi + integral
    parts = PaperParts(error, proportional, state.csi, integral, unlimited)
    ceiling = limits.ceiling
    if planned >= 1:
        return Step(ceiling, state, parts)
    cores = min(max(unlimited, limits.core_min), ceiling)
    cores = min(round_up(cores, core_quantum), ceiling)
    return Step(cores, PaperState(cores - proportional), parts)

"""The time kept for work that a run with other arguments may have beyond its plan. Pure.

The time kept is the time that all cores take for the share of the open work that may come further. The open work is the work
that the run has not left behind: the plan's stages after the last mark that the run has come to (`further.marks`), and all
unplanned work that has come. Unplanned work after a mark shows that the mark does not hold for this run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from stage_model.forecast.curve import to_come
from stage_model.forecast.estimate import ApplicationEstimate
from stage_model.forecast.match import Matched
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.run import Run
from stage_model.history.stage_run import StageKey

LONGEST_S = 1e9
"""A profile may claim any works, and messages carry finite numbers. No deadline is longer."""


def reserve_s(
    estimate: ApplicationEstimate,
    matched: Matched,
    run: Run,
    container_core_s: Mapping[StageKey, float],
    *,
    slots: int,
    cores: float,
    speed_limit: float = 1.0,
) -> float:
    """Return the seconds to keep; 0 if a run with the same arguments has taught. `container_core_s` is container CPU by stage
    attempt so far; `cores` > 0 are the most that the run can have, on `slots`."""
    further = estimate.grounds.further
    if not further:
        return 0.0
    shown = -1
    for key in run.attempts:  # in order of submission
        if key in matched.unplanned:
            shown = -1
        elif matched.seen[key].index in estimate.marks:
            shown = max(shown, matched.seen[key].index)
    open_stages = [stage for stage in matched.stages if stage.index > shown]
    if not open_stages:
        return 0.0
    busy, fixed_s = to_come(open_stages, slots, matched.work_ratio)
    planned_s = Forecast(busy, fixed_s, speed_limit).time_s(cores)
    planned_core_s = matched.work_ratio * math.fsum(stage.work_core_s for stage in open_stages)
    unplanned_core_s = math.fsum(_work(key, matched, run, container_core_s) for key in matched.unplanned)
    more = unplanned_core_s / planned_core_s if shown < 0 and planned_core_s > 0 else 0.0
    return min(LONGEST_S, further * (1 + more) * planned_s)


def _work(key: StageKey, matched: Matched, run: Run, container_core_s: Mapping[StageKey, float]) -> float:
    """Return the core-seconds that the stage took; while it runs, at least its expected work."""
    stage = run.attempts[key]
    took = stage.work_core_s(container_core_s.get(key))
    return took if stage.completed_ms is not None else max(took, matched.seen[key].work_core_s)

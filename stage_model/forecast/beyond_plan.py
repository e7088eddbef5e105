"""Work beyond the plan: the part that the CPU of the whole application shows, and the time kept for work that a run with
other arguments may have. Pure.

The CPU of a whole application bounds that of its parts. A profile may lack stages, and work may come in another stage than
last time: an executor that runs a kind of code for the first time loads and compiles it. The container CPU of the whole run
includes both and does not depend on which stage is taken for which. So its rest beyond the known stages is work to come, too,
and work that moves from stage to stage comes once (docs/control.md, "The total bounds the parts").

The time kept for other arguments is the time that all cores take for the share of the open work that may come further. The
open work is the work that the run has not left behind: the plan's stages after the last mark that the run has come to
(`further.marks`), and all unplanned work that has come. Unplanned work after a mark shows that the mark does not hold for
this run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import structs

from stage_model.forecast.curve import to_come
from stage_model.forecast.estimate import ApplicationEstimate
from stage_model.forecast.match import Matched
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.run import Run
from stage_model.history.stage_run import StageKey

USUAL = 0.05
"""Share of the known stages' work by which runs of one application differ without having more to do (docs/control.md)."""
LONGEST_S = 1e9
"""A profile may claim any works, and messages carry finite numbers. No deadline is longer."""


def unknown_core_s(whole_core_s: float, stages_core_s: float, used_core_s: float, known_core_s: float) -> float:
    """Return the core-seconds that are still to come by the total and belong to no known stage, at least 0.

    `whole_core_s` is the least CPU of the whole application, `stages_core_s` the work of all its known stages, `used_core_s`
    the CPU that the application has used so far, `known_core_s` the work that its known stages still have."""
    return max(0.0, whole_core_s - USUAL * stages_core_s - used_core_s - known_core_s)


def come_already_core_s(
    whole_core_s: float, stages_core_s: float, used_core_s: float, known_core_s: float, moving_core_s: float
) -> float:
    """Return the core-seconds that the stages to come are expected to have and that have come in earlier stages, at least 0.

    `whole_core_s` is the usual CPU of the whole application; the next three arguments are as in `unknown_core_s`.
    `moving_core_s` is the work of the stages to come that only some of the earlier runs had in these stages: the total takes
    away no other work, because a run may just have more to do."""
    left_core_s = max(0.0, whole_core_s + USUAL * stages_core_s - used_core_s)
    return min(moving_core_s, max(0.0, known_core_s - left_core_s))


def like(known: Forecast, known_core_s: float, core_s: float) -> Forecast:
    """Return the schedule of `core_s` core-seconds of which nothing else is known. On average it has as many tasks at once,
    and as much waiting and fixed time for each core-second, as the `known` schedule of `known_core_s` core-seconds. Where
    nothing is known, one task runs at once."""
    if known_core_s <= 0:
        return Forecast((core_s,), 0.0, known.speed_limit)
    share = core_s / known_core_s
    return structs.replace(known.times(share), fixed_s=share * known.fixed_s)


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
    planned_s = to_come(open_stages, slots, matched.work_ratio, speed_limit).time_s(cores)
    planned_core_s = matched.work_ratio * math.fsum(stage.work_core_s for stage in open_stages)
    unplanned_core_s = math.fsum(_work(key, matched, run, container_core_s) for key in matched.unplanned)
    more = unplanned_core_s / planned_core_s if shown < 0 and planned_core_s > 0 else 0.0
    return min(LONGEST_S, further * (1 + more) * planned_s)


def _work(key: StageKey, matched: Matched, run: Run, container_core_s: Mapping[StageKey, float]) -> float:
    """Return the core-seconds that the stage took; while it runs, at least its expected work."""
    stage = run.attempts[key]
    took = stage.work_core_s(container_core_s.get(key))
    return took if stage.completed_ms is not None else max(took, matched.seen[key].work_core_s)

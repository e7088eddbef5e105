"""The CPU of a whole application bounds that of its parts. Pure.

A profile may lack stages, and work may come in another stage than last time: an executor that runs a kind of code for the
first time loads and compiles it. The container CPU of the whole run includes both and does not depend on which stage is taken
for which. So its rest beyond the known stages is work to come, too, and work that moves from stage to stage comes once
(docs/control.md, "The total bounds the parts").
"""

from __future__ import annotations

from stage_model.forecast.virtual_time import Forecast

USUAL = 0.05
"""Share of the known stages' work by which runs of one application differ without having more to do (docs/control.md)."""


def untold_core_s(whole_core_s: float, stages_core_s: float, used_core_s: float, known_core_s: float) -> float:
    """Return the core-seconds that are still to come by the total and belong to no known stage, at least 0.

    `whole_core_s` is the CPU of the whole application, `stages_core_s` the work of all its known stages, `used_core_s` the
    CPU that the application has used so far, `known_core_s` the work that its known stages still have."""
    return max(0.0, whole_core_s - USUAL * stages_core_s - used_core_s - known_core_s)


def come_already_core_s(
    whole_core_s: float, stages_core_s: float, used_core_s: float, known_core_s: float, moving_core_s: float
) -> float:
    """Return the core-seconds that the stages to come are expected to have and that have come in earlier stages, at least 0.

    The first four arguments are as in `untold_core_s`. `moving_core_s` is the work of the stages to come that only some of
    the earlier runs had in these stages: the total takes away no other work, because a run may just have more to do."""
    left_core_s = max(0.0, whole_core_s + USUAL * stages_core_s - used_core_s)
    return min(moving_core_s, max(0.0, known_core_s - left_core_s))


def like(known: Forecast, known_core_s: float, core_s: float) -> Forecast:
    """Return the schedule of `core_s` core-seconds of which nothing else is known. On average it has as many tasks at once,
    and as much waiting and fixed time for each core-second, as the `known` schedule of `known_core_s` core-seconds. Where
    nothing is known, one task runs at once."""
    if known_core_s <= 0:
        return Forecast((core_s,), 0.0, known.speed_limit)
    share = core_s / known_core_s
    return Forecast(tuple(share * seconds for seconds in known.busy), share * known.fixed_s, known.speed_limit)

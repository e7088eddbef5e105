"""The pace: how much longer this run's stages took than the model says; a busy or throttled machine shows here.

Work is measured in core-seconds and so does not show whether the cores granted could be used; durations do. Finished stages
are compared with the virtual-time schedule of their real work on the cores they really had.
"""

from __future__ import annotations

from collections.abc import Iterable

PRIOR_S = 10.0
"""Seconds over which the pace counts as 1 besides what was seen: one short stage is no evidence."""
LIMITS = (0.8, 2.0)
"""Range of the pace: beyond it the stages are other ones than the profile's, which is the concern of `match`."""


def pace(stages: Iterable[tuple[float, float]]) -> float:
    """Return (prior + real) / (prior + modelled) over finished stages given as (real, modelled) seconds, within `LIMITS`."""
    real = modelled = PRIOR_S
    for real_s, modelled_s in stages:
        if real_s > 0 and modelled_s > 0:
            real += real_s
            modelled += modelled_s
    return min(LIMITS[1], max(LIMITS[0], real / modelled))

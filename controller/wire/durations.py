"""Durations as agents count them: histograms that grow over one life of an agent.

The bounds are part of the wire: other bounds are a new version of it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from controller.wire.limits import Seconds, Text
from controller.wire.message import Message

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds, each included."""
PHASES = ("look", "share memory", "decide", "write quotas", "reconcile and report")
"""Phases of an agent's period, in order."""

Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A count that is exact as a float, because it is shown as one."""
Counts = Annotated[tuple[Number, ...], msgspec.Meta(min_length=len(BOUNDS_S) + 1, max_length=len(BOUNDS_S) + 1)]


class Durations(Message, frozen=True, kw_only=True):
    """A histogram. `counts` has one number for each bound: that of durations up to it and above the bound before; the last
    number is of durations above all bounds."""

    counts: Counts = (0,) * (len(BOUNDS_S) + 1)
    sum_s: Seconds = 0.0


class Timings(Message, frozen=True, kw_only=True):
    """Timings since the agent started: the durations of each phase of a period (a phase that is not in `PHASES` is ignored)
    and of quota writes, and the number of failed writes."""

    phases: Annotated[dict[Text, Durations], msgspec.Meta(max_length=50)] = {}
    quota_writes: Durations = Durations()
    quota_failures: Number = 0

"""How long things took, as agents count it: histograms that grow over one life of an agent.

The bounds are part of the wire: other ones are a new version of it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from controller.wire.limits import Seconds, Text
from controller.wire.message import Message

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds, each included."""
PHASES = ("look", "share memory", "decide", "write quotas", "reconcile and report")
"""Of an agent's period, in order."""

Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""Exact as a float, which is what is shown of it."""
Counts = Annotated[tuple[Number, ...], msgspec.Meta(min_length=len(BOUNDS_S) + 1, max_length=len(BOUNDS_S) + 1)]


class Durations(Message, frozen=True, kw_only=True):
    """`counts` has one number for each bound, of what took no longer than it and longer than the bound before; the last one
    is of what took longer than all bounds."""

    counts: Counts = (0,) * (len(BOUNDS_S) + 1)
    sum_s: Seconds = 0.0


class Timings(Message, frozen=True, kw_only=True):
    """Since the agent started: how long each phase of a period took (a phase that is not in `PHASES` is ignored), how long
    quotas took to write, and how many could not be written."""

    phases: Annotated[dict[Text, Durations], msgspec.Meta(max_length=50)] = {}
    quota_writes: Durations = Durations()
    quota_failures: Number = 0

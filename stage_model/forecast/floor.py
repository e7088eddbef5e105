"""The part of an application's duration that no number of cores shortens, and what takes most of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from stage_model.forecast.bounds import Bound, waits_for
from stage_model.forecast.estimate import ApplicationEstimate
from stage_model.forecast.overlap import overlapping
from stage_model.units import format_duration

_WORDS: Mapping[Bound, str] = {
    "disk": "waiting for the disk",
    "network": "waiting for the network",
    "waiting": "waiting",
    "driver": "start-up and pauses of the driver",
}


def hindrance(expected: ApplicationEstimate, slots: int, deadline_s: float) -> str:
    """Return the words that follow a duration if no number of cores keeps the deadline (seconds after submission): the
    largest part of the time that no cores shorten. Return an empty text if that time is not longer than the deadline."""
    parts: dict[Bound, float] = {"driver": expected.startup_s + expected.tail_s, "waiting": expected.rest_s}
    for group in overlapping(expected.stages):
        # as a schedule has it: fixed times of stages side by side pass together
        longest = max(group, key=lambda stage: stage.fixed_s)
        bound = waits_for(longest, slots)
        parts["driver"] += group[0].gap_s
        parts[bound] = parts.get(bound, 0.0) + longest.fixed_s
    if sum(parts.values()) <= deadline_s:
        return ""
    largest = max(parts, key=lambda name: parts[name])
    return f", of which {format_duration(parts[largest])} are {_WORDS[largest]}, which more cores do not shorten"

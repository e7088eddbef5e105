"""Groups of stages that ran at the same time: parallel branches of a DAG share the slots, and none waits for another.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

ROUNDING_S = 0.05
"""Overlap below which stages may simply follow each other."""


class Spanned(Protocol):
    """Seconds; a stage begins when it is submitted."""

    @property
    def start_s(self) -> float: ...

    @property
    def duration_s(self) -> float: ...


S = TypeVar("S", bound=Spanned)


def overlapping(stages: Sequence[S]) -> list[list[S]]:
    """Return the consecutive stages, grouped by whether they ran at the same time in the profile."""
    groups: list[list[S]] = []
    end_s = float("-inf")
    for stage in stages:
        if groups and stage.start_s < end_s - ROUNDING_S:
            groups[-1].append(stage)
        else:
            groups.append([stage])
        end_s = max(end_s, stage.start_s + stage.duration_s)
    return groups

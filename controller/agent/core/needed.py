"""Cores that an executor needs during the rest of the run, for a runtime that sets cores aside for it: pure.

The need is the largest recent demand of its law. A forecast moves from period to period, and cores that were given away may
not come back. Between stages, or while nothing is known, the need stays.
"""

from __future__ import annotations

from msgspec import Struct

from stage_model.laws.base import Decision

LATELY_S = 30.0


class Needed(Struct, frozen=True):
    """Recent demands: seconds and cores, each entry with fewer cores than the one before."""

    lately: tuple[tuple[float, float], ...] = ()

    def after(self, now_s: float, decision: Decision | None) -> Needed:
        """Return the need after a decision of now; only a decision that a law planned says what the rest of the run needs."""
        if decision is None or not decision.planned:
            return self
        kept = [(at_s, cores) for at_s, cores in self.lately if now_s - at_s <= LATELY_S and cores > decision.demand]
        return Needed((*kept, (now_s, decision.demand)))

    @property
    def cores(self) -> float | None:
        """Cores needed; None before a law has planned anything."""
        return self.lately[0][1] if self.lately else None

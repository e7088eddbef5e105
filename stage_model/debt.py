"""Debt: the core-seconds that squeezes withheld from an executor and that it has not been given back yet. Pure.

A squeezed executor falls behind, so its law asks for more and more; what was withheld is measured against what the law asked
for when the squeeze began. Later grants above that reference repay (compensation, document 004, section 2.4.2). An
application's debt is the sum over its executors. Not covered: which executors are squeezed
(`controller.agent.core.arbitrate`).
"""

from __future__ import annotations

import msgspec


class Debt(msgspec.Struct, frozen=True, kw_only=True):
    """`reference` is the demand in cores when the squeeze began; `core_s` is owed, `withheld_core_s` the sum ever owed."""

    reference: float = 0.0
    core_s: float = 0.0
    withheld_core_s: float = 0.0

    def after(self, demand: float, grant: float, *, squeezed: bool, dt_s: float) -> Debt:
        """Return the debt `dt_s` seconds later, in which `demand` and `grant` (cores) held."""
        reference = self.reference if self.core_s > 0 else demand
        if not squeezed and grant <= reference:
            # it had what it asked for: nothing withheld, nothing given back
            return self
        change = (reference - grant) * dt_s
        return Debt(
            reference=reference,
            core_s=max(0.0, self.core_s + change),
            withheld_core_s=self.withheld_core_s + max(0.0, change),
        )

"""A `Basis` and its sentence, made from the grounds of a forecast. Pure."""

from __future__ import annotations

from controller.wire.basis import Basis
from stage_model.forecast.further import Grounds
from stage_model.units import format_duration


def basis(grounds: Grounds | None, recognised: float | None = None, late_since_s: float | None = None) -> Basis:
    """Return the basis of a forecast. `grounds` None: no profile is known. `recognised` and `late_since_s` are as in
    `Basis`."""
    parts = [_taught(grounds)]
    if grounds is not None and grounds.disturbed:
        stages = "1 stage" if grounds.disturbed == 1 else f"{grounds.disturbed} stages"
        parts.append(f"no run is known in which {stages} ran undisturbed")
    if grounds is not None and grounds.others:
        others = "1 run with other stages does" if grounds.others == 1 else f"{grounds.others} runs with other stages do"
        parts.append(f"{others} not count (--profile keeps programs of one name apart)")
    if recognised is not None:
        parts.append(f"{recognised:.0%} of the work seen is recognised")
    if late_since_s is not None:
        parts.append(f"late since {format_duration(late_since_s)} after submission")
    return Basis(
        runs=grounds.runs if grounds else 0,
        same_arguments=grounds.same_arguments if grounds else None,
        further=round(grounds.further, 4) if grounds else 0.0,
        recognised=None if recognised is None else round(recognised, 4),
        late_since_s=None if late_since_s is None else round(late_since_s, 3),
        sentence="; ".join(parts),
    )


def _taught(grounds: Grounds | None) -> str:
    if grounds is None:
        return "no earlier run is known"
    planned = f"planned from {grounds.runs} run{'s' if grounds.runs > 1 else ''}"
    if grounds.same_arguments is None:
        return f"{planned}; arguments were not compared"
    if grounds.same_arguments == 0:
        return f"{planned} with other arguments: time is kept for {grounds.further:.0%} more work"
    if grounds.same_arguments == grounds.runs:
        return f"{planned} with the same arguments"
    return f"{planned}, {grounds.same_arguments} of them with the same arguments"

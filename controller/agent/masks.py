"""Which binds an executor gets, and what is masked within them: pure.

A bind shows a whole tree, and a secret may lie anywhere in it. Everything is compared by where it lies really, so that no
link leads around a mask. Which secrets there are: `controller.agent.secret_places`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path

from controller.runtime.base import Bind, Mask
from controller.runtime.held import HeldPath
from stage_model.errors import RuntimeRefused


class ShowReason(Enum):
    """Why a path is to be shown."""

    OPTIONAL = auto()
    """Left out if it lies in a secret: the executor can do without."""
    NEEDED = auto()
    """Refused if it lies in a secret."""
    ASKED = auto()
    """Named by the user: shows what lies in a secret, unless that one is closed."""
    OWN = auto()
    """The executor's own directory, which the agent made, wherever it lies."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """`path` is what the executor calls it, `real` where it lies: no part of `real` is a link. `held` and `firm` are the
    bind's."""

    path: Path
    real: Path
    reason: ShowReason
    writable: bool = False
    held: HeldPath | None = None
    firm: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """Where a secret lies really."""

    path: Path
    folder: bool = True


@dataclass(frozen=True, slots=True)
class Secret:
    """`name` is its usual path; `places` is where it lies, then where the links in it lead. `closed` says what it is if
    nobody may ask for it; empty: a user's own, which they may show by its name."""

    name: Path
    places: tuple[Place, ...]
    closed: str = ""


def masked(wanted: Sequence[Wanted], secrets: Sequence[Secret]) -> list[Bind]:
    """One bind per path, shorter paths first, each with the masks that it needs; what is writable anywhere is writable.

    Raises `RuntimeRefused` for what is needed or asked for and cannot be shown."""
    asked = {one.real for one in wanted if one.reason == ShowReason.ASKED}
    secrets = _not_asked_for(secrets, asked)
    binds: dict[Path, Bind] = {}
    for one in wanted:
        reason = ShowReason.ASKED if one.real in asked and one.reason != ShowReason.OWN else one.reason
        if _may_be_shown(one, reason, secrets):
            writable = one.writable or (one.path in binds and binds[one.path].writable)
            binds[one.path] = Bind(one.path, writable, _masks(one, secrets), one.held, one.firm)
    return sorted(binds.values(), key=lambda bind: len(bind.path.parts))


def _not_asked_for(secrets: Sequence[Secret], asked: set[Path]) -> list[Secret]:
    """Without those that the user named, by themselves or by what a link in them leads to."""
    left = []
    for secret in secrets:
        if secret.closed:
            left.append(secret)
        elif secret.places[0].path not in asked:
            left.append(replace(secret, places=tuple(place for place in secret.places if place.path not in asked)))
    return left


def _may_be_shown(one: Wanted, reason: ShowReason, secrets: Sequence[Secret]) -> bool:
    """Whether no secret around `one` keeps it from being shown. Raises `RuntimeRefused`."""
    if reason == ShowReason.OWN:
        return True
    for secret in secrets:
        hides = bool(secret.closed) or reason != ShowReason.ASKED
        if not hides or not any(one.real.is_relative_to(place.path) for place in secret.places):
            continue
        if reason == ShowReason.OPTIONAL:
            return False
        what = f", {secret.closed}," if secret.closed else ","
        raise RuntimeRefused(
            f"mount {str(one.path)!r} leads into {secret.name}{what} which executors do not see; accepted: a path outside"
        )
    return True


def _masks(one: Wanted, secrets: Sequence[Secret]) -> tuple[Mask, ...]:
    """Over what lies in `one`; a mask within a mask would hide nothing more."""
    inside = {
        place.path: place
        for secret in secrets
        for place in secret.places
        if place.path != one.real and place.path.is_relative_to(one.real)
    }
    outermost = (place for path, place in sorted(inside.items()) if not inside.keys() & {*path.parents})
    return tuple(Mask(one.path / place.path.relative_to(one.real), place.folder) for place in outermost)

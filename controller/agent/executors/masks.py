"""The binds that an executor gets, and the masks within them: pure.

A bind shows a whole tree, and a secret may lie anywhere in it. Paths are compared by their real places, so that no link leads
around a mask. The secrets are found by `controller.agent.executors.secret_places`.
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
    """The reason for showing a path."""

    OPTIONAL = auto()
    """Left out if it lies in a secret: the executor can do without."""
    NEEDED = auto()
    """Refused if it lies in a secret."""
    ASKED = auto()
    """Named by the user: shown even if it lies in a secret, unless the secret is closed."""
    OWN = auto()
    """The executor's own directory, which the agent made, wherever it lies."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A path to be shown. `path` is its name for the executor, `real` its real place: no part of `real` is a link. `held` and
    `firm` are the bind's."""

    path: Path
    real: Path
    reason: ShowReason
    writable: bool = False
    held: HeldPath | None = None
    firm: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """The real place of a secret."""

    path: Path
    folder: bool = True


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret. `name` is its usual path; `places` is its real place, then the targets of the links in it. `closed` says what
    it is if no one may ask for it; empty: a user's own secret, which the user may show by its name."""

    name: Path
    places: tuple[Place, ...]
    closed: str = ""


def masked(wanted: Sequence[Wanted], secrets: Sequence[Secret]) -> list[Bind]:
    """Return one bind per path, shorter paths first, each with its masks; a path that is writable anywhere is writable.

    Raise `RuntimeRefused` for a path that is needed or asked for and cannot be shown."""
    asked = {shown.real for shown in wanted if shown.reason == ShowReason.ASKED}
    secrets = _not_asked_for(secrets, asked)
    binds: dict[Path, Bind] = {}
    for shown in wanted:
        reason = ShowReason.ASKED if shown.real in asked and shown.reason != ShowReason.OWN else shown.reason
        if _may_be_shown(shown, reason, secrets):
            writable = shown.writable or (shown.path in binds and binds[shown.path].writable)
            binds[shown.path] = Bind(shown.path, writable, _masks(shown, secrets), shown.held, shown.firm)
    return sorted(binds.values(), key=lambda bind: len(bind.path.parts))


def _not_asked_for(secrets: Sequence[Secret], asked: set[Path]) -> list[Secret]:
    """Return the secrets without those that the user named, by themselves or by the target of a link in them."""
    left = []
    for secret in secrets:
        if secret.closed:
            left.append(secret)
        elif secret.places[0].path not in asked:
            left.append(replace(secret, places=tuple(place for place in secret.places if place.path not in asked)))
    return left


def _may_be_shown(shown: Wanted, reason: ShowReason, secrets: Sequence[Secret]) -> bool:
    """Return True if no secret around `shown` keeps it from being shown. Raise `RuntimeRefused`."""
    if reason == ShowReason.OWN:
        return True
    for secret in secrets:
        hides = bool(secret.closed) or reason != ShowReason.ASKED
        if not hides or not any(shown.real.is_relative_to(place.path) for place in secret.places):
            continue
        if reason == ShowReason.OPTIONAL:
            return False
        what = f", {secret.closed}," if secret.closed else ","
        raise RuntimeRefused(
            f"mount {str(shown.path)!r} leads into {secret.name}{what} which executors do not see; mount a path outside"
        )
    return True


def _masks(shown: Wanted, secrets: Sequence[Secret]) -> tuple[Mask, ...]:
    """Return masks over the secrets in `shown`; a mask within a mask would hide nothing more."""
    inside = {
        place.path: place
        for secret in secrets
        for place in secret.places
        if place.path != shown.real and place.path.is_relative_to(shown.real)
    }
    outermost = (place for real, place in sorted(inside.items()) if not inside.keys() & {*real.parents})
    return tuple(Mask(shown.path / place.path.relative_to(shown.real), place.folder) for place in outermost)

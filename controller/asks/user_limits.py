"""The most that one user of a cluster may have promised at a time; `controller.cli.user_tables` reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UserLimits:
    """The limits of one user; None: no limit. `user` is the name that the operator gave, `uid` that user's number; None: the
    limits count for each user without limits of its own.

    `priority` is the highest that the user's applications may ask for, `cores` and `memory_mb` (MiB) are the most that may be
    promised to them together, `applications` is the most that may run at a time."""

    user: str
    uid: int | None = None
    priority: int | None = None
    cores: float | None = None
    memory_mb: int | None = None
    applications: int | None = None

"""Errors that Sparkpace raises on purpose. `exit_code` is the command's (docs/reference/exit-codes.md)."""

from __future__ import annotations


class PaceError(Exception):
    """Root. The message is one sentence: what was given, what is wrong, what would be accepted."""

    exit_code = 1


class BadInput(PaceError):
    """Misuse or a bad file."""

    exit_code = 2


class TooLarge(BadInput):
    """More than is ever accepted."""


class Unavailable(PaceError):
    """No master, engine, JDK or port."""

    exit_code = 69


class Unusable(Unavailable):
    """Something answers, but its answer is of no use here."""


class TooMuch(Unavailable):
    """More than is accepted now; a later try may succeed."""


class TooSlow(Unavailable):
    """The answer did not come within the time there is for it."""


class OtherVersion(Unavailable):
    """The other side speaks no version of the wire that this side speaks."""


class NotStored(Unavailable):
    """A change that cannot be stored now, so it is not promised."""


class InfeasibleDeadline(PaceError):
    """The deadline cannot be met and the application was not admitted."""

    exit_code = 75


class Denied(PaceError):
    """Wrong token."""

    exit_code = 77


class RuntimeRefused(PaceError):
    """The worker can never start this executor."""


class RuntimeFailed(PaceError):
    """Starting or pacing an executor failed; a later try may work."""

"""Savings of the runs that were only watched: the answer of `sparkpace savings`, and of the master to the live page.

See docs/guides/observe.md and docs/protocol.md.
"""

from __future__ import annotations

from controller.wire.message import Message


class RunSavings(Message, frozen=True, kw_only=True):
    """One run. Seconds count from submission. `on_time` None: it had no deadline, or was cut off before that. The last
    fields are None where they are not known, for the reason in `remark`."""

    application_id: str
    name: str
    on_time: bool | None
    deadline_s: float | None
    end_s: float
    held_core_s: float
    used_core_s: float
    least_deadline_s: float | None = None
    saved_core_s: float | None = None
    least_core_s: float | None = None
    most_core_s: float | None = None
    remark: str = ""


class Money(Message, frozen=True, kw_only=True):
    """Saved money, in the unit of the price of a core-hour."""

    price: float
    saved: float
    least: float | None
    most: float | None


class Savings(Message, frozen=True, kw_only=True):
    """Runs with their sums. The sum has an interval where each saving has one."""

    applications: tuple[RunSavings, ...]
    held_core_s: float
    used_core_s: float
    saved_core_s: float
    least_core_s: float | None
    most_core_s: float | None
    money: Money | None = None


class SavingsReply(Message, frozen=True, kw_only=True):
    """GET /v1/savings (scope submit): the savings of the newest watched runs. `left_out`: runs that cannot be read, or whose
    samples are too many to be read for an answer."""

    savings: Savings
    left_out: int = 0

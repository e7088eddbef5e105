"""Events for a web hook: their detection from two looks at the applications, and their JSON. Pure.

Not covered: sending (`deliveries`, `sender`), and the source of a look (`controller.master.notify.notifying`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from controller.machine.printable import printable
from controller.wire.states import Outcome

AT_RISK_S = 1.0
"""A forecast end past the deadline by more than this,"""
AT_RISK_FOR_S = 30.0
"""and for this long, puts the deadline at risk. The alert of deploy/prometheus/rules.yml says the same."""
LONGEST_NAME, LONGEST_REASON = 200, 1000

Kind = Literal["deadline_at_risk", "application_ended", "submission_refused"]


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event. Times count in seconds from submission. `outcome` is one of `controller.wire.states.Outcome`; `error_pct`
    is the deadline error of an application that succeeded, in percent of the deadline (negative: early); `lateness` is the
    sentence that says why it ended late. Fields that do not apply are None."""

    event: Kind
    name: str
    application_id: str | None = None
    elapsed_s: float | None = None
    deadline_s: float | None = None
    forecast_end_s: float | None = None
    outcome: Outcome | None = None
    error_pct: float | None = None
    reason: str | None = None
    lateness: str | None = None


class JobLook(NamedTuple):
    """One application at one moment; times as in `HookEvent`. `outcome` None: the application runs, or its outcome is not
    settled."""

    application_id: str
    name: str
    elapsed_s: float
    deadline_s: float | None = None
    forecast_end_s: float | None = None
    outcome: Outcome | None = None
    error_pct: float | None = None
    reason: str = ""
    lateness: str = ""


@dataclass(frozen=True, slots=True)
class _Seen:
    """An application at the last look. `late_since_s`: time, monotonic, since which the forecast end is past the deadline;
    `told`: the deadline at risk was reported."""

    ended: bool = False
    late_since_s: float | None = None
    told: bool = False


class EventWatch:
    """A comparison of each look with the one before. Applications that ended before the first look are of an earlier life of
    the master."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] | None = None

    def events(self, looks: Iterable[JobLook], now_s: float) -> list[HookEvent]:
        """Return the events since the look before; `now_s` is monotonic. An end is reported once, and so is a deadline at
        risk until the forecast is in time again."""
        found, before, seen = list[HookEvent](), self._seen, dict[str, _Seen]()
        for look in looks:
            known = (before or {}).get(look.application_id, _Seen())
            if look.outcome is not None:
                now = _Seen(ended=True)
                if before is not None and not known.ended:
                    found.append(_ended(look))
            else:
                now = _compared(known, look, now_s)
                if now.told and not known.told:
                    found.append(_at_risk(look))
            seen[look.application_id] = now
        self._seen = seen
        return found


def refused_event(name: str, reason: str, deadline_s: float | None = None) -> HookEvent:
    """Return the event of a refused submission, which asked for the deadline `deadline_s`."""
    return HookEvent(event="submission_refused", name=_name(name), deadline_s=_rounded(deadline_s), reason=_reason(reason))


def body(event: HookEvent, *, notification_id: str, epoch_s: float, cluster_id: str) -> bytes:
    """Return the JSON that is sent: the event, the notification's id and time, and the cluster's id."""
    told = {"id": notification_id, "time": round(epoch_s, 3), "cluster_id": cluster_id, **msgspec.to_builtins(event)}
    return msgspec.json.encode(told)


def _compared(before: _Seen, look: JobLook, now_s: float) -> _Seen:
    late = None not in (look.deadline_s, look.forecast_end_s) and _past_s(look) > AT_RISK_S
    if not late:
        return _Seen()
    since_s = now_s if before.late_since_s is None else before.late_since_s
    return _Seen(late_since_s=since_s, told=now_s - since_s >= AT_RISK_FOR_S)


def _past_s(look: JobLook) -> float:
    return (look.forecast_end_s or 0.0) - (look.deadline_s or 0.0)


def _at_risk(look: JobLook) -> HookEvent:
    reason = f"it is expected to end {_past_s(look):.1f} s after its deadline"
    return msgspec.structs.replace(_of(look, "deadline_at_risk", reason), forecast_end_s=_rounded(look.forecast_end_s))


def _ended(look: JobLook) -> HookEvent:
    event = _of(look, "application_ended", _reason(look.reason) or None)
    lateness = _reason(look.lateness) or None
    return msgspec.structs.replace(event, outcome=look.outcome, error_pct=look.error_pct, lateness=lateness)


def _of(look: JobLook, kind: Kind, reason: str | None) -> HookEvent:
    return HookEvent(
        event=kind,
        name=_name(look.name),
        application_id=look.application_id,
        elapsed_s=_rounded(look.elapsed_s),
        deadline_s=_rounded(look.deadline_s),
        reason=reason,
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _name(text: str) -> str:
    return printable(text, LONGEST_NAME)


def _reason(text: str) -> str:
    return printable(text, LONGEST_REASON)

"""Events for a web hook: their detection from two looks at the applications, their words and their JSON. Pure.

Not covered: sending (`deliveries`, `sender`), and the source of a look (`controller.master.notify.notifying`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from controller.machine.printable import printable
from controller.wire.states import Outcome
from stage_model.settings import CORE_QUANTUM
from stage_model.units import PRIORITIES, format_distance, format_duration, priority_name

AT_RISK_S = 1.0
"""A forecast end past the deadline by more than this,"""
AT_RISK_FOR_S = 30.0
"""and for this long, puts the deadline at risk. The alert of deploy/prometheus/rules.yml says the same."""
LONGEST_NAME, LONGEST_REASON = 200, 1000

_MARKUP = str.maketrans("<>&", "???")
"""Characters that chats read as markup: `<!channel>` calls all of a channel."""
_TO_READ = (Outcome.FAILED, Outcome.DRIVER_DIED, Outcome.STOPPED, Outcome.UNKNOWN)
"""Outcomes of which the output of the executors may tell more."""

Kind = Literal["deadline_at_risk", "application_ended", "submission_refused", "did_not_come"]


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event. Times count in seconds from submission. `late_s`: the seconds by which it is expected to end, or has ended,
    after its deadline; `late_since_s`: since when that is expected. `outcome` is one of `controller.wire.states.Outcome`;
    `error_pct` is the deadline error of an application that succeeded, in percent of the deadline (negative: early);
    `lateness` is the sentence that says why it is late, `squeezed_by` the applications that had its cores, if that is the
    reason; `waits_for`: the reason why it lacks executors. `command` may help, for the reason `advice`. `expected_by`,
    seconds since the epoch, is the time by which a job that did not come usually was there. Fields that do not apply are
    None."""

    event: Kind
    name: str
    application_id: str | None = None
    elapsed_s: float | None = None
    deadline_s: float | None = None
    forecast_end_s: float | None = None
    late_s: float | None = None
    late_since_s: float | None = None
    outcome: Outcome | None = None
    error_pct: float | None = None
    reason: str | None = None
    lateness: str | None = None
    squeezed_by: tuple[str, ...] = ()
    waits_for: str | None = None
    advice: str | None = None
    command: str | None = None
    expected_by: float | None = None


class JobLook(NamedTuple):
    """One application at one moment; times as in `HookEvent`. `outcome` None: the application runs, or its outcome is not
    settled. `attached`: another cluster manager starts its executors."""

    application_id: str
    name: str
    elapsed_s: float
    deadline_s: float | None = None
    forecast_end_s: float | None = None
    outcome: Outcome | None = None
    error_pct: float | None = None
    reason: str = ""
    lateness: str = ""
    squeezed_by: tuple[str, ...] = ()
    attached: bool = False


class Risk(NamedTuple):
    """The state of an application whose deadline is at risk. Its running executors ask for `demanded_cores` and have
    `granted_cores`; `highest_priority` is the highest that its user may give it. The rest is as in `HookEvent`."""

    late_since_s: float | None
    lateness: str
    squeezed_by: tuple[str, ...]
    waits_for: str
    demanded_cores: float
    granted_cores: float
    priority: int
    highest_priority: int = PRIORITIES["high"]


@dataclass(frozen=True, slots=True)
class _Seen:
    """An application at the last look. `late_since_s`: time, monotonic, since which the forecast end is past the deadline;
    `reported`: the deadline at risk was reported."""

    ended: bool = False
    late_since_s: float | None = None
    reported: bool = False


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
                if now.reported and not known.reported:
                    found.append(_at_risk(look))
            seen[look.application_id] = now
        self._seen = seen
        return found


def refused_event(name: str, reason: str, deadline_s: float | None = None) -> HookEvent:
    """Return the event of a refused submission, which asked for the deadline `deadline_s`."""
    return HookEvent(event="submission_refused", name=_name(name), deadline_s=_rounded(deadline_s), reason=_reason(reason))


def missing_event(name: str, reason: str, expected_by: float, command: str) -> HookEvent:
    """Return the event of a job that usually was there by `expected_by`, seconds since the epoch."""
    return HookEvent(
        event="did_not_come",
        name=_name(name),
        reason=_reason(reason),
        advice="look for it where it is submitted; this shows its runs",
        command=command,
        expected_by=round(expected_by, 3),
    )


def with_risk(event: HookEvent, risk: Risk) -> HookEvent:
    """Return the event of a deadline at risk with the reasons and with what can be done. A higher priority is advised where
    one is left and others have cores that the application asks for."""
    has = f"it has {risk.granted_cores:.2f} of the {risk.demanded_cores:.2f} cores that it asks for"
    if risk.demanded_cores - risk.granted_cores >= CORE_QUANTUM and risk.priority < risk.highest_priority:
        advice = f"{has}, and a higher priority may give it more"
        command = f"sparkpace set {event.application_id} --priority {priority_name(risk.highest_priority)}"
    else:
        advice = f"{has}; this shows what its forecast rests on, and where its executors may go"
        command = f"sparkpace explain {event.application_id}"
    return msgspec.structs.replace(
        event,
        late_since_s=_rounded(risk.late_since_s),
        lateness=_reason(risk.lateness) or None,
        squeezed_by=tuple(map(_name, risk.squeezed_by)),
        waits_for=_reason(risk.waits_for) or None,
        advice=advice,
        command=command,
    )


def body(event: HookEvent, *, notification_id: str, epoch_s: float, cluster_id: str) -> bytes:
    """Return the JSON that is sent: the notification's id, time and text, the cluster's id, and the event."""
    known = {"id": notification_id, "time": round(epoch_s, 3), "cluster_id": cluster_id, "text": in_words(event)}
    return msgspec.json.encode({**known, **msgspec.to_builtins(event)})


def in_words(event: HookEvent) -> str:
    """Return all that an event says to a person, in one line; a command, if there is one, comes last."""
    who = event.name if event.application_id is None else f"{event.name} ({event.application_id})"
    said = f"{who} {_happened(event)}"
    if event.lateness is not None:
        said += f". Why: {event.lateness}"
    if event.waits_for is not None:
        said += f". It lacks executors: {event.waits_for}"
    if event.command is not None:
        said += f". What can be done: {event.advice}: {event.command}"
    return said.translate(_MARKUP)


def _happened(event: HookEvent) -> str:
    match event.event:
        case "deadline_at_risk":
            late, deadline = format_duration(event.late_s or 0.0), format_duration(event.deadline_s or 0.0)
            said = f"is expected to end {late} after its deadline of {deadline}"
            if event.late_since_s is None:
                return said
            return f"{said}; the forecast has said so since {format_duration(event.late_since_s)} after its submission"
        case "application_ended":
            how = "" if event.error_pct is None else f", {format_distance(event.error_pct)}"
            return f"has ended: {event.outcome}{how}" + (f" ({event.reason})" if event.reason else "")
        case "submission_refused":
            return f"was refused: {event.reason}"
    return f"did not come: {event.reason}"


def _compared(before: _Seen, look: JobLook, now_s: float) -> _Seen:
    late = None not in (look.deadline_s, look.forecast_end_s) and _past_s(look) > AT_RISK_S
    if not late:
        return _Seen()
    since_s = now_s if before.late_since_s is None else before.late_since_s
    return _Seen(late_since_s=since_s, reported=now_s - since_s >= AT_RISK_FOR_S)


def _past_s(look: JobLook) -> float:
    return (look.forecast_end_s or 0.0) - (look.deadline_s or 0.0)


def _at_risk(look: JobLook) -> HookEvent:
    late_s = _past_s(look)
    event = _of(look, "deadline_at_risk", f"it is expected to end {late_s:.1f} s after its deadline")
    return msgspec.structs.replace(event, forecast_end_s=_rounded(look.forecast_end_s), late_s=_rounded(late_s))


def _ended(look: JobLook) -> HookEvent:
    event = _of(look, "application_ended", _reason(look.reason) or None)
    late = look.error_pct is not None and look.error_pct > 0
    advice, command = _after_end(look, late=late)
    return msgspec.structs.replace(
        event,
        late_s=_rounded(look.elapsed_s - (look.deadline_s or 0.0)) if late else None,
        outcome=look.outcome,
        error_pct=look.error_pct,
        lateness=_reason(look.lateness) or None,
        squeezed_by=tuple(map(_name, look.squeezed_by)),
        advice=advice,
        command=command,
    )


def _after_end(look: JobLook, *, late: bool) -> tuple[str, str] | tuple[None, None]:
    """Return what can be done once an application has ended, and the command; None for both where nothing is to be done."""
    to_read = look.outcome in _TO_READ
    if to_read and not look.attached:  # logs of attached executors are their cluster's
        said = "this shows what its executors printed, and its driver if it was detached"
        return said, f"sparkpace logs {look.application_id}"
    if late or to_read:
        return "this shows the figures of the run", f"sparkpace report {look.application_id}"
    return None, None


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

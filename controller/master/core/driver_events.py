"""Drivers' reports, taken in live, and once more at a start of the master, by the same code in the same order.

Every event and snapshot is stored as it came, except for the deadline of a single job (`actions`) that its user's share does
not allow: the event is stored without it, so that a restart of the master does not judge it again. While nothing can be
stored, the master takes reports in and does not acknowledge them: the driver keeps them, goes on behind the last one,
and sends all of them again when they can be stored. An event that cannot be read or applied is left out, in the same way each
time (`guard`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import structs

from controller.master.core import executors, goals
from controller.master.core.actions import DEADLINE, key_of
from controller.master.core.application import Application
from controller.master.core.effects import StoreEvents
from controller.master.core.guard import guarded
from controller.master.core.registry import Registry
from controller.master.core.shares import UserShares
from controller.wire import limits
from controller.wire.driver import DriverSync, Sequenced
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput
from stage_model.history.events import AnyEvent, ApplicationEnd, ExecutorRemoved, JobStart, StageSubmitted, TaskEnd

AT_A_TIME = 200
"""Events taken in before other tasks have their turn: a few milliseconds."""

_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_snapshot_decoder = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_job_decoder = msgspec.json.Decoder(JobStart)
_MARK, _ESCAPE = DEADLINE.encode(), b"\\u"
"""An event has a deadline only where it has the setting's name, or a character of it written as its number."""

LARGE_RUN, AT_A_TIME_LARGE = 20_000, 20
"""Each event of a run of such a size may take a hundred times as long."""


def parts(sync: DriverSync, size: int = 0) -> Iterator[DriverSync]:
    """Yield the message in parts, each of them taken in quickly: a driver that could not report for long has much to report.
    `size` is its run's."""
    at_a_time = AT_A_TIME if size < LARGE_RUN else AT_A_TIME_LARGE
    if len(sync.events) <= at_a_time:
        yield sync
        return
    events = sorted(sync.events, key=lambda numbered: numbered.seq)
    for begin in range(0, len(events), at_a_time):
        yield structs.replace(
            sync, events=tuple(events[begin : begin + at_a_time]), snapshot=None if begin else sync.snapshot
        )


def _stop_if_too_much(application: Application) -> None:
    what = application.stream.limit_exceeded(application.run)
    if what:
        application.stream.overflow = what
        application.stream.left_out += 1
        application.replace_active(())
        application.notify(
            f"it has reported more than {what}: what it does from here on is not recorded, and it goes on without a deadline"
        )


def without_refused_deadlines(application: Application, sync: DriverSync, shares: UserShares, now_s: float) -> DriverSync:
    """Return the driver's report without the deadlines of jobs that its user's share does not allow; the application's
    terminal says why."""
    if not shares.limited or application.ended or not any(map(_may_have_deadline, sync.events)):
        return sync
    return structs.replace(sync, events=tuple(_judged(application, one, shares, now_s) for one in sync.events))


def _may_have_deadline(numbered: Sequenced) -> bool:
    event = bytes(numbered.event)
    return _MARK in event or _ESCAPE in event


def _judged(application: Application, numbered: Sequenced, shares: UserShares, now_s: float) -> Sequenced:
    if not _may_have_deadline(numbered):
        return numbered
    with guarded(application, "judging the deadline of a job"):
        try:
            event = _job_decoder.decode(bytes(numbered.event))
            action = application.actions.begun_by(event)
        except (*UNREADABLE, BadInput):  # said where the event is taken in
            return numbered
        refusal = "" if action is None else shares.job_refusal(application, action.priority, now_s)
        if action is not None and refusal:
            application.notify(f"{key_of(event)} goes on without a deadline of its own: {refusal}")
            kept = {key: value for key, value in event.properties.items() if key != DEADLINE}
            stripped = msgspec.json.encode(structs.replace(event, properties=kept))
            return structs.replace(numbered, event=msgspec.Raw(stripped))
    return numbered


def unstored(application: Application, sync: DriverSync) -> StoreEvents | None:
    """Return the driver's snapshot and events that are to be stored first and for good: what is acknowledged must survive.
    Return None if none are new; of an application that reported too much nothing is stored."""
    stream = application.stream
    events = stream.unacknowledged(sync)
    if stream.overflow or (sync.snapshot is None and not events):
        return None
    return StoreEvents(application.id, stream.acknowledged, sync.next_seq, sync.snapshot, events)


def take(application: Application, sync: DriverSync, stored: StoreEvents | None, registry: Registry, now_s: float) -> None:
    """Take a driver's snapshot and events in; those that are `stored` are acknowledged. Of an application that reported too
    much all is acknowledged: its bridge need not keep it."""
    if application.stream.overflow:
        application.stream.pass_over(sync)
        return
    to_take = application.stream.untaken(sync)
    if stored is not None:
        application.stream.acknowledged = stored.reached
    changed = sync.snapshot is not None
    if sync.snapshot is not None:
        _snapshot(application, sync.snapshot, sync.next_seq, now_s)
    for numbered in to_take:
        changed = _event(application, numbered.seq, bytes(numbered.event), registry, now_s) or changed
    if changed:
        registry.changes.application(application)


def replay(
    application: Application,
    events: Iterable[tuple[int, bytes]],
    snapshots: list[tuple[int, int, bytes]],
    registry: Registry,
    now_s: float,
) -> None:
    """Take in again what an earlier life of the master had stored: numbered events, and snapshots. Each snapshot has the
    number of the event before it and the number after it."""
    for seq, data in events:
        while snapshots and snapshots[0][0] < seq:
            _stored_snapshot(application, *snapshots.pop(0)[1:], now_s)
        _event(application, seq, data, registry, now_s, again=True)
    for snapshot in snapshots:
        _stored_snapshot(application, *snapshot[1:], now_s)
    application.stream.acknowledged = application.stream.taken


def _event(application: Application, seq: int, data: bytes, registry: Registry, now_s: float, *, again: bool = False) -> bool:
    """Fold one event in; return True for an event that changes more than how far a stage is."""
    stream = application.stream
    stream.taken = seq
    if stream.overflow:
        return False
    stream.stored_bytes += len(data)
    event: AnyEvent | None = None
    with guarded(application, "taking in an event of its driver") as problem:
        event = _decoder.decode(data)
        fold(application, event, registry, now_s, event.time_ms if again and isinstance(event, StageSubmitted) else None)
    stream.left_out += problem.error is not None
    if not isinstance(event, TaskEnd) or stream.stored_bytes > limits.EVENT_BYTES:
        _stop_if_too_much(application)
    return not isinstance(event, TaskEnd)


def fold(application: Application, event: AnyEvent, registry: Registry, now_s: float, at_ms: int | None = None) -> None:
    """Fold one event in, with all that follows from it. `at_ms` is the time when a stage's begin was reported, if that was
    not now."""
    goals.take_event(application, event, now_s, at_ms)
    _follow(application, event, registry, now_s)


def _follow(application: Application, event: AnyEvent, registry: Registry, now_s: float) -> None:
    """Do what follows from an event besides plans."""
    if application.ended:
        return
    if isinstance(event, ExecutorRemoved):
        executor = application.executors.get(event.executor)
        if executor and executor.live:
            executors.gone(application, executor, None, f"lost by the driver: {event.reason[:200]}", registry.changes, now_s)
            registry.save_executor(application, executor)
    if isinstance(event, ApplicationEnd):
        ended_s = min(application.since_submission(event.time_ms), application.elapsed_s(now_s))
        registry.end(application, now_s, ended_s=max(0.0, ended_s))


def _stored_snapshot(application: Application, next_seq: int, data: bytes, now_s: float) -> None:
    raw: tuple[msgspec.Raw, ...] = ()
    with guarded(application, "reading a stored snapshot of its driver"):
        raw = _snapshot_decoder.decode(data)
    _snapshot(application, raw, next_seq, now_s, again=True)


def _snapshot(
    application: Application, raw: Iterable[msgspec.Raw], next_seq: int, now_s: float, *, again: bool = False
) -> None:
    """Replace what was thought to be active by what is active now, after events were lost."""
    stream = application.stream
    stream.go_on_at(next_seq)
    if stream.overflow:
        return
    raw = tuple(raw)
    stream.stored_bytes += sum(len(bytes(one)) for one in raw)
    events = []
    for one in raw:
        with guarded(application, "taking in an event of its driver") as problem:
            events.append(_decoder.decode(one))
        stream.left_out += problem.error is not None
    with guarded(application, "taking in a snapshot of its driver"):
        application.replace_active(events)
        known = application.plan.goals.keys() | application.plan.awaiting_goals.keys()
        for event in events:
            if isinstance(event, StageSubmitted) and (key := (event.info.stage, event.info.attempt)) not in known:
                goals.await_goal(application, key, now_s, event.time_ms if again else None)
    _stop_if_too_much(application)

"""Deadlines of single jobs (`actions`), judged by their user's share before the events that have them are stored: an event of
a job that may not have its deadline is taken in, and stored, without it, so that a restart of the master does not judge it
again."""

from __future__ import annotations

import msgspec
from msgspec import structs

from controller.master.core.actions import DEADLINE, key_of
from controller.master.core.application import Application
from controller.master.core.guard import guarded
from controller.master.core.shares import UserShares
from controller.wire.driver import DriverSync, Sequenced
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput
from stage_model.history.events import JobStart

_decoder = msgspec.json.Decoder(JobStart)
_MARK, _ESCAPE = DEADLINE.encode(), b"\\u"
"""An event has a deadline only where it has the setting's name, or a character of it written as its number."""


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
            event = _decoder.decode(bytes(numbered.event))
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

"""Whether an application is admitted: settings that can be read, executors that fit somewhere, a deadline that can be met."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from controller.master.application import Application, ApplicationRecord
from controller.master.capacity import Capacity
from controller.master.executor_spec import executor_memory, executor_slots, executor_spec
from controller.master.feasibility import feasibility, find_profile, make_estimate
from controller.master.guard import Caught
from controller.messages import ExecutorWish, Registration, WorkerInfo
from controller.profile_store import ProfileStore
from controller.runtime.process_identity import PROC, boot_id
from master_memory.room import check_fits_somewhere
from placement.resources import SCALE, amount
from stage_model.errors import BadInput, Denied, Infeasible
from stage_model.profile import profile_key
from stage_model.promises import NOTHING_PROMISED, Promised

log = logging.getLogger("sparkpace.master")


def new_id() -> str:
    return f"pace-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"


def checked_id(given: str) -> str:
    """An id that a bridge says it has; it becomes part of paths and names. Raises `BadInput`."""
    if not re.fullmatch(r"pace-[0-9]{8}-[0-9]{6}-[0-9a-f]{6}", given):
        raise BadInput(f"application id {given[:60]!r} is not one of ours; accepted: the id given at registration")
    return given


HIGHEST_ID = 2**31 - 1
"""Of users, groups and processes."""


def check_usable(registration: Registration) -> None:
    """Raises `BadInput` for what no executor could be started with, whatever it is used for later. Values are not
    quoted: they may be secret."""
    for name in ("uid", "gid", "pid"):
        number = getattr(registration, name)
        if not 0 <= number <= HIGHEST_ID:
            raise BadInput(f"{name} {str(number)[:40]} is none that a system has; accepted: 0 to {HIGHEST_ID}")
    for where, text in _texts(msgspec.to_builtins(registration), ""):
        if "\0" in text:
            raise BadInput(f"{where[:200]!r} has a NUL character, which no command line carries; accepted: text without one")
    for name in registration.environment:
        if not name or "=" in name:
            raise BadInput(f"{name[:100]!r} is not the name of an environment variable; accepted: a name without '='")


def _texts(value: object, where: str) -> Iterator[tuple[str, str]]:
    """All texts in it with the names they are found under, names included."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield where, name
            yield from _texts(inner, f"{where}.{name}" if where else name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, where)


def check_owner(registration: Registration) -> None:
    """Executors run as the driver's user, so nobody may claim to be another one.

    A driver on this host is looked up; of one elsewhere only root is not believed. Raises `Denied`."""
    uid = registration.uid
    if registration.boot_id == boot_id():
        try:
            owner = (PROC / str(registration.pid)).stat().st_uid
        except FileNotFoundError:
            owner = None
        if owner != uid:
            raise Denied(f"uid {uid} is not that of process {registration.pid}, the driver; accepted: the driver's own uid")
    elif uid == 0:
        raise Denied("a driver on another host claims to be root; accepted: a user of its own")


def make_application(
    record: ApplicationRecord, started_s: float, profiles: ProfileStore, now_s: float, *, restored: bool = False
) -> Application:
    """The application of a record with what its profile lets expect. Raises `BadInput` for an unusable profile; one that is
    `restored` goes on without."""
    registration, options = record.registration, record.options
    with Caught() as problem:
        key, profile = find_profile(options.profile, registration.name, registration.main, profiles)
        estimate = make_estimate(profile, arguments=options.arguments) if profile else None
    lost = f"the profile {key!r} is gone" if not problem.error and restored and record.planned and not profile else ""
    if problem.error is not None:
        if not restored:
            raise problem.error
        key, profile, estimate = record.profile_key or profile_key(None, registration.name, registration.main), None, None
        lost = str(problem.error)
    if lost:
        log.error("%s goes on without its profile: %s", record.application_id, lost)
    record.profile_key, record.planned = key, profile is not None or record.planned
    application = Application(
        record=record,
        started_s=started_s,
        profile_key=key,
        profile_runs=len(profile.runs) if profile else 0,
        estimate=estimate,
        profile=profile,
        wanted=dict(registration.wanted),
        data=dict(registration.data),
        heard_s=now_s,
    )
    if application.estimate is None:
        application.notify(
            f"it goes on without its profile: {lost}"
            if lost
            else f"no profile {key!r} yet: this run takes what is free and teaches"
        )
    return application


def check_executors(application: Application) -> None:
    """Raises `BadInput` for executor settings that cannot be read."""
    registration = application.record.registration
    for profile_id, wish in (application.wanted or {"0": ExecutorWish()}).items():
        executor_spec(application.id, "0", registration, application.options, wish, profile_id, slots=1)


def check_fits(application: Application, profile_id: str, wish: ExecutorWish, workers: Sequence[WorkerInfo]) -> None:
    """Raises `BadInput` for executors that need more memory than any worker has, or pieces that none has. Labels may still be
    given to a worker, so who asks for one that nobody has waits."""
    registration = application.record.registration
    check_memory(registration.conf, wish, profile_id, workers, python=registration.python is not None)
    known = sorted({name for worker in workers for name in worker.resources})
    for name, units in application.options.placement.resources.items() if workers else ():
        most = max(worker.resources.get(name, 0) for worker in workers)
        if not most:
            raise BadInput(
                f"resource {name!r} is asked for and no worker has any (workers have: {', '.join(known) or 'none'}); "
                f"accepted: one of those, or a worker started with --resources {name}=N"
            )
        if units > most * SCALE:
            raise BadInput(
                f"{name}={amount(units)} is asked for and no worker has more than {most}; accepted: {most} or less"
            )


def check_memory(
    conf: dict[str, str], wish: ExecutorWish, profile_id: str, workers: Sequence[WorkerInfo], *, python: bool
) -> None:
    """Raises `BadInput` for an executor whose memory cannot be read or fits no worker."""
    for slots in {executor_slots(conf, wish, profile_id, worker.cores) for worker in workers} or {1}:
        least_mb = executor_memory(conf, wish, slots, python=python).least_mb
        check_fits_somewhere(least_mb, (worker.memory_mb for worker in workers))


def check_feasible(application: Application, most: Capacity, now_s: float, promised: Promised = NOTHING_PROMISED) -> None:
    """Raises `Infeasible` with the least deadline that could be met beside what is promised, unless the user forces it."""
    options = application.options
    if options.deadline_s is None or application.estimate is None or not most.cores:
        return  # nothing to promise, or no worker yet by which to judge: it waits for one
    spent_s = application.elapsed_s(now_s)
    reply = feasibility(
        application.estimate, options.deadline_s, most, spent_s=spent_s, priority=options.priority, promised=promised
    )
    if not reply.feasible and not options.force:
        raise Infeasible(reply.reason)

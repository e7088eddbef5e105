"""An application as it arrives: the errors of its registration by itself, its record, and the estimate from its profile,
which is looked up again at a restart of the master."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from pathlib import PurePosixPath

import msgspec

from controller.asks.job_options import job_options
from controller.asks.job_setting import PREFIX
from controller.master.core.application import Application
from controller.master.core.application_record import ID, ApplicationRecord, skip_unknown_ids
from controller.master.core.executor_spec import HADOOP_CREDENTIALS
from controller.master.core.lesson import LastUntaught, basis, no_profile
from controller.master.core.placement_state import PlacementState
from controller.wire.driver import Registration
from stage_model.errors import BadInput
from stage_model.forecast.estimate import ApplicationEstimate
from stage_model.history.profile import Profile, profile_key
from stage_model.units import is_time

HIGHEST_ID = 2**31 - 1
"""The highest id of users, groups and processes."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The arrival of a registration: the id that a new application gets, the hash of its token, and the time: seconds of the
    wall clock since the epoch, the same in the machine's zone, and monotonic seconds."""

    new_id: str
    token_hash: str
    epoch_s: float
    local: datetime
    now_s: float


def new_record(
    registration: Registration, arrival: Arrival, boot_id: str, default_law: str, *, observe: bool = False
) -> ApplicationRecord:
    """Return the record of an application that registers in the boot `boot_id` of the machine; `default_law` is that of
    applications that name no law, and with `observe` every application is only watched. Raise `BadInput` for settings that
    cannot be read."""
    # a bridge that outlived the master's memory keeps its id and the executors that agents show, with new numbers for new
    # ones; what runs already is not judged again
    outlived, age_s = registration.application_id is not None, registration.age_s
    options = job_options(
        registration.conf,
        submitted=arrival.local - timedelta(seconds=age_s),
        working_dir=PurePosixPath(registration.working_dir),
        default_law=default_law,
        attached=registration.attached,
    )
    asked, deadline_s = registration.conf.get(f"{PREFIX}deadline", ""), options.deadline_s
    if not outlived and deadline_s is not None and deadline_s <= age_s and is_time(asked):
        raise BadInput(f"{PREFIX}deadline {asked!r} has passed since the submission; give a later time")
    return ApplicationRecord(
        application_id=checked_id(registration.application_id) if registration.application_id else arrival.new_id,
        token_hash=arrival.token_hash,
        registration=registration,
        started_epoch_s=arrival.epoch_s - age_s,
        started_monotonic_s=arrival.now_s - age_s,
        boot_id=boot_id,
        next_executor=skip_unknown_ids(1) if outlived else 1,
        outlived=outlived,
        options=replace(options, observe=True) if observe else options,
    )


def checked_id(given: str) -> str:
    """Return an id that a bridge says it has; it becomes part of paths and names. Raise `BadInput` for an id that is not
    ours."""
    if not ID.fullmatch(given):
        raise BadInput(f"application id {given[:60]!r} is not an id that a master gives; give the id of the registration")
    return given


def check_usable(registration: Registration) -> None:
    """Raise `BadInput` for a registration with which no executor could be started, whatever it is used for later. Values are
    not quoted: they may be secret."""
    for name in ("uid", "gid", "pid"):
        number = getattr(registration, name)
        if not 0 <= number <= HIGHEST_ID:
            raise BadInput(f"{name} {str(number)[:40]} is out of range (0 to {HIGHEST_ID})")
    if registration.authenticated and not registration.credentials:
        raise BadInput("the driver authenticates its executors but sent no credentials for them; send both or neither")
    check_texts(msgspec.to_builtins(registration), registration.environment)


def check_texts(value: object, environment: Iterable[str]) -> None:
    """Raise `BadInput` for texts in a value that no command line carries, and for names that no variable can have."""
    for where, text in _texts(value, ""):
        if "\0" in text:
            raise BadInput(f"{where[:200]!r} has a NUL character, which no command line carries; remove it")
    for name in environment:
        if not name or "=" in name:
            raise BadInput(f"{name[:100]!r} is not the name of an environment variable; use a name without '='")


def _texts(value: object, where: str) -> Iterator[tuple[str, str]]:
    """Yield all texts in a value with the names they are found under, names included."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield where, name
            yield from _texts(inner, f"{where}.{name}" if where else name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, where)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The facts that the shell has looked up for an application: the key of its profile, the profile and the estimate that
    follows (None without one), or the `error` by which it cannot be used. `zone`: the machine's, for times of day;
    `profiles`: the keys of all profiles, for a hint to a job without one."""

    key: str
    profile: Profile | None
    estimate: ApplicationEstimate | None
    zone: tzinfo
    error: Exception | None = None
    profiles: Sequence[str] = ()


def make_application(
    record: ApplicationRecord,
    found: LookedUp,
    untaught: LastUntaught,
    started_s: float,
    now_s: float,
    *,
    restored: bool = False,
) -> Application:
    """Return the application of a record with the estimate from its profile. Raise the error of an unusable profile; a
    `restored` application goes on without it."""
    registration, error = record.registration, found.error
    key, profile, what = found.key, found.profile, found.estimate
    lost = f"the profile {key!r} is gone" if not error and restored and record.planned and not profile else ""
    if error is not None:
        if not restored:
            raise error
        key = record.profile_key or profile_key(None, registration.name, registration.main)
        lost = str(error)
    record.profile_key, record.planned = key, profile is not None or record.planned
    application = Application(
        record=record,
        started_s=started_s,
        profile_key=key,
        profile_runs=len(profile.runs) if profile else 0,
        estimate=what,
        profile=profile,
        placement=PlacementState({} if registration.attached else dict(registration.wanted), data=registration.data),
        heard_s=now_s,
        counted_s=now_s,
        zone=found.zone,
    )
    if lost:
        without = f"it goes on without its profile: {lost}"
        application.unlogged.append((without, None))
        application.notify(without)
    elif what is None:
        application.notify(no_profile(key, untaught, found.profiles))
    elif what.grounds.other_arguments:
        application.notify(basis(what.grounds).sentence)
    if registration.authenticated and HADOOP_CREDENTIALS in registration.environment and not restored:
        application.notify(
            f"spark.executorEnv.{HADOOP_CREDENTIALS} is not used: executors need that file for Spark's authentication; "
            "give them other tokens another way, or set spark.authenticate=false"
        )
    return application

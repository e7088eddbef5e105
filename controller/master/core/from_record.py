"""An application from its record, with what its profile lets expect: at its registration, and at a restart of the master."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from controller.master.core.application import Application
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.executor_spec import HADOOP_CREDENTIALS
from controller.master.core.lesson import LastUntaught, basis, no_profile
from controller.master.core.placement_state import PlacementState
from stage_model.forecast.estimate import ApplicationEstimate
from stage_model.history.profile import Profile, profile_key


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
    """Return the application of a record with what its profile lets expect. Raise the error of an unusable profile; a
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

"""An application from its record, with what its profile lets expect: at its registration, and at a restart of the master."""

from __future__ import annotations

from controller.master.core.application import Application, ApplicationRecord
from controller.master.core.basis import basis
from controller.master.core.executor_spec import HADOOP_CREDENTIALS
from controller.master.core.feasibility import find_profile
from controller.master.core.guard import Caught
from controller.master.core.lesson import LastUntaught, no_profile
from controller.runs.profile_store import ProfileStore
from stage_model.forecast.estimate import estimate
from stage_model.history.profile import profile_key


def make_application(
    record: ApplicationRecord,
    started_s: float,
    profiles: ProfileStore,
    untaught: LastUntaught,
    now_s: float,
    *,
    restored: bool = False,
) -> Application:
    """Return the application of a record with what its profile lets expect. Raise `BadInput` for an unusable profile; a
    `restored` application goes on without it."""
    registration, options = record.registration, record.options
    with Caught() as problem:
        key, profile = find_profile(options.profile, registration.name, registration.main, profiles)
        what = estimate(profile, arguments=options.arguments) if profile else None
    lost = f"the profile {key!r} is gone" if not problem.error and restored and record.planned and not profile else ""
    if problem.error is not None:
        if not restored:
            raise problem.error
        key, profile, what = record.profile_key or profile_key(None, registration.name, registration.main), None, None
        lost = str(problem.error)
    record.profile_key, record.planned = key, profile is not None or record.planned
    application = Application(
        record=record,
        started_s=started_s,
        profile_key=key,
        profile_runs=len(profile.runs) if profile else 0,
        estimate=what,
        profile=profile,
        wanted={} if registration.attached else dict(registration.wanted),
        data=dict(registration.data),
        heard_s=now_s,
        counted_s=now_s,
    )
    if lost:
        without = f"it goes on without its profile: {lost}"
        application.unlogged.append((without, problem.error))
        application.notify(without)
    elif what is None:
        application.notify(no_profile(key, untaught, profiles.list()))
    elif what.grounds.other_arguments:
        application.notify(basis(what.grounds).sentence)
    if registration.authenticated and HADOOP_CREDENTIALS in registration.environment and not restored:
        application.notify(
            f"spark.executorEnv.{HADOOP_CREDENTIALS} is not used: executors need that file for Spark's authentication; "
            "give them other tokens another way, or set spark.authenticate=false"
        )
    return application

"""The profile from which a run to come is planned, as the master reads it from files, off its loop."""

from __future__ import annotations

import os
from pathlib import Path

from controller.machine.files import local_path, read_plain
from controller.machine.local_zone import local_zone
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.arrival import LookedUp
from controller.master.core.guard import Caught
from controller.runs.profile_store import FILE, LARGEST_BYTES, ProfileStore
from controller.wire.command import PlanRequest
from stage_model.errors import BadInput
from stage_model.forecast.estimate import estimate
from stage_model.history.profile import Profile, parse_profile, profile_key


def look_up(record: ApplicationRecord, store: ProfileStore) -> LookedUp:
    """Return what an application of this record is made with."""
    registration, options, zone = record.registration, record.options, local_zone(os.environ)
    with Caught() as problem:
        key, profile = find_profile(options.profile, registration.name, registration.main, store)
        what = estimate(profile, arguments=options.arguments) if profile else None
    if problem.error is not None:
        return LookedUp("", None, None, zone, problem.error)
    return LookedUp(key, profile, what, zone, None, () if what else store.list())


def find_profile(asked: str | None, name: str, main: str | None, store: ProfileStore) -> tuple[str, Profile | None]:
    """Return the profile's key, and the profile if there is one. `asked` is a name or a file. Raise `BadInput` for an
    unusable file."""
    if asked and "/" in asked:
        data = read_plain(Path(local_path(asked)), what=FILE, largest=LARGEST_BYTES, follow=True)
        if data is None:
            raise BadInput(f"profile file {asked!r} does not exist; name an existing one")
        profile = parse_profile(data)
        return profile.key, profile
    key = profile_key(asked, name, main)
    return key, store.load(key)


def profile_of(request: PlanRequest, store: ProfileStore) -> Profile | None:
    """Return the profile that a plan is asked for: the one it brings with it, or one of the store. Raise `BadInput` for an
    unusable one."""
    if request.profile_json is not None:
        return parse_profile(request.profile_json.encode())
    return store.load(request.profile) if request.profile else None

"""Choice of a submission's profile: the name or file given by `--profile`, else the stored one of the same main file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from controller.machine.files import local_path, why_unreadable
from controller.runs.profile_store import ProfileStore
from stage_model.errors import BadInput
from stage_model.history.profile import main_in, parse_profile, profile_key


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """A choice: a stored profile's `name`, or a file's path and text; nothing given: neither."""

    name: str | None = None
    file: Path | None = None
    text: str | None = None

    @property
    def given(self) -> bool:
        return self.file is not None or self.name is not None


def read_profile(given: str | None, working_dir: Path, main: str | None = None) -> ProfileChoice:
    """Return the profile that `given` names. It is a file if it holds a slash, ends in .json, exists, or is a URL file:/PATH.

    Raises `BadInput`, also for the profile file of another job than `main` (None: any).
    """
    if given is None:
        return ProfileChoice()
    path = Path(os.path.normpath(working_dir / local_path(given)))
    if "/" not in given and not given.endswith(".json") and not path.is_file():
        return ProfileChoice(name=profile_key(given, "", None))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = why_unreadable(error)
        raise BadInput(f"--profile {given} cannot be read ({why}); give a profile's name or its file") from error
    parse_profile(text, expected_main=main, source=f"--profile {given}")
    return ProfileChoice(file=path, text=text)


def stored_profile(store: ProfileStore, main: str, name: str | None) -> ProfileChoice:
    """Return the profile that the master will use by itself: that of the application's name and main file.

    The name is often known only to the application's code; then only the main file identifies the profile, and of several
    profiles none is taken: the master checks again once the application has given its name.
    """
    if name is not None:
        return ProfileChoice(name=profile_key(None, name, main))
    wanted = main_in(profile_key(None, "", main))
    found = [key for key in store.list() if main_in(key) == wanted]
    return ProfileChoice(name=found[0]) if len(found) == 1 else ProfileChoice()

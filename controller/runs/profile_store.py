"""Store of profiles as files, one `<key>.json` (0600) each, in one directory.

Writers (runs that end at the same time, the command line) take a lock and replace files whole. A damaged file is never
overwritten: it is reported. Not covered: what is in a profile (`stage_model.history.profile`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import structs

from controller.machine.files import locked, read_plain, write_whole
from stage_model.errors import BadInput
from stage_model.history.profile import Profile, RunRecord, merge, parse_profile, profile, profile_json, profile_key
from stage_model.nearest import nearest_names

LOCKED_S = 10.0
"""Longest wait for another process that writes profiles; it takes milliseconds."""
FILE = "profile file"
LARGEST_BYTES = 64 * 1024 * 1024
_SUFFIX = ".json"


class ProfileStore:
    """The profiles in `folder`, which need not exist before the first is learned. Keys are made fit for files first
    (`profile_key`), so no key leads out of the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def list(self) -> tuple[str, ...]:
        if not self.folder.is_dir():
            return ()
        names = (path.name for path in self.folder.iterdir() if not path.name.startswith("."))
        return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))

    def nearest(self, key: str) -> str:
        """Return a clause with the keys that are most like an unknown one (`nearest_names`)."""
        return nearest_names(key, self.list())

    def path(self, key: str) -> Path:
        """Return the file of a key. Raise `BadInput` for an empty one."""
        return self.folder / (profile_key(key, "", None) + _SUFFIX)

    def load(self, key: str) -> Profile | None:
        """Return a profile, None without one. Raise `BadInput` that names the file if it is damaged."""
        path = self.path(key)
        content = read_plain(path, what=FILE, largest=LARGEST_BYTES, follow=False)
        if content is None:
            return None
        return parse_profile(content, expected_key=profile_key(key, "", None), source=f"profile file {path}")

    def learn(self, key: str, run: RunRecord, *, newest: bool = False) -> Profile:
        """Add a run and return the new profile. `newest`: the run has just ended, so it comes after all known runs, whatever
        the wall clock showed at their starts. Raise `BadInput` for a run that is not complete or has impossible numbers, or a
        damaged file."""
        if not run.complete:
            raise BadInput(f"run {run.id!r} did not end well, so it teaches nothing; give a complete run")
        with self._locked():
            if newest and (known := self.load(key)) is not None:
                last_ms = max((other.when_ms for other in known.runs if other.id != run.id), default=run.when_ms - 1)
                run = structs.replace(run, when_ms=max(run.when_ms, last_ms + 1))
            return self._add(profile(profile_key(key, "", None), (run,)))

    def add(self, taught: Profile) -> Profile:
        """Merge a profile (of a file, of another cluster) into the one of its key and return the result."""
        with self._locked():
            return self._add(taught)

    def _add(self, taught: Profile) -> Profile:
        known = self.load(taught.key)
        merged = taught if known is None else merge(known, taught)
        content = profile_json(merged)
        parse_profile(content, source=f"what profile {taught.key!r} would be")  # a refused profile could not be read again
        write_whole(self.path(taught.key), content)
        return merged

    def forget(self, key: str) -> bool:
        """Remove a profile, also a damaged one; return False without a profile."""
        with self._locked():
            try:
                self.path(key).unlink()
            except FileNotFoundError:
                return False
        return True

    def _locked(self) -> AbstractContextManager[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return locked(self.folder / ".lock", LOCKED_S)

"""The data that the master keeps in its home: the store, run folders, profiles, and its identity."""

from __future__ import annotations

from dataclasses import dataclass

from controller.home import Home
from controller.master.storage.identity import Identity, begin_life
from controller.master.storage.recorder import Recorder
from controller.master.storage.store import Store
from controller.runs.profile_store import ProfileStore


@dataclass(frozen=True, slots=True)
class Kept:
    """The kept data; `identity` is that of the life that begins with `of`."""

    store: Store
    recorder: Recorder
    profiles: ProfileStore
    identity: Identity

    @staticmethod
    def of(home: Home, keep_runs: int) -> Kept:
        """Open the kept data for a master that starts now; `keep_runs` finished runs are kept."""
        store = Store(home.database)
        recorder, profiles = Recorder(home.runs, keep_runs), ProfileStore(home.profiles)
        return Kept(store, recorder, profiles, begin_life(home.identity_file, store))

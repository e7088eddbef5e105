"""The data that the master keeps in its home: the store, run folders, profiles, and its identity.

The identity is the cluster's id and the number of this life of its master, kept next to the tokens and in the store. Agents
and containers carry the id and obey no other, nor an older life: so both must outlive a lost database.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from pathlib import Path

import msgspec

from controller.home import Home
from controller.machine.files import write_whole
from controller.machine.proc import boot_id, pid_namespace
from controller.master.core.registry import MasterLife
from controller.master.storage.recorder import Recorder
from controller.master.storage.store import Store
from controller.runs.profile_store import ProfileStore
from stage_model.decoding import UNREADABLE

log = logging.getLogger("sparkpace.master")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a master; `generation` grows with every start of the cluster's master."""

    cluster_id: str
    generation: int


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

    def life(self, now_s: float) -> MasterLife:
        """Return the life as the core knows it, which begins at `now_s` (monotonic) on this machine."""
        return MasterLife(self.identity.cluster_id, self.identity.generation, boot_id(), pid_namespace(), now_s)


def begin_life(path: Path, store: Store) -> Identity:
    """Return the identity of the master that starts now, one generation on. A file or a store that is lost is made again from
    the other; only without both is the cluster a new one."""
    known = [one for one in (_of_store(store), _of_file(path)) if one is not None]
    cluster_id = known[0].cluster_id if known else uuid.uuid4().hex[:8]
    now = Identity(cluster_id=cluster_id, generation=1 + max((one.generation for one in known), default=0))

    def put() -> None:
        store.set_meta("cluster_id", now.cluster_id)
        store.set_meta("generation", str(now.generation))

    store.later("identity", put)
    store.catch_up()
    try:
        write_whole(path, msgspec.json.encode(now) + b"\n")
    except OSError as error:
        log.error("%s cannot be written (%s), so a lost master.db could not be made up for", path, error)
    return now


def _of_store(store: Store) -> Identity | None:
    cluster_id, counted = store.meta("cluster_id"), store.meta("generation") or ""
    generation = int(counted) if counted.isdecimal() and len(counted) < 19 else 0
    return Identity(cluster_id=cluster_id, generation=generation) if cluster_id else None


def _of_file(path: Path) -> Identity | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Identity)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE) as error:
        log.error("%s cannot be read (%s), so it is made again from master.db", path, error)
        return None

"""An agent's runtime, and the guard around it: nothing is written for an executor of an application that is only watched.

Such an executor keeps the quota and the memory limit that it starts with, or with which its cluster manager started it.
Neither the loop nor the opening of quotas at a stop writes another quota or limit through this runtime. The launcher's record
of an executor says whether it is watched; the record is there before the executor starts or is taken over. Not covered:
memory orders (`resizing`), and taking over an executor without writing, which is the runtime's own part (`Adoption.watched`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from controller.agent.executors.launcher import record_file
from controller.asks.options import AgentOptions
from controller.home import Home
from controller.runtime.base import Adopter, ExecutorKey, Observed, Runtime, Starter, TrafficPlace
from controller.runtime.docker import packet_filter
from controller.runtime.networks import parse_pool
from controller.runtime.table import RUNTIMES, Owner
from stage_model.decoding import UNREADABLE


class _Kept(msgspec.Struct):
    """The part of a kept spec that counts here."""

    watched: bool = False


class Watching(Runtime):
    """The runtime `inner`, by which nothing of watched executors changes; `record_dir` has the launcher's records."""

    def __init__(self, inner: Starter | Adopter, record_dir: Path) -> None:
        self.inner, self._record_dir = inner, record_dir
        self._known: dict[ExecutorKey, bool] = {}

    def is_watched(self, key: ExecutorKey) -> bool:
        """Return True if the executor's record says that it is only watched. Without a record it is not."""
        if key not in self._known:
            try:
                kept = msgspec.json.decode(record_file(self._record_dir, key).read_bytes(), type=_Kept)
            except (OSError, *UNREADABLE):
                return False
            self._known[key] = kept.watched
        return self._known[key]

    # ---------------------------------------------------------------- what is never written

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        return self.is_watched(key) or self.inner.set_quota(key, cores)

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:
        return self.is_watched(key) or self.inner.set_memory_limit(key, memory_bytes)

    def observe(self) -> dict[ExecutorKey, Observed]:
        found = self.inner.observe()
        return found | {key: replace(seen, watched=True) for key, seen in found.items() if self.is_watched(key)}

    # ---------------------------------------------------------------- the runtime's own

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:
        self.inner.stop(key, grace_s)

    def remove(self, key: ExecutorKey) -> None:
        self.inner.remove(key)
        self._known.pop(key, None)

    def place(self, key: ExecutorKey) -> TrafficPlace | None:
        place = self.inner.place(key)
        return None if place is None else replace(place, watched=self.is_watched(key))

    def held_back(self) -> dict[ExecutorKey, str]:
        return self.inner.held_back()

    def alive(self) -> bool:
        return self.inner.alive()

    def close(self) -> None:
        self.inner.close()


def make_runtime(options: AgentOptions, cluster_id: str) -> Watching:
    """Make the runtime that `options` name, guarded. Raise `Unavailable` when it cannot work here and never has."""
    row, folder = RUNTIMES[options.runtime], Home(options.home).agent(options.worker_id)
    owner = Owner(
        cluster_id,
        options.worker_id,
        folder,
        image=options.image,
        pool=parse_pool(options.network_pool) if row.own_networks(options.network) else None,
        tmp_mb=options.tmp_mb,
        signals=options.signals,
        namespace=options.namespace,
    )
    return Watching(row.load().make(owner), folder)


def end_executors(options: AgentOptions, cluster_id: str) -> None:
    """End and remove the executors that outlived their agent. Raise `PaceError` for executors that cannot be removed."""
    owner = Owner(cluster_id, options.worker_id, Home(options.home).agent(options.worker_id))
    RUNTIMES[options.runtime].load().end_all(owner)


def why_unguarded(options: AgentOptions) -> str:
    """Return a sentence on why no packet rules guard the networks of applications here; empty where rules do, or where
    applications have no networks."""
    if not RUNTIMES[options.runtime].own_networks(options.network):
        return ""
    reason = packet_filter.why_not()
    return f"{reason}, {packet_filter.BEYOND}" if reason else ""

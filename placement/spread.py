"""One executor per application and worker, on the workers with the most room: the default placement.

Memory decides whether an executor fits; CPU never makes one wait, as quotas are squeezed instead. Memory is MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """A worker as placement sees it. `free_memory_mb`: the largest container that an executor of this application could have
    there, 0 for none; `taken`: it has an executor of it already."""

    worker_id: str
    cores: float
    memory_mb: int
    free_memory_mb: int
    taken: bool


def choose(rooms: Sequence[Room], count: int, memory_mb: int) -> list[str]:
    """Up to `count` workers for executors of `memory_mb` each, those with the most free memory first, then the most cores."""
    fitting = [room for room in rooms if not room.taken and room.free_memory_mb >= memory_mb]
    fitting.sort(key=lambda room: (-room.free_memory_mb, -room.cores, room.worker_id))
    return [room.worker_id for room in fitting[:count]]

"""Workers and requests for tests of placement: only what a test is about is said."""

from __future__ import annotations

from collections.abc import Iterable

from placement.places import Occupant, Place, Request
from placement.scores import Largest, Weights

ALIKE = Largest()
CPU_ONLY = Weights()


def place(name: str, cores: float = 1.0, memory_mb: int = 1000, **more: object) -> Place:
    return Place(name, cores=cores, memory_mb=memory_mb, **more)  # type: ignore[arg-type]


def request(priority: int = 50, memory_mb: int = 100, **more: object) -> Request:
    """Of an application `new` that needs so much memory, wherever it goes."""
    return Request(
        **{  # type: ignore[arg-type]
            "application_id": "new",
            "priority": priority,
            "cores": 1.0,
            "least_mb": memory_mb,
            "memory_now": lambda place: place.free_mb >= memory_mb,
            "memory_ever": lambda place: place.memory_mb >= memory_mb,
            **more,
        }
    )


def occupied(one: Place, *cores: float, priority: int = 50, least_mb: int = 100, **more: object) -> Place:
    """That worker with an executor of an application of its own for each of these planned peaks."""
    for number, peak in enumerate(cores, len(one.occupants) + 1):
        key = f"{one.worker_id}-app{number}/1"
        application = f"{one.worker_id}-app{number}"
        one.add(Occupant(key, application, priority, peak, least_mb, **more))  # type: ignore[arg-type]
    return one


def draws(*numbers: float) -> object:
    """Uniform numbers that a test has chosen."""
    left = iter(numbers)
    return lambda: next(left)


def names(places: Iterable[Place]) -> list[str]:
    return [one.worker_id for one in places]

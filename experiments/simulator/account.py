"""The resources of one worker: total, available, and the load that is promised (document 001; docs/design.md).

`available` is the part that nothing running holds; `load` is the part of it that is promised to placed executors that have
not started. The product keeps no such account: it sums up again the resources that executors hold (`placement.worker`).
Amounts are units of 1/10000.
"""

from __future__ import annotations

from placement.resources import NOTHING, ResourceSet


def minus(one: ResourceSet, other: ResourceSet) -> ResourceSet:
    """Return the difference. Raise `ValueError` where `other` has more."""
    return ResourceSet({name: one[name] - other[name] for name in (*one, *other)})


def less(one: ResourceSet, other: ResourceSet) -> ResourceSet:
    """Return the difference, but never below 0."""
    return ResourceSet({name: max(0, count - other[name]) for name, count in one.items()})


class WorkerAccount:
    """A worker's resources. Nothing is counted twice or lost: total + backlog = used + available."""

    def __init__(self, total: ResourceSet) -> None:
        self.total, self.used, self.load = total, NOTHING, NOTHING

    @property
    def available(self) -> ResourceSet:
        return less(self.total, self.used)

    @property
    def free(self) -> ResourceSet:
        """Resources that are available and not promised."""
        return less(self.available, self.load)

    @property
    def backlog(self) -> ResourceSet:
        """Resources in use that the worker no longer has; they go when they are released."""
        return less(self.used, self.total)

    def fits(self, asked: ResourceSet) -> bool:
        """Check that an executor with these resources could start now."""
        return asked.within(self.free)

    def could(self, asked: ResourceSet) -> bool:
        """Check that it could start on the worker by itself."""
        return asked.within(self.total)

    def book(self, asked: ResourceSet) -> bool:
        """Promise the resources; return False, with nothing done, where they do not fit."""
        if not self.fits(asked):
            return False
        self.load += asked
        return True

    def unbook(self, asked: ResourceSet) -> None:
        """Take a promise back. Raise `ValueError` for more than was promised."""
        self.load = minus(self.load, asked)

    def start(self, asked: ResourceSet) -> None:
        """Turn a promise into use. Raise `ValueError` for more than was promised."""
        self.load = minus(self.load, asked)
        self.used += asked

    def release(self, asked: ResourceSet) -> None:
        """Free resources that were in use, except those that the worker no longer has. Raise `ValueError` for more than was
        used."""
        self.used = minus(self.used, asked)

    def resize(self, total: ResourceSet) -> None:
        """Change the worker's total. The caller finds promises that it can no longer keep (`overbooked`)."""
        self.total = total

    @property
    def overbooked(self) -> ResourceSet:
        """Resources promised beyond those available, after the worker became smaller."""
        return less(self.load, self.available)

"""What one worker has of its resources: total, available, and the load that is promised (document 001; docs/design.md).

`available` is what nothing that runs holds; `load` is the part of it that is promised to what was placed and has not started.
The product keeps no such books: it sums anew what executors hold (`placement.worker`). Amounts are units of 1/10000.
"""

from __future__ import annotations

from placement.resources import NOTHING, ResourceSet


class WorkerAccount:
    """A worker's resources. Nothing is counted twice or lost: total + backlog = used + available."""

    def __init__(self, total: ResourceSet) -> None:
        self.total, self.used, self.load = total, NOTHING, NOTHING

    @property
    def available(self) -> ResourceSet:
        return self.total.less(self.used)

    @property
    def free(self) -> ResourceSet:
        """Available and not promised."""
        return self.available.less(self.load)

    @property
    def backlog(self) -> ResourceSet:
        """In use although the worker has it no more; it goes when it is released."""
        return self.used.less(self.total)

    def fits(self, asked: ResourceSet) -> bool:
        """Whether it could start now."""
        return asked.within(self.free)

    def could(self, asked: ResourceSet) -> bool:
        """Whether it could start if nobody else were here."""
        return asked.within(self.total)

    def book(self, asked: ResourceSet) -> bool:
        """Promises it; False and nothing done where it does not fit."""
        if not self.fits(asked):
            return False
        self.load += asked
        return True

    def unbook(self, asked: ResourceSet) -> None:
        """Takes a promise back. Raises `ValueError` for more than was promised."""
        self.load -= asked

    def start(self, asked: ResourceSet) -> None:
        """What was promised is in use now. Raises `ValueError` for more than was promised."""
        self.load -= asked
        self.used += asked

    def release(self, asked: ResourceSet) -> None:
        """What was in use is free again, but for what the worker has no more. Raises `ValueError` for more than was used."""
        self.used -= asked

    def resize(self, total: ResourceSet) -> None:
        """The worker has so much from now on. Promises that it cannot keep any more are the caller's to find
        (`overbooked`)."""
        self.total = total

    @property
    def overbooked(self) -> ResourceSet:
        """Promised beyond what is available, after the worker became smaller."""
        return self.load.less(self.available)

"""Samples and log lines that an agent keeps for its master until the master has them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence

from msgspec import structs

from controller.wire.worker import Sample

log = logging.getLogger("sparkpace.agent")

SAMPLES_KEPT = 100_000
"""Samples kept while the master is away; older ones are dropped (a day of one executor)."""
NOTES_KEPT = 100
SAMPLES_SENT = 2000
"""Most samples in one report."""


class Outbox:
    """The outbox. `first` is the number of the oldest sample kept. Notes may come from any thread, all else from the
    agent's."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.first = 0
        self._notes: list[str] = []
        self._notes_lock = threading.Lock()

    def keep(self, samples: Sequence[Sample]) -> None:
        """Keep the samples, rounded as they travel and are stored."""
        self.samples += [_rounded(sample) for sample in samples]
        if len(self.samples) > SAMPLES_KEPT:
            dropped = len(self.samples) - SAMPLES_KEPT
            self.samples, self.first = self.samples[dropped:], self.first + dropped
            self.note(f"dropped the {dropped} oldest samples: the master has been away for long")

    def note(self, text: str) -> None:
        """Note a line for the master; may be called on any thread."""
        log.warning("%s", text)
        with self._notes_lock:
            if text not in self._notes:
                self._notes.append(text)
            del self._notes[:-NOTES_KEPT]

    def notes(self) -> tuple[str, ...]:
        with self._notes_lock:
            return tuple(self._notes)

    def next_samples(self) -> tuple[Sample, ...]:
        return tuple(self.samples[:SAMPLES_SENT])

    def acknowledge(self, number: int, notes: Collection[str]) -> None:
        """Drop the samples below `number` and these notes: the master has them."""
        number = min(number, self.first + len(self.samples))
        self.samples = self.samples[max(0, number - self.first) :]
        self.first = max(self.first, number)
        with self._notes_lock:
            self._notes = [note for note in self._notes if note not in notes]


def _rounded(sample: Sample) -> Sample:
    return structs.replace(
        sample,
        time_s=round(sample.time_s, 3),
        demand=round(sample.demand, 4),
        usage=None if sample.usage is None else round(sample.usage, 4),
        cpu_core_s=round(sample.cpu_core_s, 4),
    )

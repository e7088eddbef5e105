"""Reports to the master: on each executor, and the samples and log lines that are kept until the master has them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from msgspec import structs

from controller.agent.core.step import ExecutorHistory
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport, Sample
from master_memory.resize import Container

log = logging.getLogger("sparkpace.agent")

SAMPLES_KEPT = 100_000
"""Samples kept while the master is away; older ones are dropped (a day of one executor)."""
NOTES_KEPT = 100
SAMPLES_SENT = 2000
"""Most samples in one report."""
REPEATED_S = 60.0
"""Time for which a stage's counters are reported after it ran, or after the master last answered: a report may be lost."""


class Standing(NamedTuple):
    """State of an executor and the reason, as in `ExecutorReport`."""

    state: ExecutorState
    reason: str = ""
    exit_code: int | None = None
    made_room: bool = False


class Outbox:
    """The news for the master: samples and notes until it has them, troubles once each, and the report on each executor.
    `first` is the number of the oldest sample kept. Notes may come from any thread, all other news only from the agent's
    thread."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.first = 0
        self._notes: list[str] = []
        self._notes_lock = threading.Lock()
        self._troubles: dict[ExecutorKey, str] = {}
        self._answered_s = 0.0

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

    @contextmanager
    def trouble_of(self, key: ExecutorKey) -> Iterator[None]:
        """Run the block so that an unforeseen error in it concerns only this executor."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - it is noted
            self.note_trouble(key, error)

    def note_trouble(self, key: ExecutorKey, error: Exception) -> None:
        """Note an unforeseen error with one executor, once as long as it stays the same."""
        said = f"{type(error).__name__}: {error}"
        if self._troubles.get(key) != said:
            self._troubles[key] = said
            log.error("executor %s", key.text, exc_info=error)
            self.note(f"executor {key.executor_id} of {key.application_id} cannot be handled as usual: {said[:300]}")

    def forget(self, key: ExecutorKey) -> None:
        """Forget an executor that is over, which the master knows."""
        self._troubles.pop(key, None)

    def notes(self) -> tuple[str, ...]:
        with self._notes_lock:
            return tuple(self._notes)

    def next_samples(self) -> tuple[Sample, ...]:
        return tuple(self.samples[:SAMPLES_SENT])

    def acknowledge(self, number: int, notes: Collection[str], at_s: float) -> None:
        """Drop the samples below `number` and these notes: the master had them at `at_s` (monotonic)."""
        number = min(number, self.first + len(self.samples))
        self.samples = self.samples[max(0, number - self.first) :]
        self.first = max(self.first, number)
        self._answered_s = at_s
        with self._notes_lock:
            self._notes = [note for note in self._notes if note not in notes]

    def report_on(
        self,
        key: ExecutorKey,
        standing: Standing,
        seen: Observed | None,
        history: ExecutorHistory | None,
        container: Container | None,
        log_dir: str,
    ) -> ExecutorReport:
        """Return the report on one executor. `container`: its memory, as found in this period."""
        decision = history.decision if history else None
        running = container if container and container.running else None
        answer = running.answer if running else None
        return ExecutorReport(
            application_id=key.application_id,
            executor_id=key.executor_id,
            state=standing.state,
            exit_code=standing.exit_code,
            reason=standing.reason,
            quota_cores=(seen.quota_cores or 0.0) if seen else 0.0,
            demand_cores=decision.demand if decision else 0.0,
            cpu_core_s=seen.cpu_s if seen else 0.0,
            throttled_s=seen.throttled_s if seen else None,
            memory_bytes=seen.memory_bytes if seen else 0,
            memory_limit_mb=running.claim_mb if running else 0,
            off_heap_mb=answer.budget_mb if answer else None,
            off_heap_execution_mb=answer.execution_mb if answer else 0,
            off_heap_storage_mb=answer.storage_mb if answer else 0,
            log_dir=log_dir,
            stages=tuple(history.account.uses(self._answered_s - REPEATED_S)) if history else (),
            risk=seen.risk if seen else "",
            made_room=standing.made_room,
        )


def _rounded(sample: Sample) -> Sample:
    return structs.replace(
        sample,
        time_s=round(sample.time_s, 3),
        demand=round(sample.demand, 4),
        usage=None if sample.usage is None else round(sample.usage, 4),
        cpu_core_s=round(sample.cpu_core_s, 4),
    )

"""All attempts of a stage, taken together: what the stage took in its run.

Spark tries a stage again, as a whole or in part, when output that it needs was lost. The first attempt by itself may lack
tasks, and later ones may do tasks again that had ended; both were work of the run. Pure. Not covered: what follows for a
profile (`run_record`), how attempts are read from events (`run`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from stage_model.history.amounts import Amounts
from stage_model.history.profile import StageWaits
from stage_model.history.run import Run
from stage_model.history.stage_run import StageKey, StageRun


class AllAttempts:
    """`attempts` are all of one stage, in order of submission; at least one. Times are milliseconds.

    `ended` is the number of tasks that ended well, those that were done again included; `tasks` also counts the tasks whose
    ends are not known. `short`: ends of tasks are missing, because events were lost; then sums are scaled by `tasks` /
    `ended`. A stage that failed for good did no more than its tasks that ended.
    """

    def __init__(self, attempts: Sequence[StageRun]) -> None:
        self.attempts = tuple(attempts)
        self.first, self.last = attempts[0], attempts[-1]
        self.ended = sum(attempt.ended for attempt in attempts)
        self.tasks = max(self.ended, *(attempt.info.tasks for attempt in attempts))
        self.short = self.last.failure is None and self.ended < self.tasks
        self._scale = self.tasks / self.ended if self.short and self.ended else 1.0

    @property
    def retried(self) -> bool:
        return len(self.attempts) > 1

    @property
    def teaches(self) -> bool:
        return not self.retried and self.first.teaches

    @cached_property
    def amounts(self) -> Amounts:
        sums = [sum(counts) for counts in zip(*(attempt.amounts for attempt in self.attempts), strict=True)]
        return Amounts(*(sums if self._scale == 1 else [round(self._scale * count) for count in sums]))

    @property
    def waits(self) -> StageWaits | None:
        """The waiting of the tasks by Spark's own metrics; None if the metrics of one attempt are not known."""
        known = [attempt.waits for attempt in self.attempts if attempt.waits is not None]
        if len(known) < len(self.attempts):
            return None
        return StageWaits(
            fetch_s=self._scale * sum(waits.fetch_ms for waits in known) / 1e3,
            remote_bytes=round(self._scale * sum(waits.remote_bytes for waits in known)),
            write_s=self._scale * sum(waits.write_ns for waits in known) / 1e9,
            memory_spilled_bytes=round(self._scale * sum(waits.memory_spilled_bytes for waits in known)),
            disk_spilled_bytes=round(self._scale * sum(waits.disk_spilled_bytes for waits in known)),
        )

    @cached_property
    def run_s(self) -> float:
        return self._scale * sum(attempt.run_ms for attempt in self.attempts) / 1e3

    @property
    def mean_ms(self) -> float:
        """Mean run time of a task."""
        return sum(attempt.run_ms for attempt in self.attempts) / self.ended if self.ended else 0.0

    @property
    def variance_ms2(self) -> float:
        """Variance of the run times of tasks."""
        squares = sum(attempt.run_ms_squares for attempt in self.attempts)
        return max(0.0, squares / self.ended - self.mean_ms**2) if self.ended else 0.0

    @property
    def longest_ms(self) -> int:
        return max(attempt.longest_run_ms for attempt in self.attempts)

    @property
    def lasted_ms(self) -> int:
        """The time of all attempts, with the time before a later attempt in which nothing was under way."""
        first, *later = self.attempts
        more = (
            attempt.last_ms - (attempt.submitted_ms if attempt.ready_ms is None else attempt.ready_ms) for attempt in later
        )
        return first.last_ms - first.submitted_ms + sum(max(0, ms) for ms in more)

    def work_core_s(self, container_core_s: Mapping[StageKey, float] | None) -> float:
        """Return the core-seconds, as `StageRun.work_core_s` has them; `container_core_s` is by stage and attempt (None: not
        known)."""
        known = container_core_s
        return self._scale * sum(
            attempt.work_core_s(None if known is None else known.get(attempt.key, 0.0)) for attempt in self.attempts
        )

    def sum_of(self, by_key: Mapping[StageKey, float]) -> float | None:
        """Return the sum of a number that is known by stage and attempt over the attempts; None where the number is known for
        no attempt."""
        known = [by_key[attempt.key] for attempt in self.attempts if attempt.key in by_key]
        return sum(known) if known else None


def kept_stages(run: Run) -> list[AllAttempts]:
    """Return the stages that a record of the run has, in order of submission: all but those that were cut off
    (`Run.cut_off`)."""
    return [AllAttempts(tries) for tries in run.tries() if not run.cut_off(tries[0])]

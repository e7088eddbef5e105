"""Attributes an executor's container CPU and quota to the stages that ran in it: pure, fed once per observation.

Spark's own `executorCpuTime` leaves out Python workers, the container's counter does not; where stages overlap, CPU goes to
them by running tasks. Counters are cumulative over this life of the agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

from msgspec import Struct

from controller.agent.core.decide import ObservedExecutor, OwnStage
from controller.wire.worker import StageUse
from stage_model.history.stage_run import StageKey
from stage_model.progress import Progress, StageProgress

STAGES_KEPT = 512
"""Stage attempts kept per executor, the last touched ones: the master adds up all that agents report, and a hostile file may
name new attempts all the time."""


class _Stage(OwnStage):
    """A stage's counters, changed only while `Account.observed` makes the account that holds them."""

    records_done: float = 0.0
    allocated_core_s: float = 0.0
    throttled_s: float | None = 0.0
    speed: float = 0.0
    touched_s: float = 0.0
    each_core_s: float = 0.0
    """CPU core-seconds that a task running all the time would have used."""
    begun: tuple[float, ...] = ()
    """`each_core_s` when the running tasks began, the oldest first."""
    moves: bool = False
    """True if the next observation may change the stage although the progress file claims nothing of it."""


_NEW = _Stage()


class Account(Struct, frozen=True):
    """One executor's account; an observation makes a new one. `slots` bounds the running tasks that a progress file may
    claim."""

    slots: int
    stages: Mapping[StageKey, _Stage] = {}
    cpu_s: float | None = None
    throttled_s: float | None = None
    at_s: float | None = None
    busy_at_s: float | None = None
    up: bool = False

    def observed(
        self, now_s: float, cpu_s: float, quota_cores: float, progress: Progress | None, throttled_s: float | None = None
    ) -> Account:
        """Return the account after an observation. `cpu_s`: cumulative container CPU; `throttled_s`: cumulative seconds that
        the quota held its threads back, None if not known; `quota_cores`: in force since the last observation. The value of a
        counter at the first observation belongs to no stage. A counter that has started again adds nothing this time."""
        elapsed = 0.0 if self.at_s is None else now_s - self.at_s
        used = 0.0 if self.cpu_s is None else max(0.0, cpu_s - self.cpu_s)
        held_back = self._held_back_s(throttled_s)
        stages = dict(self.stages)
        moved = {key: copy(stage) for key, stage in self.stages.items() if stage.moves}
        stages |= moved
        weights = self._take(progress, stages, moved) if progress else {k: float(s.running) for k, s in moved.items()}
        total = sum(weights.values())
        for key, stage in moved.items():
            before = self.stages.get(key, _NEW)
            share = weights.get(key, 0.0) / total if total > 0 else 0.0
            core_s = used * share
            stage.cpu_core_s += core_s
            stage.allocated_core_s += quota_cores * elapsed * share
            if share > 0:
                stage.throttled_s = _sum(stage.throttled_s, held_back, share)
            stage.speed = core_s / elapsed if elapsed > 0 else stage.speed
            if share > 0:
                stage.touched_s = now_s
            _follow(stage, before.running, before.done, core_s)
            stage.records = stage.records_done + stage.records_running
            stage.cpu_running_core_s = sum([stage.each_core_s - begun for begun in stage.begun])
            stage.seen_records += stage.records_running
            stage.seen_core_s += stage.cpu_running_core_s
            stage.moves = bool(stage.running or stage.speed or stage.records_running or stage.begun)
        busy_at_s = now_s if total > 0 else self.busy_at_s
        return Account(self.slots, stages, cpu_s, throttled_s, now_s, busy_at_s, self.up or progress is not None)

    def _held_back_s(self, throttled_s: float | None) -> float | None:
        """Return the seconds that the quota held threads back since the last observation; None if not known."""
        if throttled_s is None or self.at_s is None:
            return None if throttled_s is None else 0.0
        return None if self.throttled_s is None else max(0.0, throttled_s - self.throttled_s)

    def _take(
        self, progress: Progress, stages: dict[StageKey, _Stage], moved: dict[StageKey, _Stage]
    ) -> dict[StageKey, float]:
        """Update the counters (never backwards) of claimed stages; return each stage's weight: running tasks now, before, or
        ended between."""
        weights: dict[StageKey, float] = {}
        running_left = self.slots
        for claim in reversed(progress.stages):
            key = (claim.stage, claim.attempt)
            before = self.stages.get(key, _NEW)
            # taken out and put in again: the last touched ones come last
            stages.pop(key, None)
            stage = stages[key] = moved[key] = moved.get(key) or copy(before)
            running = min(claim.running, running_left)
            running_left -= running
            ended = max(0, claim.done - before.done)
            weights[key] = max(float(running), float(before.running), 0.5 * ended)
            _update(stage, claim, running)
        for key, stage in moved.items():
            if key not in weights:
                stage.running, stage.records_running, stage.speed = 0, 0.0, 0.0
        while len(stages) > STAGES_KEPT:
            oldest = next(iter(stages))
            del stages[oldest]
            moved.pop(oldest, None)
        return weights

    def executor(
        self, now_s: float, speed_limit: float, others: Sequence[Mapping[StageKey, OwnStage]] = ()
    ) -> ObservedExecutor:
        """Return the executor as `decide_demand` sees it, with the stages of the application's `others` on its worker, where
        one task can use at most `speed_limit` cores."""
        idle_s = None if self.busy_at_s is None else now_s - self.busy_at_s
        return ObservedExecutor(self.slots, self.stages, idle_s, self.up, others, speed_limit)

    def uses(self, since_s: float = 0.0) -> Iterable[StageUse]:
        """Yield the counters of the stages that have run since `since_s`."""
        for (stage, attempt), s in self.stages.items():
            if s.touched_s < since_s:
                continue
            yield StageUse(
                stage=stage,
                attempt=attempt,
                running=s.running,
                done=s.done,
                records=s.records,
                records_running=s.records_running,
                cpu_core_s=s.cpu_core_s,
                cpu_running_core_s=s.cpu_running_core_s,
                allocated_core_s=s.allocated_core_s,
                throttled_s=s.throttled_s,
                speed=s.speed,
            )


def _sum(before: float | None, more: float | None, share: float) -> float | None:
    """Return the sum, None from then on once a part is not known: a sum without that part would be too small."""
    return None if before is None or more is None else before + more * share


def _update(stage: _Stage, claim: StageProgress, running: int) -> None:
    stage.running = running
    stage.done = max(stage.done, claim.done)
    stage.records_done = max(stage.records_done, float(claim.records_done))
    stage.records_running = float(claim.records_running) if running else 0.0


def _follow(stage: _Stage, running_before: int, done_before: int, core_s: float) -> None:
    """Share the stage's use since the last observation among its running tasks, because the quota slows them alike. Tasks
    that began first are taken to end first, and new tasks to have begun half-way."""
    each = core_s / max(1, stage.running, running_before)
    stage.each_core_s += each
    begun = stage.begun[stage.done - done_before :]
    begun += (stage.each_core_s - each / 2,) * (stage.running - len(begun))
    stage.begun = begun[len(begun) - stage.running :]

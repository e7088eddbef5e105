"""Workers that do not report: after `STALE_S` people learn of it and plans no longer count on them, and later they are lost.

The executors of a lost worker count as gone, so their driver has the tasks run elsewhere and gets others. An executor that is
still there when its agent reports again has to end (`Agents.desired`). Until it has ended, it keeps its place, so that two
executors never have one place.

Three silences say nothing of a worker, and no executor is given up for them:
- A master that stood still has heard nothing: time counts from its next pass on. The same holds for drivers that it cannot
  see (`lifecycle`).
- If no worker reports, the master itself may be cut off, and no worker could take other executors.
- A driver that is silent, too, may be cut off together with its executors, and could take no others in.
"""

from __future__ import annotations

import math

from controller.master.core import executors
from controller.master.core.application import Resident
from controller.master.core.guard import guarded
from controller.master.core.registry import Registry
from controller.master.core.workers import STALE_S, Worker
from stage_model.units import format_duration

STOOD_STILL_S = 5.0
"""A master whose passes are farther apart than this stood still in between; they come twice a second."""


class Silence:
    """The silence of all workers. A worker that has not reported for `lost_after_s` is lost."""

    def __init__(self, registry: Registry, lost_after_s: float) -> None:
        self.registry, self._lost_after_s = registry, lost_after_s
        self._looked_s = registry.life.begun_s

    def look(self, now_s: float) -> None:
        """Look, once in each pass, how long every worker has been silent, and do what follows."""
        if now_s - self._looked_s > STOOD_STILL_S:
            self.registry.listening_s = now_s
        self._looked_s = now_s
        self._forget_left(now_s)
        workers = [worker for worker in self.registry.workers.by_id.values() if not worker.closing or self._live(worker)]
        silent_s = [now_s - self._heard_s(worker) for worker in workers]
        others_report = any(for_s < STALE_S for for_s in silent_s)
        for worker, for_s in zip(workers, silent_s, strict=True):
            if for_s >= STALE_S:
                lost = others_report and for_s >= self._lost_after_s
                self._is_silent(worker, self._sentence(worker, for_s, others_report=others_report), lost=lost)
                self._mark(worker, silent=others_report)
            elif worker.silence:
                self._reports_again(worker, now_s)
            if worker.lost:
                self._give_up(worker, now_s)

    def _forget_left(self, now_s: float) -> None:
        """Forget the workers that have left and have no live executors."""
        for worker in list(self.registry.workers.by_id.values()):
            if worker.left and not self._live(worker):
                self.registry.workers.forget_silent(worker.info.worker_id, now_s)

    def _heard_s(self, worker: Worker) -> float:
        """Return the time of the worker's last report, or the time since which the master listens, whichever is later."""
        return max(worker.seen_s, self.registry.listening_s)

    def _sentence(self, worker: Worker, for_s: float, *, others_report: bool) -> str:
        said = f"worker {worker.info.worker_id} has not reported for {format_duration(math.floor(for_s))}"
        if worker.info.adopts:
            return f"{said}; its executors go on as they are"
        if not others_report:
            return f"{said}, and neither has any other worker"
        lost_after = format_duration(self._lost_after_s)
        return f"{said}; {'it is lost' if for_s >= self._lost_after_s else f'after {lost_after} it is lost'}"

    def _is_silent(self, worker: Worker, sentence: str, *, lost: bool) -> None:
        """Note the silence: the log has it at its begin and when executors are given up, the users of its executors at its
        begin."""
        begins, gives_up = not worker.silence, lost and not worker.lost and not worker.info.adopts
        worker.silence, worker.lost, live = sentence, lost, self._live(worker)
        if (begins or gives_up) and (live or worker.seen_s > -math.inf):  # it may have gone while no master ran
            self.registry.changes.log(sentence, "warning")
        for application, executor in live if begins else ():
            since = format_duration(application.elapsed_s(self._heard_s(worker)))
            application.notify(f"{sentence} (executor {executor.record.executor_id}, silent since {since})")

    def _reports_again(self, worker: Worker, now_s: float) -> None:
        worker.silence, worker.lost = "", False
        self._mark(worker, silent=False)
        for application, executor in self._live(worker):
            what, at = f"worker {worker.info.worker_id} reports again", format_duration(application.elapsed_s(now_s))
            application.notify(f"{what} (executor {executor.record.executor_id}, at {at})")

    def _mark(self, worker: Worker, *, silent: bool) -> None:
        """Have plans count on the worker's executors, or not."""
        for application, executor in self._live(worker):
            if executor.silent != silent:
                executor.silent = silent
                self.registry.changes.application(application)

    def _give_up(self, worker: Worker, now_s: float) -> None:
        """Count the executors of a lost worker as gone; those of other cluster managers are not ours to give up."""
        for application, executor in self._live(worker):
            if not application.attached and now_s - application.heard_s < STALE_S:
                with guarded(application, "giving up an executor of a lost worker"):
                    executors.lose(application, executor, worker.silence, self.registry)

    def _live(self, worker: Worker) -> list[Resident]:
        """Return the live executors of a worker, without those of applications that have ended."""
        there = self.registry.on(worker.info.worker_id)
        return [(application, executor) for application, executor in there if executor.live and not application.ended]

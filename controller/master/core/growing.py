"""The workers that are started and given back: what `placement.growth` needs to know of applications and workers, and what
follows from its answers. Programs that start workers are the shell's (`controller.master.providing`); `deadline_growth`
decides for which deadlines further workers are wanted.

A worker is stored before it is asked for, so that a restarted master gives it back. Times are monotonic seconds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controller.master.core import queue
from controller.master.core.application import Application
from controller.master.core.deadline_growth import DeadlineGrowth
from controller.master.core.effects import StoreMeta
from controller.master.core.guard import guarded
from controller.master.core.needs import planned_peak
from controller.master.core.placing import Placing
from controller.master.core.registry import Registry
from placement.growth import EndWorker, Growth, StartWorker, WorkerType


class Growing:
    def __init__(self, registry: Registry, placing: Placing, growth: Growth) -> None:
        self.registry, self.growth = registry, growth
        self.deadlines = DeadlineGrowth(registry, placing, growth)
        self._leaving: set[str] = set()

    def step(self, now_s: float) -> None:
        """Look at the workers that are wanted and those that are there, and begin what follows."""
        workers, start_s = self.registry.workers, self.growth.start_s
        self._leaving -= {name for name in self._leaving if workers.forget_silent(name, now_s)}
        if not workers.all_heard(now_s):
            return  # after a restart: workers that were there before have not reported yet
        self.deadlines.look(now_s)
        applications = [a for a in self.registry.applications.values() if not a.ended]
        fresh = workers.fresh(now_s).keys()
        for application in applications:
            if application.placement.infeasible is not None and queue.waits(application):
                with guarded(application, "looking for a worker to start for it"):
                    self._want(application, self.growth.sized(application.placement.infeasible), fresh, now_s)
            with guarded(application, "looking for workers that its deadline needs"):
                if (lacking := self.deadlines.lacks(application, now_s)) is not None:
                    kind, count, there = lacking
                    self._want(application, kind, fresh - there, now_s, count)
        busy = {e.record.worker_id for a in applications for e in a.executors.values() if not e.cleaned}
        present = {name: name in busy for name in self.growth.started if name in fresh}
        coming = {one.name for one in self.growth.started.values() if one.seen_s is None and not one.ending}
        actions = self.growth.step(
            now_s, present, len(fresh - self.growth.started.keys()), len(fresh & busy), self._demanded(applications, now_s)
        )
        if self.growth.start_s != start_s:
            self.registry.changes.effect(StoreMeta("worker_start_s"))
        for action in actions:
            if isinstance(action, EndWorker) and action.name in coming:
                self.deadlines.give_up(self.growth.started[action.name].kind, "has not joined in time")
        self._begin(actions)

    def _want(self, application: Application, kind: WorkerType, unfit: Collection[str], now_s: float, count: int = 1) -> None:
        """Want `count` workers of a kind for the application. If a worker that was started as this kind is among the `unfit`,
        which the application cannot use, want no other: it would be no better."""
        unlike = [one.name for one in self.growth.started.values() if one.name in unfit and one.kind == kind]
        if unlike:
            application.notify(f"worker {unlike[0]} was started as {kind} and is not that; see `sparkpace explain`")
        else:
            self.growth.want(kind, now_s, count)

    def refuses(self, kind: WorkerType) -> str:
        """Return the reason why no worker that would do for `kind` can ever be started; empty if one can."""
        return self.growth.limits.refuses(self.growth.sized(kind))

    def end_all(self, now_s: float) -> None:
        """Begin to give every started worker back."""
        self._begin(self.growth.end_all("the cluster goes down", now_s))

    def _demanded(self, applications: list[Application], now_s: float) -> float:
        """Return the planned cores of all executors that are there or wanted."""
        total = 0.0
        for application in applications:
            if application.held_back:
                continue
            with guarded(application, "counting the cores it wants"):
                wishes = () if application.placement.over_share else application.placement.wanted.values()
                wanted = sum(1 if wish.count is None else wish.count for wish in wishes)
                there = sum(1 for _ in application.live_executors())
                total += max(wanted, there) * planned_peak(application, self.registry.workers, now_s)
        return total

    def _begin(self, actions: Sequence[StartWorker | EndWorker]) -> None:
        changes = self.registry.changes
        if actions:
            changes.effect(StoreMeta("started_workers"))
        for action in actions:
            if isinstance(action, StartWorker):
                changes.log(f"starting worker {action.name}: {action.kind}")
            else:
                changes.log(f"giving worker {action.name} back: {action.reason}")
                self.registry.workers.close(action.name)
            changes.effect(action)

    def ended(self, name: str) -> None:
        """Take in that a worker was ended."""
        self.growth.forget(name)
        self._leaving.add(name)
        self.registry.changes.effect(StoreMeta("started_workers"))

    def not_ended(self, name: str, error: BaseException) -> None:
        """Take in that a worker could not be ended; that is tried again."""
        self.registry.changes.log(f"worker {name} was not ended and will be tried again: {error}", "error")

    def not_started(self, action: StartWorker, error: BaseException, now_s: float) -> None:
        """Take in that a worker could not be started. The start is tried again later as long as an application wants it."""
        self.registry.changes.log(f"worker {action.name} was not started: {error}", "error")
        for application in self.registry.applications.values():
            if not application.ended and any(action.kind.holds(kind) for kind in self._kinds(application)):
                application.notify(f"a worker for it could not be started: {error}")
        self.deadlines.give_up(action.kind, "could not be started")
        self._begin(self.growth.failed(action.name, action.kind, now_s))

    def _kinds(self, application: Application) -> list[WorkerType]:
        """Return the types of the workers that the application waits for."""
        fitting, further = application.placement.infeasible, application.placement.further
        return [
            *([] if fitting is None else [self.growth.sized(fitting)]),
            *([] if further is None else [further.kind]),
        ]

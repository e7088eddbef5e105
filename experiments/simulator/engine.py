"""The virtual cluster itself: executors that run tasks as a fluid, drivers that submit stages, a clock that jumps.

Every executor has slots and a quota, which its computing tasks share equally; other tasks share what one task cannot use.
Time goes from event to event, so ends are exact. A *control* decides which executors run on which workers with which quotas;
the engine reports events to it. Not covered: how a control decides (`pacing`, `schedulers`), memory, failures.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from experiments.simulator.jobs import SimStage
from experiments.simulator.state import IDEAL, App, Counters, Effects, SimExecutor, SimSubmission, SimWorker, Task

LONGEST_S = 10_000_000.0
DONE = 1e-9
"""Core-seconds left of a task (of a long task: as a share of it) that are taken as none."""


def part_read(stage: SimStage, task: Task) -> float:
    """Return the part of its records that a task has read; more than 1 where it has work left after them."""
    return (1 - task.left / task.work) / stage.read_by


class Control(Protocol):
    """A control decides on the executors and the quota of each, through the engine, which reports events to it."""

    def begin(self, engine: Engine) -> None: ...

    def arrived(self, app: App) -> None: ...

    def stage_submitted(self, app: App, stage: int) -> None: ...

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None: ...

    def stage_completed(self, app: App, stage: int) -> None: ...

    def ended(self, app: App) -> None: ...


class Engine:
    """One run. `seed` is for the draws of effects."""

    def __init__(
        self,
        cluster: Sequence[SimWorker],
        submissions: Iterable[SimSubmission],
        control: Control,
        *,
        effects: Effects = IDEAL,
        seed: int = 0,
    ) -> None:
        self.workers, self.control, self.effects = list(cluster), control, effects
        self.apps = [App(number, asked) for number, asked in enumerate(submissions)]
        self.rng = random.Random(seed)
        self.bursts = random.Random(f"{seed} bursts")
        """A separate source of random numbers, so that the other draws of a run do not change with these."""
        self.offers = random.Random(f"{seed} offers")
        """The source of the order in which free executors get tasks; separate for the same reason."""
        self.taken: set[str] = set()
        """Workers on which another program has half of the cores."""
        self.now_s = 0.0
        self.left = len(self.apps)
        self.events = 0
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []

    def at(self, time_s: float, what: Callable[[Any], None], argument: Any = None) -> None:
        """Call `what(argument)` at `time_s`; calls for one moment come in the order asked for."""
        self.events += 1
        heapq.heappush(self._heap, (max(time_s, self.now_s), self.events, what, argument))

    def submit(self, asked: SimSubmission) -> None:
        """Submit one more application while the others run; it arrives at once."""
        app = App(len(self.apps), asked)
        self.apps.append(app)
        self.left += 1
        self.at(self.now_s, self._arrive, app)

    def run(self) -> list[App]:
        """Run until all applications have ended."""
        for app in self.apps:
            self.at(app.asked.at_s, self._arrive, app)
        if self.effects.burst_gap_s:
            for worker in self.workers:
                self.at(self.bursts.expovariate(1 / self.effects.burst_gap_s), self._burst, worker)
        self.control.begin(self)
        while self.left:
            self.now_s, _, what, argument = heapq.heappop(self._heap)
            assert self.now_s < LONGEST_S, "a job never ends: it has no cores"
            what(argument)
        return self.apps

    def _burst(self, worker: SimWorker) -> None:
        """Let another program on the machine begin or end to take half of the worker's cores."""
        mean_s = self.effects.burst_gap_s if worker.name in self.taken else self.effects.burst_s
        here = [e for app in self.apps for e in app.live if e.worker is worker]
        for executor in here:
            self.advance(executor)
        self.taken ^= {worker.name}
        for executor in here:
            self._look_ahead(executor)
        self.at(self.now_s + self.bursts.expovariate(1 / mean_s), self._burst, worker)

    # ------------------------------------------------------------------ drivers

    def _arrive(self, app: App) -> None:
        self.at(self.now_s + app.job.startup_s, self._begin, app)
        self.control.arrived(app)

    def _begin(self, app: App) -> None:
        for place, stage in enumerate(app.job.stages):
            if not app.job.parents(place):
                app.submitted.add(place)
                self.at(self.now_s + (stage.gap_s if place else 0.0), self._submit, (app, place))

    def _submit(self, which: tuple[App, int]) -> None:
        app, place = which
        app.submitted.add(place)
        works = app.job.stages[place].works
        app.left[place] = len(works)
        app.stage_starts_s[place] = self.now_s
        app.waiting.extend((place, index) for index in range(len(works)))
        self.hand_out(app)
        self.control.stage_submitted(app, place)

    def _complete(self, app: App, place: int) -> None:
        for executor in app.live:
            self.advance(executor)
        app.completed.add(place)
        app.stage_ends_s[place] = app.last_task_s = self.now_s
        app.allocated_core_s = app.gone_allocated + math.fsum(e.allocated_core_s for e in app.live) - app.before
        for child in range(place + 1, len(app.job.stages)):
            parents = app.job.parents(child)
            if place in parents and child not in app.submitted and app.completed.issuperset(parents):
                app.submitted.add(child)
                self.at(self.now_s + app.job.stages[child].gap_s, self._submit, (app, child))
        self.control.stage_completed(app, place)
        if len(app.completed) == len(app.job.stages):
            self.at(self.now_s + app.job.tail_s, self._end, app)

    def _end(self, app: App) -> None:
        app.end_s = self.now_s
        self.left -= 1
        for executor in app.live:
            self.stop(executor)
        self.control.ended(app)

    # ------------------------------------------------------------------ executors

    def start(self, app: App, worker: SimWorker, quota: float, slots: int | None = None) -> SimExecutor:
        """Start an executor of the application; it takes tasks after `launch_s`."""
        app.names += 1
        executor = SimExecutor(str(app.names), app, worker, slots or worker.slots, quota, at_s=self.now_s)
        executor.ordered = quota
        app.executors.append(executor)
        if self.effects.launch_s:
            self.at(self.now_s + self.effects.launch_s, self._launched, executor)
        else:
            self._launched(executor)
        return executor

    def _launched(self, executor: SimExecutor) -> None:
        if not executor.over:
            self.advance(executor)
            executor.ready = True
            executor.cpu_core_s += self.effects.launch_core_s
            self._share(executor)
            self.hand_out(executor.app)

    def stop(self, executor: SimExecutor) -> None:
        """Kill an executor: the work of its running tasks is lost, and they wait again."""
        self.advance(executor)
        app = executor.app
        for task in executor.tasks:
            app.lost_core_s += task.work - task.left
            app.waiting.appendleft((task.stage, task.index))
        executor.tasks, executor.speeds = [], []
        executor.over, executor.ready = True, False
        executor.version += 1
        app.gone_allocated += executor.allocated_core_s
        if app.end_s is None:
            self.hand_out(app)

    def set_quota(self, executor: SimExecutor, cores: float) -> None:
        """Order a quota, which takes effect after the latency."""
        executor.ordered = cores
        if self.effects.latency_s:
            self.at(self.now_s + self.effects.latency_s, self._quota_written, (executor, cores))
        else:
            self._quota_written((executor, cores))

    def set_least_waiting(self, executor: SimExecutor, tasks: int) -> None:
        """Give the executor a task only while at least `tasks` wait."""
        if executor.least_waiting != tasks:
            executor.least_waiting = tasks
            self.hand_out(executor.app)

    def _quota_written(self, which: tuple[SimExecutor, float]) -> None:
        executor, cores = which
        if executor.over:
            return
        self.advance(executor)
        executor.quota = cores
        self._look_ahead(executor)

    def advance(self, executor: SimExecutor) -> None:
        """Bring the executor's counters to now."""
        seconds = self.now_s - executor.at_s
        if seconds <= 0 or executor.over:
            return
        executor.at_s = self.now_s
        executor.allocated_core_s += executor.quota * seconds
        used = executor.background * seconds
        its_part = used / len(executor.tasks) if executor.tasks else 0.0
        for task, cores in executor.speeds:
            done = cores * seconds
            task.left -= done
            task.used_core_s += done + its_part
            used += done
            if cores < task.limit:
                held_back_s = (1 - cores / task.limit) * seconds
                task.throttled_s += held_back_s
                executor.throttled_s += held_back_s
        executor.cpu_core_s += used
        if executor.app.in_tasks:
            executor.app.used_core_s += used

    def _share(self, executor: SimExecutor) -> None:
        """Work out the cores of the executor's threads from now on. Each computing task has an equal part, but no more than
        it can use; other tasks share the rest. Another program may have half of the worker's cores."""
        cores, most = executor.quota, executor.worker.speed_limit
        if executor.worker.name in self.taken:
            cores = min(cores, executor.worker.cores / 2)
        executor.background = min(self.effects.background_cores, cores) if executor.ready else 0.0
        cores -= executor.background
        computing = [task for task in executor.tasks if task.fetched_s is None]
        limits = [min(task.limit, most) for task in computing]
        throttled = cores < sum(limits)
        if throttled and self.effects.stranded_cores:  # no task can use them before the period is over
            cores = max(cores / 2, cores - self.effects.stranded_cores)
        if not throttled:
            executor.speeds = list(zip(computing, limits, strict=True))
        elif cores <= min(limits) * len(computing):
            executor.speeds = [(task, cores / len(computing)) for task in computing]
        else:
            executor.speeds = []
            computing.sort(key=lambda task: task.limit)
            for left, task in zip(range(len(computing), 0, -1), computing, strict=True):
                speed = min(task.limit, most, cores / left)
                executor.speeds.append((task, speed))
                cores -= speed

    def hand_out(self, app: App) -> None:
        """Give tasks out as Spark does: executors in a drawn order, round by round one task for each with a free slot."""
        if not app.waiting:
            return
        free = [e for e in app.executors if e.free > 0]
        self.offers.shuffle(free)
        touched = {}
        while free and app.waiting:
            for executor in free:
                if executor.free > 0:  # enough tasks are still waiting
                    if executor not in touched:
                        self.advance(executor)
                    touched[executor] = True
                    self._launch(executor)
            free = [e for e in free if e.free > 0]
        for executor in touched:
            self._look_ahead(executor)

    def _launch(self, executor: SimExecutor) -> None:
        """Start the first waiting task; counters are at now."""
        app = executor.app
        place, index = app.waiting.popleft()
        stage = app.job.stages[place]
        if app.first_task_s is None:
            for other in app.live:
                self.advance(other)
            app.first_task_s = self.now_s
            app.before = app.gone_allocated + math.fsum(e.allocated_core_s for e in app.live)
        wave = executor.started_tasks // executor.slots
        executor.started_tasks += 1
        work = stage.works[index] * (1 + (self.effects.warm_up / (1 + wave) if wave < 2 else 0.0))
        code = place if stage.code is None else stage.code
        if code not in executor.codes:
            executor.codes.add(code)
            work += self.effects.cold_core_s
        task = Task(place, index, work, work / (work + stage.hidden_wait_s), self.now_s, work)
        if stage.wait_s > 0:
            task.fetched_s = self.now_s + stage.wait_s
        executor.tasks.append(task)
        executor.counters.setdefault(place, Counters()).running += 1

    def _look_ahead(self, executor: SimExecutor) -> None:
        """Ask for the next moment at which something happens in the executor."""
        executor.version += 1
        soonest = math.inf
        self._share(executor)
        for task, cores in executor.speeds:
            if cores > 0:
                soonest = min(soonest, task.left / cores)
        for task in executor.tasks:
            if task.fetched_s is not None:
                soonest = min(soonest, task.fetched_s - self.now_s)
        if soonest < math.inf:
            self.at(self.now_s + soonest, self._due, (executor, executor.version))

    def _due(self, which: tuple[SimExecutor, int]) -> None:
        executor, version = which
        if executor.version != version:
            return
        self.advance(executor)
        app, ended = executor.app, []
        for task in executor.tasks:
            if task.fetched_s is not None:
                if task.fetched_s <= self.now_s + DONE:
                    task.fetched_s = None
            elif task.left <= DONE * max(1.0, task.work):
                ended.append(task)
        for task in ended:
            executor.tasks.remove(task)
            counters = executor.counters[task.stage]
            counters.running -= 1
            counters.done += 1
            stage = app.job.stages[task.stage]
            if stage.records is not None:
                counters.records_done += stage.records / len(stage.works)
            app.left[task.stage] -= 1
            if executor.free:
                self._launch(executor)
        self._look_ahead(executor)
        for task in ended:
            self.control.task_ended(app, executor, task)
        for place in {task.stage for task in ended}:
            if app.left[place] == 0:
                self._complete(app, place)

    # ------------------------------------------------------------------ observations

    def records_running(self, executor: SimExecutor, place: int) -> float:
        """Return the records that running tasks of a stage are seen to have read by now; counters are at now."""
        stage = executor.app.job.stages[place]
        if stage.records is None:
            return 0.0
        seen = 0.0
        for task in executor.tasks:
            if task.stage == place:
                part = part_read(stage, task)
                if self.effects.records_noise:
                    part *= 1 + self.rng.gauss(0, self.effects.records_noise)
                seen += min(1.0, max(0.0, part))
        return seen * stage.records / len(stage.works)

"""Controls that decide nothing: every executor has one quota from its start to its end. Pre-runs and yardsticks use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from experiments.simulator.engine import Engine
from experiments.simulator.state import App, SimExecutor, SimWorker, Task


@dataclass(slots=True)
class Fixed:
    """An executor on every worker (or on the first `executors` that the user asked for) with `quota(worker)` cores."""

    quota: Callable[[SimWorker], float]
    engine: Engine | None = None

    def begin(self, engine: Engine) -> None:
        self.engine = engine

    def arrived(self, app: App) -> None:
        assert self.engine
        for worker in self.engine.workers[: app.asked.executors]:
            self.engine.start(app, worker, self.quota(worker))

    def stage_submitted(self, app: App, stage: int) -> None:
        pass

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        pass

    def stage_completed(self, app: App, stage: int) -> None:
        pass

    def ended(self, app: App) -> None:
        pass


def everything() -> Fixed:
    """Return a control that gives all cores of each worker: the way stock Spark runs by itself."""
    return Fixed(lambda worker: worker.cores)

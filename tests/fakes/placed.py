"""A master with workers that say what they offer and do at once what it asks of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from controller.machine.proc import boot_id
from controller.wire.command import ApplicationView
from controller.wire.driver import ExecutorWish
from controller.wire.worker import WorkerInfo, WorkerReply
from tests.fakes.cluster import FakeCluster, answered, registration, report

ELASTIC = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "64m"}


class Scene:
    """A master with workers that say what they offer; `sync` makes them report all executors that should run."""

    def __init__(self, path: Path, **workers: dict[str, Any]) -> None:
        self.cluster = FakeCluster(path)
        self.offers = {
            name: {"cores": 1.0, "memory_mb": 8000, "host": "127.0.0.1", **offer} for name, offer in workers.items()
        }
        self.sync()

    @property
    def state(self) -> Any:
        return self.cluster.state

    def sync(self, seconds: float = 0.0) -> None:
        """Let time pass, then every agent report; executors that should run do so, and executors that should stop are
        gone."""
        self.cluster.now_s += seconds
        for _ in range(2):
            for name in self.offers:
                desired = self.state.core.agents.desired(name, self.cluster.now_s)
                self.report(name, *((spec.application_id, spec.executor_id) for spec in desired.executors))
        self.state.tick(self.cluster.now_s)

    def restart(self) -> None:
        """Start the master again, and let all workers report."""
        self.cluster.restart()
        self.sync()

    def report(self, name: str, *running: tuple[str, str]) -> WorkerReply:
        info = WorkerInfo(worker_id=name, runtime="fake", pid=1, boot_id=boot_id(), **self.offers[name])
        return self.cluster.sync(info, *(report(*key) for key in running))

    def register(self, name: str, count: int | None = 1, /, **conf: str) -> str:
        """Register an application with `conf` without "spark.pace."; `_` stands for "."."""
        self.cluster.now_s += 1
        own = {f"spark.pace.{key.replace('_', '.')}": value for key, value in conf.items()}
        asked = registration(
            instance=str(uuid4()), name=name, conf={**ELASTIC, **own}, wanted={"0": ExecutorWish(count=count)}
        )
        application_id: str = answered(self.state.drivers.register(asked, self.cluster.clock)).application_id
        return application_id

    def where(self, application_id: str) -> list[str]:
        """Return the workers of an application's live executors."""
        return [e.record.worker_id for e in self.state.applications[application_id].live_executors()]

    def view(self, application_id: str) -> ApplicationView:
        view: ApplicationView = self.state.core.commands.view(application_id, self.cluster.now_s)
        return view

    def end(self, application_id: str) -> None:
        self.cluster.driver(application_id, ended=True, wanted={"0": ExecutorWish(count=1)})
        self.sync()

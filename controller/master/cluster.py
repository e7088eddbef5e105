"""The master's parts, put together: drivers, agents and commands come in by one each, time by `tick`.

Every method of every part is called on one thread with `now_s` (monotonic seconds) and stores what must survive a restart
before it answers, or goes on from memory where the disk is full. Deadlines and plans are `planning`'s, the wire format is
`controller.wire`, the network `api`. Everything is level-triggered: a repeated message changes nothing, a lost one comes
again. A part notes what it changes (`changes`) in a block of `Outside.changing`: at the block's end executors are brought
about, agents look again, and all is stored.

    drivers    a registration, and what a driver reports (`driver_events`)
    agents     what an agent reports, and what its worker should be like
    commands   what people ask
    admission  whether an application is taken in
    lifecycle  its executors, its driver's death, its record: after a change, or when time has passed
    pipelines  deadlines of jobs that have one end together
    submissions  which drivers that wait for other jobs may start
    registry   all workers and applications, in memory and in the store
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection
from concurrent.futures import Executor as Pool
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from controller.master.admission import Admission
from controller.master.agents import Agents
from controller.master.commands import Commands
from controller.master.core import agents, driver_events
from controller.master.core.lifecycle import Lifecycle
from controller.master.core.pipelines import Pipelines
from controller.master.core.placing import Placing
from controller.master.core.registry import Registry
from controller.master.drivers import Drivers
from controller.master.finish import Finisher
from controller.master.growing import Growing
from controller.master.notify.notifying import Notifying
from controller.master.outside import Outside
from controller.master.parts import Parts
from controller.master.providers import Provider
from controller.master.storage.kept import Kept
from controller.master.submissions import Submissions
from placement.growth import Growth
from placement.policies import Draw
from placement.scores import Weights
from stage_model.errors import Unavailable

log = logging.getLogger("sparkpace.master")

EMPTY_S = 10.0
"""Time between two emptyings of the store's log."""
LARGEST_LOG = 64 << 20
"""Bytes of the log from which on it is emptied at once."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of a cluster. `law` and `placement` are those of applications that name none, `memory` divides a worker's
    off-heap memory; `draw` gives placement numbers in [0, 1)."""

    law: str = "forecast"
    memory: str = "equal"
    placement: str = "spread"
    weights: Weights = field(default_factory=Weights)
    draw: Draw = random.SystemRandom().random


class ClusterState:
    """The cluster. `changed` is called with the ids of workers whose agents should look again; `pool` has threads for what
    takes its time (None: one of its own)."""

    def __init__(
        self,
        kept: Kept,
        options: ClusterOptions,
        changed: Callable[[Collection[str]], None],
        now_s: float,
        pool: Pool | None = None,
    ) -> None:
        self.store, self.profiles, self.identity = kept.store, kept.profiles, kept.identity
        self._emptied_s = now_s
        self._emptying: Future[bool] | None = None
        self._pool = pool or ThreadPoolExecutor(1, "records")
        self.parts = Parts()
        self.growing: Growing | None = None
        self.notifying: Notifying | None = None
        self.registry = Registry(kept.store, kept.profiles, now_s)
        self.workers, self.applications = self.registry.workers, self.registry.applications
        for application in self.applications.values():
            driver_events.replay(application, self.registry, now_s)
            log.info("restored %s at event %d", application.id, application.acknowledged)
        self.placing = Placing(self.registry, policy=options.placement, weights=options.weights, draw=options.draw)
        finisher = Finisher(kept.recorder, kept.profiles, self._pool)
        self.lifecycle = Lifecycle(self.registry, self.placing, finisher)
        self.outside = Outside(self.lifecycle, kept.store, changed)
        self.pipelines = Pipelines(self.registry)
        self.admission = Admission(self.registry, self.placing, self.pipelines, options.law, lambda: self.growing)
        self.drivers = Drivers(self.registry, self.outside, self.admission, kept.recorder)
        reports = agents.Agents(self.registry, self.lifecycle, kept.recorder, kept.identity, options.memory)
        self.agents = Agents(reports, self.outside)
        self.submissions = Submissions(self.registry, self.admission)
        self.outside.carry_out(self.registry.changes.take_effects())
        self.commands = Commands(self.registry, self.outside, kept.recorder, self.submissions)

    def grow_by(self, growth: Growth, provider: Provider, now_s: float) -> None:
        self.growing = Growing(self.registry, self.placing, growth, provider, now_s)

    def end_started_workers(self, now_s: float) -> list[Future[None]]:
        """Begin to give all started workers back; return the futures to wait for."""
        return self.growing.end_all(now_s) if self.growing is not None else []

    def tick(self, now_s: float) -> None:
        """Do what only time brings about: dead drivers, executors to place, workers to start, records to write. Each
        application's turn and each other part come whatever goes wrong with the rest."""
        with self.outside.changing(now_s) as changes:
            self.lifecycle.turns(now_s)
            with self.parts.guarded("splitting the time of pipelines"):
                self.submissions.forget(now_s)
                self.pipelines.split_anew(now_s)
            changes.room()
        if self.growing is not None:
            with self.parts.guarded("starting and ending workers"):
                self.growing.tick(now_s)
        self.notify(now_s)
        with self.parts.guarded("storing counters"):
            self.registry.save_counters(now_s)
        self.store.catch_up(again=True)
        with self.parts.guarded("emptying the store's log"):
            self._empty_log(now_s)

    def notify(self, now_s: float) -> None:
        """Look for what is to be sent to the operator's web hook, where there is one."""
        if self.notifying is not None:
            with self.parts.guarded("looking for what to notify of"):
                self.notifying.look(self.applications, now_s)

    def refused(self, name: str, reason: str, deadline_s: float | None) -> None:
        """Note that a submission of that name, which had asked for that deadline, was refused."""
        if self.notifying is not None:
            self.notifying.refused(name, reason, deadline_s)

    def close(self) -> None:
        """Wait for the records that are being written, then close the store."""
        self._pool.shutdown()
        self.store.close()

    def _empty_log(self, now_s: float) -> None:
        """Empty the log now and then, and soon where it is long or holds what should not lie about; raise what the last try
        raised."""
        soon = self.registry.replaced or self.store.log_bytes() > LARGEST_LOG
        if self._emptying is None and (soon or now_s - self._emptied_s > EMPTY_S):
            self._emptied_s, self.registry.replaced = now_s, False
            self._emptying = self._pool.submit(self.store.checkpoint)
        if self._emptying is not None and self._emptying.done():
            over, self._emptying = self._emptying, None
            if not over.result():
                self.registry.replaced = True  # tried again with the next pass
                if (size := self.store.log_bytes()) > LARGEST_LOG:
                    raise Unavailable(
                        f"the log of master.db has {size >> 20} MiB and cannot be emptied: the disk is full or another "
                        f"program reads or writes the file; make room, or end that program"
                    )

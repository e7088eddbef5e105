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

import random
from collections.abc import Callable, Collection
from concurrent.futures import Executor as Pool
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from controller.machine.process_identity import boot_id, pid_namespace
from controller.machine.processes import ProcessId, alive
from controller.master.admitting import Admitting
from controller.master.agent_calls import AgentCalls
from controller.master.command_calls import CommandCalls
from controller.master.core import admission, agents, commands, drivers
from controller.master.core.application import Application
from controller.master.core.growing import Growing
from controller.master.core.life import Life
from controller.master.core.lifecycle import Lifecycle
from controller.master.core.pipelines import Pipelines
from controller.master.core.placing import Placing
from controller.master.core.registry import Registry
from controller.master.core.submissions import Submissions
from controller.master.driver_calls import DriverCalls
from controller.master.notify.notifying import Notifying
from controller.master.outside import Outside
from controller.master.parts import Parts
from controller.master.providers import Provider
from controller.master.providing import Providing
from controller.master.recording import Recording
from controller.master.restoring import restore
from controller.master.storage.kept import Kept
from placement.growth import Growth
from placement.policies import Draw
from placement.scores import Weights
from stage_model.errors import Unavailable

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
    """The cluster. `wake` is called with the ids of workers whose agents should look again; `pool` has threads for what
    takes its time (None: one of its own)."""

    def __init__(
        self,
        kept: Kept,
        options: ClusterOptions,
        wake: Callable[[Collection[str]], None],
        now_s: float,
        pool: Pool | None = None,
    ) -> None:
        self.store, self.profiles, self.identity = kept.store, kept.profiles, kept.identity
        self._emptied_s = now_s
        self._emptying: Future[bool] | None = None
        self._pool = pool or ThreadPoolExecutor(1, "records")
        self.parts = Parts()
        self.notifying: Notifying | None = None
        life = Life(kept.identity.cluster_id, kept.identity.generation, boot_id(), pid_namespace(), now_s)
        self.registry = Registry(life)
        self.workers, self.applications = self.registry.workers, self.registry.applications
        restore(self.registry, kept.store, kept.profiles, now_s)
        self.placing = Placing(self.registry, policy=options.placement, weights=options.weights, draw=options.draw)
        self.lifecycle = Lifecycle(self.registry, self.placing)
        self.pipelines, self.submissions = Pipelines(self.registry), Submissions(self.registry)
        recording = Recording(self.lifecycle.records, kept.recorder, kept.profiles, self._pool)
        self.outside = Outside(self.lifecycle, kept.store, recording, wake)
        judging = admission.Admission(self.registry, self.placing, self.pipelines, options.law)
        self.admission = Admitting(judging, self.submissions, kept.profiles)
        self.drivers = DriverCalls(drivers.Drivers(self.registry), self.admission, self.outside)
        self.agents = AgentCalls(agents.Agents(self.registry, self.lifecycle, options.memory), self.outside)
        asked = commands.Commands(self.registry, self.placing, self.submissions, str(kept.recorder.runs))
        self.commands = CommandCalls(asked, self.admission, self.outside)
        self.outside.carry_out(self.registry.changes.take_effects(), now_s)

    def grow_by(self, growth: Growth, provider: Provider, now_s: float) -> None:
        growing = self.admission.core.growing = Growing(self.registry, self.placing, growth)
        self.outside.providing = Providing(growing, provider, self.store, now_s)

    @property
    def growing(self) -> Growing | None:
        """The part that starts workers, if there is one."""
        return self.admission.core.growing

    def end_started_workers(self, now_s: float) -> list[Future[None]]:
        """Begin to give all started workers back; return the futures to wait for."""
        if self.growing is None or self.outside.providing is None:
            return []
        self.growing.end_all(now_s)
        self.outside.carry_out(self.registry.changes.take_effects(), now_s)
        return self.outside.providing.under_way

    def tick(self, now_s: float) -> None:
        """Do what only time brings about: dead drivers, executors to place, records to write, workers to start. Each
        application's turn and each other part come whatever goes wrong with the rest."""
        with self.outside.changing(now_s) as changes:
            self.lifecycle.turns(self._dead_drivers(now_s), now_s)
            with self.parts.guarded("looking after records"):
                self._record(now_s)
            with self.parts.guarded("splitting the time of pipelines"):
                self.submissions.forget(now_s)
                self.pipelines.split_anew(now_s)
            changes.room()
        if self.growing is not None:
            with self.parts.guarded("starting and ending workers"):
                self._grow(self.growing, now_s)
        self.notify(now_s)
        with self.parts.guarded("storing counters"):
            self.registry.save_counters(now_s)
        self.outside.carry_out(self.registry.changes.take_effects(), now_s)
        self.store.catch_up(again=True)
        with self.parts.guarded("emptying the store's log"):
            self._empty_log(now_s)

    def _dead_drivers(self, now_s: float) -> set[str]:
        """Return the applications whose drivers were looked for and have ended."""
        return {one.id for one in self.lifecycle.silent(now_s) if not alive(_driver_of(one))}

    def _record(self, now_s: float) -> None:
        """Have records written, and take in which are by now: others may wait for the end of those runs."""
        self.outside.carry_out(self.registry.changes.take_effects(), now_s)
        self.outside.recording.look(self.applications, now_s)
        self.outside.carry_out(self.registry.changes.take_effects(), now_s)

    def _grow(self, growing: Growing, now_s: float) -> None:
        """Take in what the provider has done by now, and let further workers be started or given back."""
        assert self.outside.providing is not None
        self.outside.providing.look(now_s)
        growing.step(now_s)

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
        soon = self.outside.replaced or self.store.log_bytes() > LARGEST_LOG
        if self._emptying is None and (soon or now_s - self._emptied_s > EMPTY_S):
            self._emptied_s, self.outside.replaced = now_s, False
            self._emptying = self._pool.submit(self.store.checkpoint)
        if self._emptying is not None and self._emptying.done():
            over, self._emptying = self._emptying, None
            if not over.result():
                self.outside.replaced = True  # tried again with the next pass
                if (size := self.store.log_bytes()) > LARGEST_LOG:
                    raise Unavailable(
                        f"the log of master.db has {size >> 20} MiB and cannot be emptied: the disk is full or another "
                        f"program reads or writes the file; make room, or end that program"
                    )


def _driver_of(application: Application) -> ProcessId:
    registration = application.record.registration
    return ProcessId(pid=registration.pid, start=registration.pid_start, boot_id=registration.boot_id)

"""The master without its network: the core that decides, fed with what happens, and the effects that are carried out.

Every call comes in on one thread with `now_s` (monotonic seconds). What must survive a restart is stored before a call is
answered, or control goes on from memory where the disk is full. Calls of drivers, agents and people go into the core by
`report_calls` and `command_calls`; what only time brings about is done by `tick`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future, ThreadPoolExecutor

from controller.master.admitting import Admitting
from controller.master.command_calls import CommandCalls
from controller.master.core.core import ClusterOptions, Core
from controller.master.core.growing import Growing
from controller.master.core.guard import guarded
from controller.master.hosting_calls import HostingCalls
from controller.master.log_calls import LogCalls
from controller.master.notify.notifying import Notifying
from controller.master.outside import Outside
from controller.master.parts import Parts
from controller.master.providers import Provider
from controller.master.providing import Providing
from controller.master.recording import Recording
from controller.master.report_calls import AgentCalls, DriverCalls
from controller.master.restoring import restore, restore_drivers
from controller.master.storage.kept import Kept
from placement.growth import Growth
from stage_model.errors import Unavailable

EMPTY_S = 10.0
"""Time between two emptyings of the store's log."""
LARGEST_LOG = 64 << 20
"""Bytes of the log from which on it is emptied at once."""


class ClusterState:
    """The cluster. `wake` is called with the ids of workers whose agents should look again; `pool` has threads for slow work
    (None: a pool of its own)."""

    def __init__(
        self,
        kept: Kept,
        options: ClusterOptions,
        wake: Callable[[Collection[str]], None],
        now_s: float,
        pool: Executor | None = None,
    ) -> None:
        self.store, self.profiles, self.identity = kept.store, kept.profiles, kept.identity
        self._emptied_s = now_s
        self._emptying: Future[bool] | None = None
        self._pool = pool or ThreadPoolExecutor(1, "records")
        self.parts = Parts()
        self.notifying: Notifying | None = None
        self.core = core = Core(kept.life(now_s), options, random.SystemRandom().random, str(kept.recorder.runs))
        self.registry, self.lifecycle, self.placing = core.registry, core.lifecycle, core.placing
        self.workers, self.applications, self.submissions = core.workers, core.applications, core.submissions
        restore(core.registry, kept.store, kept.profiles, now_s)
        restore_drivers(core.hosting, kept.store)
        recording = Recording(core.lifecycle.records, kept.recorder, kept.profiles, self._pool)
        self.outside = Outside(core, kept.store, recording, wake)
        self.admission = Admitting(core.admission, core.submissions, kept.profiles)
        self.drivers = DriverCalls(core.drivers, core.hosting, self.admission, self.outside)
        self.hosting = HostingCalls(core.hosting, self.outside)
        self.logs = LogCalls(core.logs, self.outside)
        self.agents = AgentCalls(core.agents, self.outside, self.logs)
        self.commands = CommandCalls(core.commands, self.admission, self.outside)
        for sentence in core.registry.shares.over(now_s):
            core.registry.changes.log(sentence, "warning")
        self.outside.carry_out(core.take_effects(), now_s)

    def grow_by(self, growth: Growth, provider: Provider, now_s: float) -> None:
        growing = self.core.admission.growing = Growing(self.registry, self.placing, growth)
        self.outside.providing = Providing(growing, provider, self.store, now_s)

    @property
    def growing(self) -> Growing | None:
        """The part that starts workers, if there is one."""
        return self.core.admission.growing

    def end_started_workers(self, now_s: float) -> list[Future[None]]:
        """Begin to give all started workers back; return the futures to wait for."""
        if self.growing is None or self.outside.providing is None:
            return []
        self.growing.end_all(now_s)
        self.outside.carry_out(self.core.take_effects(), now_s)
        return self.outside.providing.under_way

    def tick(self, now_s: float) -> None:
        """Do what only time brings about: give up the executors of lost workers, record, admit, place and plan, then grow,
        notify and store. In between, calls are answered as they come. A failure in one application's turn, or in another
        part, keeps no other from its turn."""
        with self.outside.changing(now_s) as changes:
            self.parts.do("looking for silent workers", self.core.silence.look, now_s)
            self.parts.do("looking after hosted drivers", self.core.hosting.look, now_s)
            self.lifecycle.turns(self._dead_drivers(now_s), now_s)
            self.parts.do("looking after records", self._record, now_s)
            self.parts.do("splitting the time of pipelines", self._admit, now_s)
            changes.room()  # at the end of the block executors are placed, and agents woken that then come for new plans
        self.parts.do("starting and ending workers", self._grow, now_s)
        self.notify(now_s)
        self.parts.do("storing counters", self.registry.save_counters, now_s)
        self.outside.carry_out(self.core.take_effects(), now_s)
        self.store.catch_up(again=True)
        self.parts.do("emptying the store's log", self._empty_log, now_s)

    def _dead_drivers(self, now_s: float) -> set[str]:
        """Return the applications whose drivers were looked for and have ended."""
        dead = set[str]()
        for application in self.lifecycle.silent(now_s):
            with guarded(application, "looking for its driver"):
                if not application.record.registration.process.is_alive():
                    dead.add(application.id)
        return dead

    def _record(self, now_s: float) -> None:
        """Have records written, and take in which of them are written by now: other applications may wait for the end of
        those runs."""
        self.outside.carry_out(self.core.take_effects(), now_s)
        self.outside.recording.look(self.applications, now_s)
        self.outside.carry_out(self.core.take_effects(), now_s)

    def _admit(self, now_s: float) -> None:
        """Drop submissions that no longer ask, and split the time of pipelines among the jobs that are there now."""
        self.submissions.forget(now_s)
        self.core.pipelines.split_again(now_s)

    def _grow(self, now_s: float) -> None:
        """Take in what the provider has done by now, and let further workers be started or given back."""
        if self.growing is not None and self.outside.providing is not None:
            self.outside.providing.look(now_s)
            self.growing.step(now_s)

    def notify(self, now_s: float) -> None:
        """Look for what is to be sent to the operator's web hook, where there is one."""
        if self.notifying is not None:
            with self.parts.guarded("looking for what to notify of"):
                self.notifying.look(self.registry, now_s)

    def refused(self, name: str, reason: str, deadline_s: float | None) -> None:
        """Note that a submission of that name, which had asked for that deadline, was refused."""
        if self.notifying is not None:
            self.notifying.refused(name, reason, deadline_s)

    def close(self) -> None:
        """Wait for the records that are being written, then close the store."""
        self._pool.shutdown()
        self.store.close()

    def _empty_log(self, now_s: float) -> None:
        """Empty the log now and then, and soon where it is long or holds data that should not stay on the disk; raise the
        error of the last try."""
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

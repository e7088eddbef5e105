"""The agent process proper: wires runtime, loop, launcher and link, and ticks until it has to end.

`supervisor` starts it with its options as JSON on standard input. It writes one byte to standard output per tick, which is
the supervisor's proof of life. SIGTERM ends it cleanly: quotas are opened, executors go on. So does the supervisor's death,
because no one would look after the agent any more.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

from msgspec import structs

from controller.agent.executors.watching import end_executors, make_runtime, why_unguarded
from controller.agent.hosting import end_starts
from controller.agent.membership import NOT_ALONE, find_cluster, is_alone
from controller.agent.open_quotas import let_go_all, open_all
from controller.agent.parts import (
    driver_records,
    make_agent,
    make_driver_host,
    make_launcher,
    make_link,
    make_local_use,
    make_rating,
)
from controller.agent.rating import sharers_of
from controller.agent.supervisor import LEFT_CODE
from controller.agent.threads import Threads
from controller.asks.options import AgentOptions
from controller.home import Home
from controller.locks import child_lock
from controller.machine.back_off import BackOff
from controller.machine.process import allow_files
from controller.machine.service_log import log_to_stderr
from stage_model.errors import PaceError

log = logging.getLogger("sparkpace.agent")

LEAST_PAUSE_S = 0.05
"""Shortest time between two turns of the loop: stage events wake it no more often,"""
WOKEN_SHARE = 0.05
"""nor so often that being woken takes more than this part of a core: with a hundred executors there are many events."""
LONGEST_BACKOFF_S = 10.0
BEAT_S = 5.0
"""A control period may be longer than the supervisor's patience: a loop that waits for its turn beats this often."""
LINK_PATIENCE_S = 120.0
"""Each call of the link has a time-out of 30 s at most."""
STOP_PATIENCE_S = 300.0
START_PATIENCE_S = 3600.0
"""An image may be built for half an hour, and a class archive made after it."""
DISK_PATIENCE_S = 300.0
"""A disk may be slow."""
RATES_PATIENCE_S = 300.0
"""Each executor's network rates take some programs, each of which has a time-out of 5 s."""
STUCK_CODE = 70
OTHER_CLUSTER_CODE = 75
"""The next child asks the master again."""


class Child:
    """One life of the agent."""

    def __init__(self, options: AgentOptions, *, alone: bool = True) -> None:
        """`alone`: no other agent adopts executors of this machine."""
        self.options, self.alone = options, alone
        cluster_id, self._sure = find_cluster(options, alone=alone)
        self.runtime = make_runtime(options, cluster_id)
        self.launcher = make_launcher(options, self.runtime)
        self.local_use = make_local_use(options, self.launcher)
        self.agent = make_agent(options, self.launcher, self.local_use)
        self.rating = make_rating(options, cluster_id, self.launcher, self.agent)
        self.drivers = make_driver_host(options)
        self.wake, self.stop = threading.Event(), threading.Event()
        self._has_left = False
        self.threads = Threads(self.stop, self.agent.outbox.note)
        self.link = make_link(options, cluster_id, self.wake.set)

    def run(self) -> int:
        """Tick until SIGTERM, the supervisor's death, or a thread that hangs; return the exit code, 0 if all is well."""
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not self.alone:
            self.agent.outbox.note(NOT_ALONE)
        if reason := why_unguarded(self.options):
            self.agent.outbox.note(reason)
        self._tick()
        self._beat()
        self._begin_threads()
        back_off, failures = BackOff(self.options.period_s, LONGEST_BACKOFF_S), 0
        due_s = time.monotonic()
        while not self.stop.is_set():
            spent_s = time.process_time()
            due_s = max(due_s + self.agent.next_period_s(), time.monotonic())
            self._wait_until(due_s)
            if self.wake.is_set():
                self.wake.clear()
                due_s = time.monotonic()
            try:
                self._tick()
                failures = 0
                self._beat()
            except Exception:
                # the one place that catches everything: a failed tick leaves the last quotas and is tried again
                log.exception("control period failed")
                failures += 1
                self.stop.wait(back_off.wait_s(failures))
            stuck = [*self.threads.check(), *([] if self.runtime.alive() else [self.options.runtime])]
            if stuck:
                log.error("the threads %s hang or ended; the agent's child ends, to be started again", ", ".join(stuck))
                return STUCK_CODE
            if self._has_left:
                self._end_executors()
                return LEFT_CODE
            orders = self.link.orders
            if orders.foreign and not self._sure:
                log.error("the master is of cluster %s, not %s as records here say", orders.foreign, orders.cluster_id)
                self._release()  # no agent will know these executors any longer
                return OTHER_CLUSTER_CODE
            self.stop.wait(pause_s(time.process_time() - spent_s, self.options.period_s))
        released = self._release()
        self.runtime.close()
        return 0 if released else 1  # the supervisor opens the quotas of the executors that are left

    def _begin_threads(self) -> None:
        add, stop, wake, launcher = self.threads.add, self.stop, self.wake.set, self.launcher
        add("link", lambda beat: self.link.run_sync(stop, beat), patience_s=LINK_PATIENCE_S)
        add("notices", lambda beat: self.link.run_notices(stop, beat), patience_s=LINK_PATIENCE_S)
        add("starts", lambda beat: launcher.run_starts(wake, stop, beat), patience_s=START_PATIENCE_S)
        add("stops", lambda beat: launcher.run_stops(wake, stop, beat), patience_s=STOP_PATIENCE_S)
        places = self.agent.executors.places
        add("drivers", lambda beat: self.drivers.run(wake, stop, beat), patience_s=START_PATIENCE_S)
        add("disk", lambda beat: self.local_use.run(places, wake, stop, beat), patience_s=DISK_PATIENCE_S)
        add("rates", lambda beat: self.rating.run(stop, beat), patience_s=RATES_PATIENCE_S)

    def _release(self) -> bool:
        """Lift all limits at a clean stop; return True if no executor is held back any longer."""
        if self.agent.worker.adopts:
            log.warning("executors are let go: the agent was stopped")
            return let_go_all(self.runtime, self._beat)
        cores = self.agent.executors.node_cores
        released = open_all(self.runtime, cores) & self._lift_rates()
        log.warning("quotas opened to %.2f cores and rates lifted: the agent was stopped", cores)
        return released

    def _lift_rates(self) -> bool:
        """Lift the rates, which takes some programs; return True if none is left."""
        with ThreadPoolExecutor(1) as pool:
            lifted = pool.submit(self.rating.close)
            while not lifted.done():
                self._beat()
                wait((lifted,), BEAT_S)
        return lifted.result()

    def _wait_until(self, due_s: float) -> None:
        while (left_s := due_s - time.monotonic()) > BEAT_S and not self.wake.wait(BEAT_S):
            self._beat()
        self.wake.wait(max(0.0, left_s))

    def _beat(self) -> None:
        """Give the supervisor proof of life; without a supervisor this child ends, too."""
        try:
            os.write(1, b".")
        except BrokenPipeError:
            log.error("the supervisor is gone, so nothing looks after this agent: it ends")
            self._asked_to_stop()

    def _asked_to_stop(self, *_: object) -> None:
        self.stop.set()
        self.wake.set()

    def _tick(self) -> None:
        for reply, sent, at_s in self.link.take():
            self.agent.receive(reply.desired, at_s)
            self.drivers.take(reply.desired)
            self.agent.outbox.acknowledge(reply.samples_acknowledged, sent.notes, at_s)
            self._has_left = self._has_left or sent.leaves
        self.link.post(structs.replace(self.agent.run_once(), drivers=self.drivers.reports()))
        agent = self.agent
        sharers = sharers_of(agent.known, agent.plans, agent.state, self.launcher.clock())
        self.rating.post(tuple(agent.state.executors), sharers)
        self._has_left = self._has_left or self.agent.is_overdue

    def _end_executors(self) -> None:
        """End the executors and the hosted drivers of this worker, which the master has ended; executors of other cluster
        managers are let go."""
        log.warning("the master has ended this worker, so its agent ends, with %d executor(s)", len(self.agent.known))
        self.drivers.close()
        self._release()  # an executor that cannot be ended is not held back at least
        self.runtime.close()
        # an engine may take longer than the supervisor's patience
        ending = threading.Thread(target=self._end_all, name="end executors", daemon=True)
        ending.start()
        while ending.is_alive():
            self._beat()
            ending.join(BEAT_S)

    def _end_all(self) -> None:
        try:
            end_executors(self.options, self.link.orders.cluster_id)
        except PaceError as error:
            log.error("executors may be left: %s", error)
        try:
            end_starts(driver_records(self.options))
        except PaceError as error:
            log.error("%s", error)


def pause_s(cpu_s: float, period_s: float) -> float:
    """Return the seconds that the loop cannot be woken after a turn that took `cpu_s` of CPU; the next period comes in time
    all the same."""
    return min(period_s, max(LEAST_PAUSE_S, cpu_s / WOKEN_SHARE))


def main() -> int:
    allow_files()
    options = AgentOptions.from_json(sys.stdin.buffer.read())
    log_to_stderr(Home(options.home).logs)
    try:
        with child_lock(Home(options.home), options.worker_id, options.runtime):
            return Child(options, alone=is_alone(options)).run()
    except PaceError as error:
        log.error("%s", error)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

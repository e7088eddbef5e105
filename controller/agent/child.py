"""The agent process proper: wires runtime, loop, launcher and link, and ticks until told to end.

Started by `supervisor` with its options as JSON on standard input; writes one byte to standard output per tick, which is
the supervisor's proof of life. SIGTERM ends it cleanly: quotas are opened, executors go on.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
import threading
import time
import uuid

from controller.agent.launch import Site
from controller.agent.launcher import Launcher
from controller.agent.link import Gate, Link
from controller.agent.loop import Agent, Received
from controller.agent.site import make_runtime, make_site, make_worker
from controller.home import Home
from controller.messages import WorkerReply, WorkerSync
from controller.options import AgentOptions
from stage_model.errors import PaceError
from stage_model.settings import QuotaSettings

log = logging.getLogger("sparkpace.agent")

LEAST_PAUSE_S = 0.05
"""Stage events wake the loop, but not more often than this,"""
WOKEN_SHARE = 0.05
"""and not so often that being woken takes more than this part of a core: with a hundred executors there are many."""
LONGEST_BACKOFF_S = 10.0


class Child:
    """One life of the agent."""

    def __init__(self, options: AgentOptions) -> None:
        self.options = options
        home = Home(options.home)
        self.gate = Gate()
        cluster_id = _cluster_id(options, home)
        self.gate.cluster_id = cluster_id
        self.runtime = make_runtime(options, cluster_id)
        site: Site = make_site(options)
        launcher = Launcher(self.runtime, site, options.home / "agents" / options.worker_id)
        self.agent = Agent(
            make_worker(options),
            site,
            self.runtime,
            launcher,
            instance=uuid.uuid4().hex[:12],
            period_s=options.period_s,
            quota=QuotaSettings(period_s=options.period_s, floor=options.floor),
        )
        self.launcher = launcher
        self.wake, self.stop = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._report: WorkerSync | None = None
        self._replies: list[tuple[WorkerReply, WorkerSync, float]] = []
        self.link = Link(options.master_url, home.admin_token(), options.worker_id, self.gate, self._newest, self._deliver)

    def run(self) -> None:
        """Ticks until SIGTERM."""
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._tick()
        threads = (
            threading.Thread(target=self.link.run_sync, args=(self.options.period_s, self.stop), daemon=True),
            threading.Thread(target=self.link.run_notices, args=(self.stop,), daemon=True),
            threading.Thread(target=self.launcher.run, args=(self.wake.set, self.stop), daemon=True),
        )
        for thread in threads:
            thread.start()
        backoff_s = 0.0
        due_s = time.monotonic()
        while not self.stop.is_set():
            spent_s = time.process_time()
            due_s = max(due_s + self.options.period_s, time.monotonic())
            self.wake.wait(max(0.0, due_s - time.monotonic()))
            if self.wake.is_set():
                self.wake.clear()
                due_s = time.monotonic()
            try:
                self._tick()
                backoff_s = 0.0
            except Exception:
                # the one place that catches everything: a failed tick leaves the last quotas and is tried again
                log.exception("control period failed")
                backoff_s = min(LONGEST_BACKOFF_S, max(self.options.period_s, 2 * backoff_s))
                self.stop.wait(backoff_s)
            self.stop.wait(pause_s(time.process_time() - spent_s, self.options.period_s))
        self.agent.fail_open("the agent was stopped")
        self.runtime.close()

    def _asked_to_stop(self, *_: object) -> None:
        self.stop.set()
        self.wake.set()

    def _tick(self) -> None:
        with self._lock:
            replies, self._replies = self._replies, []
        for reply, sent, at_s in replies:
            self.agent.received = Received(reply.desired, at_s)
            self.agent.acknowledge(reply.samples_acknowledged, sent.notes, at_s)
        report = self.agent.run_once()
        with self._lock:
            self._report = report
        self.link.send_now.set()
        os.write(1, b".")

    def _newest(self) -> WorkerSync:
        with self._lock:
            assert self._report is not None
            return self._report

    def _deliver(self, reply: WorkerReply, sent: WorkerSync) -> None:
        with self._lock:
            self._replies.append((reply, sent, time.monotonic()))
        received = self.agent.received
        if received is None or received.desired.version != reply.desired.version:
            self.wake.set()


def pause_s(cpu_s: float, period_s: float) -> float:
    """How long the loop cannot be woken after a turn that took `cpu_s` of CPU; the next period comes in time all the same."""
    return min(period_s, max(LEAST_PAUSE_S, cpu_s / WOKEN_SHARE))


def _cluster_id(options: AgentOptions, home: Home) -> str:
    """The cluster this worker belongs to: asked of the master once, then kept in a file; a restart needs no master."""
    path = options.home / "agents" / options.worker_id / "cluster_id"
    if path.exists():
        return path.read_text().strip()
    from controller.client import MasterClient

    cluster_id = MasterClient(options.master_url, home.admin_token()).health().cluster_id
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(cluster_id + "\n")
    return cluster_id


def allow_files() -> None:
    """As many open files as the system lets this process have: each executor keeps six, so 1,024 would end at some 150."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> int:
    allow_files()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    options = AgentOptions.from_json(sys.stdin.buffer.read())
    try:
        Child(options).run()
    except PaceError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

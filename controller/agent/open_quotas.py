"""Opens the quotas of a worker: every running executor gets all its cores, so that a job may become expensive, never stuck.

`open_all` is what an agent does at a clean stop, unless it has adopted its executors: those it lets go. As a program it is
what the supervisor runs when its child is stuck, in a process of its own. No engine is waited for where an agent has left
records of its executors.
"""

from __future__ import annotations

import logging
import sys

from controller.agent.site import make_runtime
from controller.home import Home
from controller.options import AgentOptions
from controller.runtime.base import ExecutorKey, Runtime
from controller.service_log import log_to_stderr
from controller.waiting import wait_until
from stage_model.errors import PaceError

log = logging.getLogger("sparkpace.agent")

LET_GO_S = 6.0
"""Longest wait for executors to have what they had; the supervisor waits 10 s for a child to end."""


def open_all(runtime: Runtime, cores: float) -> bool:
    """Gives every running executor `cores`; whether all of them have it. One that fails keeps none of the others waiting."""
    failed = 0
    for key, seen in runtime.observe().items():
        if not seen.running:
            continue
        try:
            runtime.set_quota(key, cores)
        except Exception:
            failed += 1
            log.exception("the quota of executor %s of %s was not opened", *key[::-1])
    return not failed


def let_go_all(runtime: Runtime) -> bool:
    """Executors of another cluster manager have what they had before they were adopted, and no trace of that is left; whether
    all have."""
    failed = set[ExecutorKey]()
    for key, seen in runtime.observe().items():
        try:
            if seen.running:
                runtime.stop(key)
        except Exception:
            failed.add(key)
            log.exception("executor %s of %s was not let go", *key[::-1])
    # some need a server for it, which takes a moment
    wait_until(lambda: not any(seen.running for key, seen in runtime.observe().items() if key not in failed), LET_GO_S)
    for key in runtime.observe():
        try:
            runtime.remove(key)
        except Exception:
            failed.add(key)
            log.exception("executor %s of %s was not let go", *key[::-1])
    return not failed


def main() -> int:
    options = AgentOptions.from_json(sys.stdin.buffer.read())
    log_to_stderr(Home(options.home).logs)
    try:
        cluster_id = (options.home / "agents" / options.worker_id / "cluster_id").read_text().strip()
    except FileNotFoundError:
        return 0  # it never joined a cluster, so it never started anything
    try:
        runtime = make_runtime(options, cluster_id)
    except PaceError as error:
        log.error("the quotas were not opened: %s", error)
        return error.exit_code
    try:
        return 0 if open_all(runtime, options.cores) else 1
    finally:
        runtime.close()


if __name__ == "__main__":
    sys.exit(main())

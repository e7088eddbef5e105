"""Opening of a worker's quotas: every running executor gets all its cores, so that a job may become expensive, never stuck.
Rates of disk and network are lifted, too.

An agent calls `open_all` at a clean stop, or `let_go_all` if it has adopted its executors. The supervisor runs this module as
a program, in a process of its own, when its child is stuck. No engine is waited for where an agent has left records of its
executors.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from controller.agent.executors.watching import make_runtime
from controller.agent.membership import claim_machine, recall_cluster
from controller.agent.rating import lift_rates
from controller.agent.site import cores_here
from controller.asks.options import AgentOptions
from controller.home import Home
from controller.machine.service_log import log_to_stderr
from controller.machine.waiting import wait_until
from controller.runtime.base import ExecutorKey, Runtime
from stage_model.errors import PaceError

log = logging.getLogger("sparkpace.agent")

OPENED_S = 6.0
"""Longest wait for a server to accept quotas; the supervisor gives the whole program 15 s, and tries again."""
CLAIMED_S = 2.0
"""Longest wait for the claim of the machine, which a child that was just killed may hold for a moment."""
LET_GO_S = 60.0
"""Longest wait for executors to get back their former quotas, for which a server may have to be asked."""
NEWS_S = 10.0
"""The wait ends earlier if no executor has got them back for this long."""


def open_all(runtime: Runtime, cores: float, *, within_s: float = OPENED_S) -> bool:
    """Give every running executor `cores`; return True if all have them. A failure keeps no other executor waiting."""
    failed = set[ExecutorKey]()
    for key, seen in runtime.observe().items():
        if not seen.running:
            continue
        try:
            runtime.set_quota(key, cores)
        except Exception:
            failed.add(key)
            log.exception("the quota of executor %s was not opened", key.text)
    wait_until(lambda: not runtime.held_back(), within_s)
    for key, reason in runtime.held_back().items():
        failed.add(key)
        log.error("the quota of executor %s was not opened (%s)", key.text, reason)
    return not failed


def let_go_all(runtime: Runtime, beat: Callable[[], None] = lambda: None, *, news_s: float = NEWS_S) -> bool:
    """Give executors of another cluster manager back their quotas from before they were adopted, and leave no trace; return
    True if all have them. An executor without its former quota is logged, and its record stays for the next agent. `beat` is
    called once in `news_s`."""
    failed = dict[ExecutorKey, str]()
    for key, seen in runtime.observe().items():
        if seen.running and (reason := _why_not(runtime.stop, key)):
            failed[key] = reason
    _wait_while_they_go(
        lambda: sum(seen.running for key, seen in runtime.observe().items() if key not in failed), beat, news_s
    )
    gone = 0
    for key, seen in runtime.observe().items():
        if seen.running:
            failed.setdefault(key, seen.remark or "there is no answer yet")
        elif reason := _why_not(runtime.remove, key):
            failed[key] = reason
        else:
            gone += 1
    for key, reason in failed.items():
        log.error("executor %s was not let go (%s); the next agent tries again", key.text, reason)
    log.warning("executors let go: %d, not let go: %d", gone, len(failed))
    return not failed


def _why_not(act: Callable[[ExecutorKey], None], key: ExecutorKey) -> str:
    """Return the reason of a failure, as a sentence; empty if there is no failure."""
    try:
        act(key)
    except PaceError as error:
        return str(error)
    except Exception as error:
        # an unforeseen error keeps none of the others waiting
        log.exception("executor %s was not let go", key.text)
        return str(error) or type(error).__name__
    return ""


def _wait_while_they_go(left: Callable[[], int], beat: Callable[[], None], news_s: float) -> None:
    """Wait until no executor is left, for as long as there are fewer from time to time."""
    for _ in range(round(LET_GO_S / news_s)):
        before = left()
        beat()
        if wait_until(lambda: not left(), news_s) or left() >= before:
            return


def main() -> int:
    options = AgentOptions.from_json(sys.stdin.buffer.read())
    log_to_stderr(Home(options.home).logs)
    cluster_id = recall_cluster(options, lambda: wait_until(claim_machine, CLAIMED_S))
    if not cluster_id:
        return 0  # it never joined a cluster, so it never started anything
    try:
        runtime = make_runtime(options, cluster_id)
    except PaceError as error:
        log.error("the quotas were not opened: %s", error)
        return error.exit_code
    try:
        opened = open_all(runtime, cores_here(options))
        return 0 if lift_rates(options, cluster_id, runtime) and opened else 1
    finally:
        runtime.close()


if __name__ == "__main__":
    sys.exit(main())

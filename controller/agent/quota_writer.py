"""The writing of the quotas that a period has decided on: lowering ones first, so that their sum never passes a node's cores.

A quota that could not be written is tried again in the next period, and the others are written all the same.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

from controller.agent.core.step import SAME_CORES, ExecutorHistory, Orders, QuotaChange
from controller.agent.timings import PeriodTimings
from controller.runtime.base import ExecutorKey, Observed, Runtime
from stage_model.errors import RuntimeFailed

log = logging.getLogger("sparkpace.agent")


class QuotaWriter:
    """The writer of one worker's quotas. `node_cores` are the cores of each of its nodes; `note` takes a line for the master,
    `clock` is monotonic seconds."""

    def __init__(
        self,
        runtime: Runtime,
        node_cores: float,
        timings: PeriodTimings,
        note: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self.runtime = runtime
        self._node_cores, self._timings, self._note, self._clock = node_cores, timings, note, clock

    def write(
        self,
        orders: Orders,
        observed: Mapping[ExecutorKey, Observed],
        histories: Mapping[ExecutorKey, ExecutorHistory],
        starting: Mapping[ExecutorKey, float],
    ) -> None:
        """Write the changed quotas; the `histories` say why a quota changes. After a lowering that failed, and while an
        executor starts, a quota is raised only where its node has room for that. `starting` has the most cores with which
        each executor that is not observed yet can show up; such an executor counts on the node without a name.
        """
        seen = {key: observed[key] for key in orders.grants if key in observed}
        current = {key: one.quota_cores for key, one in seen.items() if one.running and not one.watched}
        lowered = True
        for change in orders.changes:
            node = observed[change.key].node
            there = {key: cores for key, cores in current.items() if observed[key].node == node}
            arriving = {} if node else starting
            history = histories.get(change.key)
            reason = history.decision.reason if history and history.decision else ""
            fits = change.lowers or (lowered and not arriving) or self._has_room({**there, **arriving}, change)
            if fits and self._set(change, reason):
                current[change.key] = change.cores
            elif change.lowers:
                lowered = False

    def _has_room(self, current: Mapping[ExecutorKey, float | None], change: QuotaChange) -> bool:
        """Return True if the raise keeps the sum of the quotas really set within the node."""
        others = sum(math.inf if cores is None else cores for key, cores in current.items() if key != change.key)
        return others + change.cores <= self._node_cores + SAME_CORES

    def _set(self, change: QuotaChange, reason: str) -> bool:
        """Write the quota; return False, and note it, if that failed. A gone executor needs none: that counts as written."""
        begun_s = self._clock()
        try:
            self.runtime.set_quota(change.key, change.cores)
        except Exception as error:
            self._timings.add_quota_write(self._clock() - begun_s, written=False)
            if not isinstance(error, RuntimeFailed):
                log.exception("quota %s", change.key.text)  # unforeseen; the other executors get theirs all the same
            self._note(f"quota of executor {change.key.executor_id} was not set and will be tried again: {error}")
            return False
        self._timings.add_quota_write(self._clock() - begun_s, written=True)
        before = "none" if change.before is None else f"{change.before:.2f}"
        log.info("quota %s %s -> %.2f cores: %s", change.key.text, before, change.cores, reason)
        return True

"""The state of the runtime `kubernetes`: pods as last seen, a map of executors with their quotas, and which patch is due.

One lock guards it. No thread that holds it waits for a server, or writes a record.

After each failure the wait is longer. A failure that concerns a pod holds back only that pod: 409, 500, an answer that is
late or cannot be read. A failure that concerns the server holds back all: no connection, 503, and 429, because API Priority
and Fairness counts the calls of a user together. By Kubernetes' API conventions, `Retry-After` says how long to wait then.
A failure is reported once it has lasted: a server that has just started denies what it allows a moment later.

Not here: which limit is patched (`pod_resize`), and who watches and patches (`executors`).
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from controller.machine.back_off import BackOff
from controller.runtime.base import ExecutorKey, Observed
from controller.runtime.executor_record import PodRecord
from controller.runtime.kubernetes import pod_resize
from controller.runtime.kubernetes.api import PodLater, ServerLater
from controller.runtime.kubernetes.pod_cpu import PodCpu
from controller.runtime.kubernetes.pod_resize import Bound, LimitGoal

log = logging.getLogger(__name__)

BACK_OFF = BackOff(first_s=0.5, most_s=30.0)
LASTING_S, LOGGED = 2.0, 3
"""Seconds from a first failure after which it is reported of executors, and the number of failures after which it is logged
that pods are not seen, for there may be no executors."""
LATE_S = 10.0
"""Time after which a limit that its server has accepted and its node has not put into force is reported."""
SHOWN_S = 30.0
"""Time for which another writer is reported."""
LEFT = "it is paced no more"


@dataclass(slots=True)
class Pause:
    """A pause in tries: no try before `until_s`, after `failures` in a row, the first at `since_s`, the last because of
    `why`."""

    until_s: float = -math.inf
    failures: int = 0
    since_s: float = math.inf
    why: str = ""

    def failed(self, why: str, now_s: float, asked_s: float = 0.0) -> None:
        """Book a failure; the other side asked for `asked_s` seconds."""
        self.why, self.failures, self.since_s = why, self.failures + 1, min(self.since_s, now_s)
        self.until_s = now_s + max(BACK_OFF.wait_s(self.failures), min(BACK_OFF.most_s, asked_s))

    def trouble(self, now_s: float) -> str:
        """Return the reason of a failure that has lasted; else ""."""
        return self.why if now_s - self.since_s >= LASTING_S else ""


@dataclass(slots=True)
class PacedExecutor:
    """An executor. `quota`: the newest one, in cores; `parting`: it has been let go, and its pod is given back what it had.
    `sent_m` and `sent_s`: the last patch of its pod; `has_m`: the limit that the server has then, None while that is not
    known. `bound`: what the cluster has refused. `lag`: the limit in force where it is not the pod's, and since when.
    `other_s`: when another writer's limit was seen last; `due_s`: when to look for a patch."""

    path: Path
    record: PodRecord
    last: Observed
    quota: float | None = None
    parting: bool = False
    sent_s: float = -math.inf
    sent_m: int | None = None
    has_m: int | None = None
    bound: Bound | None = None
    pause: Pause = field(default_factory=Pause)
    lag: tuple[int | None, float] | None = None
    other_s: float = -math.inf
    due_s: float = math.inf

    @property
    def running(self) -> bool:
        return self.last.running

    @property
    def unsure(self) -> bool:
        """True if the outcome of the last patch is not known."""
        return self.sent_s > -math.inf and self.has_m is None

    def goal(self, pod: PodCpu) -> LimitGoal | None:
        """Return the goal of the executor's pod; None if the pod is left as it is."""
        if self.parting:
            return pod_resize.goal_back(pod, self.record.limit_m, self.record.slots)
        return None if self.quota is None else pod_resize.goal(pod, self.quota)

    def refusal(self, pod: PodCpu) -> str:
        """Return the cluster's words if it has refused what the pod should have; else ""."""
        bound, wanted = self.bound, self.goal(pod)
        return bound.words if bound and wanted and wanted.limit_m >= bound.limit_m else ""

    def over(self, reason: str) -> None:
        self.quota, self.parting, self.due_s = None, False, math.inf
        self.last = replace(self.last, running=False, quota_cores=None, ordered_cores=None, reason=reason, remark="", risk="")


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch that is on its way. `parting`: its executor had been let go before the patch was made."""

    executor: PacedExecutor
    pod: PodCpu
    limit_m: int
    parting: bool


class PacedPods:
    """All pods and executors. `changed` guards them; every reader or writer of a field holds it. `away`: failures to see
    pods; `pause`: of all patches; `too_old`: why the server can resize no pod."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.changed = threading.Condition()
        self.by_uid: dict[str, PodCpu] = {}
        self.known: dict[ExecutorKey, PacedExecutor] = {}
        self.listed = self.closing = False
        self.too_old = ""
        self.away, self.pause = Pause(), Pause()

    # ---------------------------------------------------------------- executors

    def remember(self, path: Path, record: PodRecord) -> PacedExecutor:
        made = PacedExecutor(path, record, Observed(record.key, True, None, 0.0, 0, counted=False))
        self.known[record.key] = made
        return made

    def find_running(self, key: ExecutorKey) -> PacedExecutor | None:
        found = self.known.get(key)
        return found if found is not None and found.running else None

    def want(self, executor: PacedExecutor, cores: float) -> None:
        """Take the newest quota; do nothing for an executor that is only watched."""
        if not executor.record.watched:
            executor.quota = cores
            self._look_at(executor)

    def let_go(self, executor: PacedExecutor) -> None:
        """Begin to give back what the executor's pod had. Where there is nothing to give back, it is over at once."""
        pod, record = self.by_uid.get(executor.record.uid), executor.record
        untouched = record.limit_m is None and executor.sent_s == -math.inf
        if record.watched or pod is None or pod.leaving or (untouched and pod.limit_m is None):
            executor.over(LEFT)
            return
        executor.parting, executor.pause = True, Pause()
        self._look_at(executor)

    def _look_at(self, executor: PacedExecutor) -> None:
        """Have the thread that patches look at the executor."""
        if executor.running:
            executor.due_s = min(executor.due_s, self._clock())
            self.changed.notify_all()

    def show(self, executor: PacedExecutor) -> Observed:
        pod, now_s = self.by_uid.get(executor.record.uid), self._clock()
        if not executor.running or not self.listed:
            return executor.last
        if pod is None or pod.ended:
            executor.over("it ended")
            return executor.last
        risk = self._risk(executor, pod, now_s)
        executor.last = replace(
            executor.last,
            quota_cores=None if pod.in_force_m is None else pod.in_force_m / 1000,
            ordered_cores=executor.quota,
            least_cores=(pod.request_m or 0) / 1000,
            node=pod.node,
            remark=self.away.trouble(now_s) or risk or _remark(executor, pod, now_s),
            risk=risk,
        )
        return executor.last

    def _risk(self, executor: PacedExecutor, pod: PodCpu, now_s: float) -> str:
        waits = executor.due_s < math.inf
        reason = executor.refusal(pod) or executor.pause.trouble(now_s) or (self.pause.trouble(now_s) if waits else "")
        if executor.parting:
            return reason and f"its pod was not given back what it had ({reason}); its record stays, and it is tried again"
        return reason or pod_resize.why_not_resized(pod)

    def held_back(self) -> dict[ExecutorKey, str]:
        """Return the executors whose pod may not have as much as is wished yet, each with the reason as a sentence."""
        found = {}
        for key, executor in self.known.items():
            if executor.quota is None or not self.show(executor).running:
                continue
            pod = self.by_uid.get(executor.record.uid)
            wanted = executor.goal(pod) if pod else None
            if pod is None or wanted is None or executor.unsure or wanted.is_above(pod):
                why = self.away.why or (executor.refusal(pod) if pod else "") or executor.pause.why or self.pause.why
                found[key] = why or "the API server has not accepted it yet"
        return found

    # ---------------------------------------------------------------- what is seen

    def saw_all(self, pods: Iterable[PodCpu]) -> None:
        if self.away.failures >= LOGGED:
            log.warning("the API server answers again")
        before = self.by_uid
        self.by_uid = {pod.uid: _newer(pod, before.get(pod.uid)) for pod in pods}
        self.listed, self.away = True, Pause()
        for executor in self.known.values():
            self._saw(executor)
        self.changed.notify_all()

    def saw(self, pod: PodCpu, *, there: bool) -> None:
        """Take over one pod, or its end."""
        if there:
            self.by_uid[pod.uid] = _newer(pod, self.by_uid.get(pod.uid))
        else:
            self.by_uid.pop(pod.uid, None)
        for executor in self.known.values():
            if executor.record.uid == pod.uid:
                self._saw(executor)

    def _saw(self, executor: PacedExecutor) -> None:
        pod, now_s = self.by_uid.get(executor.record.uid), self._clock()
        if pod is None:
            return
        if executor.unsure and pod.limit_m == executor.sent_m:  # the answer is late, or was lost
            executor.has_m = pod.limit_m
        if executor.has_m not in (None, pod.limit_m):
            executor.has_m, executor.other_s = pod.limit_m, now_s
        if not pod_resize.differs(pod.in_force_m, pod.limit_m):
            executor.lag = None
        elif executor.lag is None or executor.lag[0] != pod.in_force_m:
            executor.lag = (pod.in_force_m, now_s)
        self._look_at(executor)

    def lost(self, reason: str) -> None:
        self.away.failed(reason, self._clock())
        if self.away.failures == LOGGED:
            log.warning("%s", reason)
        self.changed.notify_all()

    # ---------------------------------------------------------------- patches

    def next(self) -> Patch | None:
        """Wait for the next patch that is due and return it; None at the end. The caller reports by `book` what became of
        it."""
        with self.changed:
            while not self.closing:
                if (patch := self.due()) is not None:
                    return patch
                next_s = min((executor.due_s for executor in self.known.values()), default=math.inf)
                next_s = max(next_s, self.pause.until_s)
                self.changed.wait(None if next_s == math.inf else max(0.0, next_s - self._clock()))
            return None

    def due(self) -> Patch | None:
        """Return the next patch like `next`, but None if none is due now."""
        now_s = self._clock()
        if now_s < self.pause.until_s:
            return None
        waiting = sorted((one.due_s, one.record.key) for one in self.known.values() if one.due_s <= now_s)
        patches = (self._patch_of(self.known[key], now_s) for _, key in waiting)
        return next((patch for patch in patches if patch is not None), None)

    def _patch_of(self, executor: PacedExecutor, now_s: float) -> Patch | None:
        """Return the patch to send for the executor now, if any; note when to look again."""
        executor.due_s = math.inf
        pod = self.by_uid.get(executor.record.uid)
        wanted = executor.goal(pod) if pod and not pod.ended else None
        if pod is None or wanted is None:
            return None
        now = pod_resize.within(executor.bound, wanted, pod, now_s)
        if now is not None and (executor.unsure or not now.is_reached(pod)):
            executor.due_s = max(executor.sent_s + pod_resize.INTERVAL_S, executor.pause.until_s)
            if executor.due_s > now_s:
                return None
            executor.sent_s, executor.sent_m, executor.has_m = now_s, now.limit_m, None
            return Patch(executor, pod, now.limit_m, executor.parting)
        if now != wanted and executor.bound is not None:
            executor.due_s = max(executor.bound.again_s, now_s + pod_resize.INTERVAL_S)
            return None
        executor.pause = Pause()
        if executor.parting:
            executor.over(LEFT)
        return None

    def book(self, patch: Patch, pod: PodCpu | None, error: PodLater | ServerLater | None = None) -> None:
        """Book what became of a patch: `pod` is what the server has then, if it says so."""
        executor, had_m, now_s = patch.executor, patch.pod.limit_m, self._clock()
        if isinstance(error, ServerLater):
            self.pause.failed(str(error), now_s, error.asked_s)
            self.too_old = str(error) if error.too_old else ""
        else:
            self.pause, self.too_old = Pause(), ""
        if error is None:
            executor.has_m, executor.pause = None if pod is None else patch.limit_m, Pause()
            executor.bound = pod_resize.accepted(executor.bound, patch.limit_m)
        elif patch.parting != executor.parting:
            pass  # an earlier wish, which was under way when the executor was let go: giving back waits for nothing
        elif isinstance(error, PodLater) and error.refused and (had_m is None or patch.limit_m > had_m):
            executor.has_m, executor.pause = had_m, Pause()
            executor.bound = pod_resize.refused(executor.bound, patch.limit_m, str(error), now_s)
        elif isinstance(error, PodLater):
            executor.pause.failed(str(error), now_s)
        if pod is not None and pod.uid in self.by_uid:  # else it went meanwhile
            self.saw(pod, there=True)
        self._look_at(executor)


def _remark(executor: PacedExecutor, pod: PodCpu, now_s: float) -> str:
    """Return what the operator should know of an executor whose limit the server takes in."""
    if executor.lag is not None and now_s - executor.lag[1] > LATE_S:
        return (
            f"its node {pod.node} has not put a limit in force that the API server accepted more than {LATE_S:g} s ago; look "
            "whether its kubelet runs"
        )
    if now_s - executor.other_s <= SHOWN_S:
        return (
            "somebody else writes its CPU limit, too, and quotas move to and fro; leave each pod to one agent, and let no "
            "one else resize it"
        )
    # no risk: it lasts as long as the pod, and while a risk lasts the user learns of no other
    return "" if executor.parting else pod_resize.why_not_slowed(pod, executor.record.slots)


def _newer(pod: PodCpu, known: PodCpu | None) -> PodCpu:
    """Return the newer of the two: an answer to a patch may come before what was watched until then."""
    return known if known is not None and known.version > pod.version else pod

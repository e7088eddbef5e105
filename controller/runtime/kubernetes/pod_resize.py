"""An executor's pod and its CPU limit, in thousandths of a core: the patch that is due, and the sentences for people. Pure.

The limit follows the grant and is always above the pod's request. The request is never patched, so a resize needs no room on
a node, counts for no quota of requests, and gives away nothing that the job has. The QoS class stays the same: the CPU limit
of a Burstable pod never equals its CPU request, because the memory limit of Spark's pods equals their memory request. A
Guaranteed pod, whose limit and request are equal, is refused. A patch never names memory.

The runtime does not ask for the most that the cluster allows (a quota, a LimitRange): it approaches a refused limit by
halves.

After each failure the wait is longer. A failure is reported once it has lasted: a server that has just started denies a call
that it allows a moment later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from controller.machine.back_off import BackOff
from controller.runtime.base import Observed
from controller.runtime.executor_record import PodRecord
from controller.runtime.kubernetes.pod_cpu import BEST_EFFORT, GUARANTEED, PodCpu, shortened
from stage_model.errors import RuntimeFailed

FLOOR_M, STEP_M = 10, 10
"""Floor and step. A node enforces no limit below 10."""
THRESHOLD_M, THRESHOLD_SHARE = 50, 0.2
"""Thresholds: a change below both is not worth a patch, which costs about 23 ms of CPU over all components."""
INTERVAL_S = 1.0
"""Time between two patches of one pod."""
RETRY_S = 30.0
"""Time after which a limit that was refused is tried again."""
BACK_OFF = BackOff(first_s=0.5, most_s=30.0)
LASTING_S = 2.0
"""Time from a first failure after which it is reported."""
LATE_S = 10.0
"""Time after which a limit that its server has accepted and its node has not put into force is reported."""
SHOWN_S = 30.0
"""Time for which another writer is reported."""
REQUESTS = "spark.kubernetes.executor.request.cores"
LEFT = "it is no longer paced"


def why_not_paced(pod: PodCpu) -> str:
    """Return the reason why this pod's limit can never move, as a sentence; empty if it can."""
    if pod.qos == BEST_EFFORT or (pod.limit_m is None and pod.request_m is None):
        return f"its pod has neither a CPU request nor a CPU limit, and Kubernetes does not allow adding one; set {REQUESTS}"
    if pod.qos == GUARANTEED:
        return (
            "its pod is Guaranteed (its CPU limit equals its request), and Kubernetes does not allow moving one without the "
            f"other; set {REQUESTS} below spark.kubernetes.executor.limit.cores"
        )
    return ""


def goal(pod: PodCpu, cores: float) -> int:
    """Return the limit for a grant of that many cores. It is never equal to the request: with equal amounts of memory that
    would be another QoS class, which is refused."""
    return max(STEP_M * round(1000 * cores / STEP_M), FLOOR_M, (pod.request_m or 0) + 1)


def differs(has_m: int | None, limit_m: int | None) -> bool:
    """Return True if the change from one limit to the other is worth a patch."""
    if has_m is None or limit_m is None:
        return has_m != limit_m
    return abs(limit_m - has_m) >= max(1, min(THRESHOLD_M, THRESHOLD_SHARE * has_m))


class ServerLater(RuntimeFailed):
    """No server answers, or the server cannot carry out the call now. `asked_s`: seconds in which it wants no further call,
    by its `Retry-After`."""

    def __init__(self, sentence: str, asked_s: float = 0.0) -> None:
        super().__init__(sentence)
        self.asked_s = asked_s


class TooOld(ServerLater):
    """The server that answers cannot resize any pod."""

    def __init__(self) -> None:
        super().__init__(
            "pacing by the API server needs Kubernetes 1.33 or newer, and this one cannot resize pods; start an agent with "
            "`--runtime adopt` on each node"
        )


class PodLater(RuntimeFailed):
    """One pod's patch was not accepted, or may not have been; that says nothing of other pods. `refused`: the cluster does
    not allow this limit."""

    def __init__(self, sentence: str, *, refused: bool = False) -> None:
        super().__init__(sentence)
        self.refused = refused


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
class Bound:
    """A limit that the cluster refused at `at_s`, with its `words`. `allowed_m` is the highest limit that the cluster has
    allowed since."""

    limit_m: int
    words: str
    at_s: float
    allowed_m: int = 0


@dataclass(slots=True)
class PacedPod:
    """An executor with its pod as last seen. `quota`: the newest one, in cores; `parting`: it has been let go, and its pod
    gets back what it had; `ended`: why it is no longer paced. `sent_m` and `sent_s`: the last patch of its pod; `unsure`: its
    outcome is not known. `late_s`: since when the limit in force has not followed; `other_s`: when another writer's limit was
    seen last; `due_s`: when to look for a patch."""

    record: PodRecord
    pod: PodCpu | None = None
    quota: float | None = None
    parting: bool = False
    ended: str = ""
    sent_m: int | None = None
    sent_s: float = -math.inf
    unsure: bool = False
    bound: Bound | None = None
    pause: Pause = field(default_factory=Pause)
    late_s: float = math.inf
    other_s: float = -math.inf
    due_s: float = math.inf

    def look(self, now_s: float) -> None:
        """Have a patch looked for at once."""
        if not self.ended:
            self.due_s = min(self.due_s, now_s)

    def want(self, cores: float, now_s: float) -> None:
        """Take the newest quota; do nothing for an executor that is only watched."""
        if not self.record.watched and not self.ended:
            self.quota = cores
            self.look(now_s)

    def let_go(self, now_s: float) -> None:
        """Begin to give back what the pod had. Where there is nothing to give back, it is over at once."""
        pod = self.pod
        untouched = self.record.limit_m is None and self.sent_m is None
        if self.record.watched or pod is None or pod.leaving or (untouched and pod.limit_m is None):
            self._over(LEFT)
            return
        # a patch that is under way does not delay giving back
        self.parting, self.pause, self.sent_m = True, Pause(), None
        self.look(now_s)

    def saw(self, pod: PodCpu | None, now_s: float) -> None:
        """Take over the pod as it is now; None: it is gone."""
        if self.ended:
            return
        before, self.pod = self.pod, pod
        if pod is None or pod.ended:
            self._over("it ended")
            return
        if self.unsure:
            self.unsure = pod.limit_m != self.sent_m  # else the answer is late, or was lost
        elif before is not None and self.sent_m is not None and pod.limit_m not in (before.limit_m, self.sent_m):
            self.other_s = now_s
        if not differs(pod.in_force_m, pod.limit_m):
            self.late_s = math.inf
        elif self.late_s == math.inf or before is None or before.in_force_m != pod.in_force_m:
            self.late_s = now_s
        self.look(now_s)

    def _over(self, reason: str) -> None:
        self.quota, self.parting, self.due_s, self.ended = None, False, math.inf, reason

    # ---------------------------------------------------------------- patches

    def wanted_m(self) -> int | None:
        """Return the limit that the pod should have; None if it is left as it is. An executor that is let go gets its former
        limit. A pod that had no limit gets one for all its slots, because no limit can be taken away."""
        if self.pod is None:
            return None
        if self.parting:
            before_m = self.record.limit_m
            return goal(self.pod, self.record.slots) if before_m is None else before_m
        return None if self.quota is None else goal(self.pod, self.quota)

    def next_limit(self, now_s: float) -> int | None:
        """Return the limit to patch now, if any, which counts as sent; note when to look again."""
        self.due_s = math.inf
        pod, bound, wanted_m = self.pod, self.bound, self.wanted_m()
        if pod is None or wanted_m is None:
            return None
        limit_m = self._within(pod, wanted_m, now_s)
        exact = self.parting or (bound is not None and limit_m == bound.limit_m)
        reached = limit_m == pod.limit_m or not (exact or differs(pod.limit_m, limit_m))
        if limit_m is not None and (self.unsure or not reached):
            at_s = max(self.sent_s + INTERVAL_S, self.pause.until_s)
            if at_s > now_s:
                self.due_s = at_s
                return None
            self.sent_m, self.sent_s, self.unsure = limit_m, now_s, True
            return limit_m
        if bound is not None and wanted_m >= bound.limit_m:
            self.due_s = max(bound.at_s + RETRY_S, now_s + INTERVAL_S)
        elif self.parting:
            self._over(LEFT)
        else:
            self.pause = Pause()
        return None

    def _within(self, pod: PodCpu, wanted_m: int, now_s: float) -> int | None:
        """Return what of a wanted limit may be tried now; None if nothing may. Half of the way from an allowed limit to a
        refused one is tried, as long as that is worth a patch; the refused one again after `RETRY_S`."""
        bound = self.bound
        if bound is None or wanted_m < bound.limit_m:
            return wanted_m
        if now_s >= bound.at_s + RETRY_S:
            return bound.limit_m
        low_m = max(bound.allowed_m, pod.limit_m or 0, goal(pod, 0.0))
        if low_m >= bound.limit_m:
            return None
        half_m = (low_m + bound.limit_m) // (2 * STEP_M) * STEP_M
        return half_m if half_m > low_m and differs(low_m, half_m) else low_m

    def accepted(self, limit_m: int) -> None:
        """Book that the server has accepted a patch."""
        self.unsure, self.pause = False, Pause()
        if self.bound is not None:
            self.bound.allowed_m = max(self.bound.allowed_m, limit_m)
            self.bound = self.bound if limit_m < self.bound.limit_m else None

    def failed(self, limit_m: int, why: str, now_s: float, *, refused: bool) -> None:
        """Book that a patch was not accepted; do nothing if the executor has been let go meanwhile."""
        if self.pod is None or limit_m != self.sent_m:
            return
        if not refused or limit_m <= (self.pod.limit_m or 0):
            self.pause.failed(why, now_s)
            return
        self.unsure, self.pause, bound = False, Pause(), self.bound
        # the words stay while the bound is being found: they have the limit in them, and each change of them is reported
        words = bound.words if bound is not None and limit_m < bound.limit_m else why
        allowed_m = bound.allowed_m if bound is not None and bound.allowed_m < limit_m else 0
        self.bound = Bound(limit_m, words, now_s, allowed_m)

    # ---------------------------------------------------------------- what is said

    def refusal(self) -> str:
        """Return the cluster's words if it has refused the limit that the pod should have; else ""."""
        wanted_m = self.wanted_m()
        return self.bound.words if self.bound and wanted_m is not None and wanted_m >= self.bound.limit_m else ""

    def is_short(self) -> bool:
        """Return True if the pod may not have as much as its quota yet."""
        pod, wanted_m = self.pod, self.wanted_m()
        if self.quota is None or self.unsure or pod is None or wanted_m is None:
            return self.quota is not None
        return pod.limit_m is not None and pod.limit_m < wanted_m and differs(pod.limit_m, wanted_m)

    def observed(self, away: Pause, server: Pause, now_s: float) -> Observed:
        """Return the executor's state. `away`: failures to see pods; `server`: the pause of all patches."""
        pod = self.pod
        seen = Observed(self.record.key, not self.ended, None, 0.0, 0, counted=False, reason=self.ended)
        if pod is None or self.ended:
            return seen
        risk = self._risk(pod, server, now_s)
        return replace(
            seen,
            quota_cores=None if pod.in_force_m is None else pod.in_force_m / 1000,
            ordered_cores=self.quota,
            least_cores=(pod.request_m or 0) / 1000,
            node=pod.node,
            remark=away.trouble(now_s) or risk or self._remark(pod, now_s),
            risk=risk,
        )

    def _risk(self, pod: PodCpu, server: Pause, now_s: float) -> str:
        reason = self.refusal() or self.pause.trouble(now_s) or (server.trouble(now_s) if self.due_s < math.inf else "")
        if reason and self.parting:
            return f"its pod was not given back what it had ({reason}); its record stays, and it is tried again"
        if pod.pending and not reason and not self.parting:
            return f"its node does not resize it ({shortened(pod.pending)}), so its quota stays as it is"
        return reason

    def _remark(self, pod: PodCpu, now_s: float) -> str:
        """Return what only the operator should know."""
        if now_s - self.late_s > LATE_S:
            return (
                f"its node {pod.node} has not put a limit in force that the API server accepted more than {LATE_S:g} s ago; "
                "look whether its kubelet runs"
            )
        if now_s - self.other_s <= SHOWN_S:
            return (
                "another program writes its CPU limit, too, and quotas move to and fro; leave each pod to one agent, and let "
                "no other program resize it"
            )
        if self.parting or (pod.request_m or 0) < 1000 * self.record.slots:
            return ""
        # no risk: it lasts as long as the pod, and while a risk lasts the user learns of no other
        return (
            "its pod's CPU request is all that it can use, and its limit is always above that, so it is not slowed down; "
            f"lower {REQUESTS}"
        )

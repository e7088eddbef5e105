"""Decisions on a pod's CPU limit: pure.

The limit follows the grant and is always above the pod's request. The request is never patched, so a resize needs no room on
a node, counts for no quota of requests, and gives away nothing that the job has. The QoS class stays the same: the CPU limit
of a Burstable pod never equals its CPU request, because the memory limit of Spark's pods equals their memory request. A
Guaranteed pod, whose limit and request are equal, is refused. A patch never names memory.

What the cluster allows at most (a quota, a LimitRange) is not asked for: a limit that it refused is approached by halves.

Not here: how a patch is sent (`api`), and for whom and when (`paced_pods`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.runtime.kubernetes.pod_cpu import BEST_EFFORT, GUARANTEED, PodCpu, shortened

FLOOR_M, STEP_M = 10, 10
"""Floor and step in thousandths of a core. A node enforces no limit below 10."""
THRESHOLD_M, THRESHOLD_SHARE = 50, 0.2
"""Thresholds: a change below both is not worth a patch, which costs about 23 ms of CPU over all components."""
INTERVAL_S = 1.0
"""Time between two patches of one pod."""
RETRY_S = 30.0
"""Time after which a limit that was refused is tried again."""
REQUESTS = "spark.kubernetes.executor.request.cores"


@dataclass(frozen=True, slots=True)
class LimitGoal:
    """A limit that a pod should have, in thousandths of a core. `exact`: a limit that is only near is not enough."""

    limit_m: int
    exact: bool = False

    def is_reached(self, pod: PodCpu) -> bool:
        return pod.limit_m == self.limit_m if self.exact else not differs(pod.limit_m, self.limit_m)

    def is_above(self, pod: PodCpu) -> bool:
        """Return True if the limit that the pod's spec has is too low."""
        return pod.limit_m is not None and pod.limit_m < self.limit_m and not self.is_reached(pod)


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit that the cluster refused at `at_s`, with its `words`, and the highest one that it has allowed since."""

    limit_m: int
    words: str
    at_s: float
    allowed_m: int = 0

    @property
    def again_s(self) -> float:
        """The time when that limit is tried again."""
        return self.at_s + RETRY_S


def why_not_paced(pod: PodCpu) -> str:
    """Return the reason why this pod's limit can never move, as a sentence; empty if it can."""
    if pod.qos == BEST_EFFORT or (pod.limit_m is None and pod.request_m is None):
        return f"its pod has neither a CPU request nor a CPU limit, and Kubernetes lets no one add one; set {REQUESTS}"
    if pod.qos == GUARANTEED:
        return (
            "its pod is Guaranteed (its CPU limit equals its request), and Kubernetes lets no one move one without the "
            f"other; set {REQUESTS} below spark.kubernetes.executor.limit.cores"
        )
    return ""


def why_not_slowed(pod: PodCpu, slots: int) -> str:
    """Return a sentence if the pod's request is all that the executor can use, so that pacing changes nothing; else ""."""
    if (pod.request_m or 0) < 1000 * slots:
        return ""
    return (
        "its pod's CPU request is all that it can use, and its limit is always above that, so it is not slowed down; "
        f"lower {REQUESTS}"
    )


def goal(pod: PodCpu, cores: float) -> LimitGoal:
    """Return the goal of a grant of that many cores."""
    return LimitGoal(max(STEP_M * round(1000 * cores / STEP_M), _lowest_m(pod)))


def goal_back(pod: PodCpu, before_m: int | None, slots: int) -> LimitGoal:
    """Return the goal of a pod that is let go: what it had before. A limit can never be taken away again, so a pod that had
    none gets one for all its slots."""
    return LimitGoal(max(1000 * slots, _lowest_m(pod)) if before_m is None else before_m, exact=True)


def within(bound: Bound | None, wanted: LimitGoal, pod: PodCpu, now_s: float) -> LimitGoal | None:
    """Return what of the goal may be tried now; None if nothing may. Half of the way from an allowed limit to a refused one
    is tried, as long as that is worth a patch."""
    if bound is None or wanted.limit_m < bound.limit_m:
        return wanted
    if now_s >= bound.again_s:
        return LimitGoal(bound.limit_m, exact=True)
    low_m = max(bound.allowed_m, pod.limit_m or 0, _lowest_m(pod))
    if low_m >= bound.limit_m:
        return None
    half_m = (low_m + bound.limit_m) // (2 * STEP_M) * STEP_M
    return LimitGoal(half_m if half_m > low_m and differs(low_m, half_m) else low_m)


def refused(bound: Bound | None, limit_m: int, words: str, now_s: float) -> Bound:
    """Return the bound after a raise to that limit was refused. It keeps its words while it is being found: they have the
    limit in them, and each change of them is reported."""
    if bound is None:
        return Bound(limit_m, words, now_s)
    allowed_m = bound.allowed_m if bound.allowed_m < limit_m else 0
    return Bound(limit_m, bound.words if limit_m < bound.limit_m else words, now_s, allowed_m)


def accepted(bound: Bound | None, limit_m: int) -> Bound | None:
    """Return the bound after that limit was accepted."""
    if bound is None or limit_m >= bound.limit_m:
        return None
    return replace(bound, allowed_m=max(bound.allowed_m, limit_m))


def differs(has_m: int | None, limit_m: int | None) -> bool:
    """Return True if the change from one limit to the other is worth a patch."""
    if has_m is None or limit_m is None:
        return has_m != limit_m
    return abs(limit_m - has_m) >= max(1, min(THRESHOLD_M, THRESHOLD_SHARE * has_m))


def why_not_resized(pod: PodCpu) -> str:
    """Return the node's words on a resize that it does not carry out, as a sentence; empty without any."""
    if not pod.pending:
        return ""
    words = shortened(f"{pod.pending}: {pod.message}" if pod.message else pod.pending)
    return f"its node does not resize it ({words}), so its quota stays as it is"


def _lowest_m(pod: PodCpu) -> int:
    """Return the lowest limit of the pod. It is never equal to the request: with equal amounts of memory that would be
    another QoS class, which is refused."""
    return max(FLOOR_M, (pod.request_m or 0) + 1)

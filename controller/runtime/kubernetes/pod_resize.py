"""Decisions on what to patch of a pod's CPU, and when: pure.

The limit follows the grant. The request falls to what the forecast needs for the rest of the run and a margin, so that the
scheduler can give what is freed to other pods; it never rises above what the pod had when it was first seen. A request that
rises may find no room on the node, and then the whole patch waits. So the limit is raised first and by itself, which needs no
room, and the request after it. Memory is never named, and the QoS class stays what it is: limit and request of a Guaranteed
pod move together, and those of a Burstable one stay apart, because Spark's pods have equal ones of memory.

Not here: how a patch is sent (`kubernetes_api`), and for whom (`kubernetes`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from controller.runtime.kubernetes.pod_cpu import BEST_EFFORT, DEFERRED, GUARANTEED, CpuM, PodCpu

FLOOR_M, STEP_M = 10, 10
"""Floor and step in thousandths of a core. A node enforces no limit below 10."""
THRESHOLD_M, THRESHOLD_SHARE = 50, 0.2
"""Thresholds: a change below both is not worth a patch, which costs about 23 ms of CPU over all components."""
INTERVAL_S = 1.0
"""Time between two patches of one pod."""
MARGIN = 1.2
"""Factor from the need to the request: a forecast moves, and a request that has to rise again may find no room."""
RETRY_S = 30.0
"""Time after which a raise that the node had no room for, or a patch that was refused, is tried again."""
ROUNDED = 0.1
"""Share by which a request may differ from what was asked for, while nothing waits, and still be that."""
SHOWN_S = 30.0
"""Time for which another writer is reported."""


@dataclass(frozen=True, slots=True)
class Wish:
    """An agent's wishes for a pod, in cores: its grant, and what its forecast asks for during the rest of the run (None: not
    known, so the pod's request is what it was)."""

    cores: float
    need: float | None = None


@dataclass(frozen=True, slots=True)
class Paced:
    """A pod's patches so far; its CPU was `before` when it was first seen. `sent` is the last patch, at `sent_s`, and
    `arrived` once the pod's spec has shown it. Until `request_s` its request is not raised, until `limit_s` its limit, until
    `rest_s` nothing is patched: each was refused or found no room. `room`: what the node said about that. `other_s`: when
    another writer's limit was last seen."""

    before: CpuM
    sent: CpuM | None = None
    sent_s: float = -math.inf
    arrived: bool = False
    request_s: float = -math.inf
    limit_s: float = -math.inf
    rest_s: float = -math.inf
    room: str = ""
    other_s: float = -math.inf


@dataclass(frozen=True, slots=True)
class Due:
    """A step that is due. `patch` None: nothing now. `again_s`: when to look again if nothing changes before (inf: never)."""

    patch: CpuM | None
    done: Paced
    again_s: float = math.inf


def why_not_paced(pod: PodCpu) -> str:
    """Return the reason why this pod's CPU can never be resized, as a sentence; empty if it can."""
    if pod.qos == BEST_EFFORT or pod.wanted == CpuM():
        return (
            "its pod has neither a CPU request nor a CPU limit, and Kubernetes lets no one add one; set "
            "spark.kubernetes.executor.request.cores and spark.kubernetes.executor.limit.cores"
        )
    return ""


def seen(pod: PodCpu, done: Paced, now_s: float) -> Paced:
    """Add what the pod shows: that the last patch has arrived, that another writer is at work, that a raise waits."""
    if done.sent is not None and pod.wanted.limit_m == done.sent.limit_m:
        done = replace(done, arrived=True)
    elif done.arrived:
        done = replace(done, other_s=now_s)
    if pod.pending and now_s >= max(done.request_s, done.rest_s):  # else what it says is of before
        words = shortened(f"{pod.pending}: {pod.message}" if pod.message else pod.pending)
        if _raises(pod, pod.wanted):
            return replace(done, request_s=now_s + RETRY_S, room=words)
        if pod.pending != DEFERRED:
            return replace(done, rest_s=now_s + RETRY_S)
    return done


def next_step(pod: PodCpu, wish: Wish, done: Paced, now_s: float) -> Due:
    """Decide what to do now about a pod that `why_not_paced` has nothing against. `done` has `seen` it."""
    if now_s < done.rest_s:
        return Due(None, done, done.rest_s)
    if done.room and now_s >= done.request_s and not _raises(pod, _target(pod, wish, done, now_s)):
        done = replace(done, room="")
    target = _target(pod, wish, done, now_s)
    if pod.qos != GUARANTEED and _raises(pod, target) and _moved(_actual(pod).limit_m, target.limit_m, rises=True):
        # the limit first, because it needs no room
        target = replace(target, request_m=_set_aside_m(pod))
    held_s = min((at_s for at_s in (done.request_s, done.limit_s) if at_s > now_s), default=math.inf)
    if not (_moved(pod.wanted.limit_m, target.limit_m) or _moved(pod.wanted.request_m, target.request_m)):
        return Due(None, done, held_s)
    return patched(target, done, now_s)


def patched(target: CpuM, done: Paced, now_s: float) -> Due:
    """Return the step that sends a patch, at most one in `INTERVAL_S`."""
    if now_s < done.sent_s + INTERVAL_S:
        return Due(None, done, done.sent_s + INTERVAL_S)
    return Due(target, replace(done, sent=target, sent_s=now_s, arrived=False), now_s + INTERVAL_S)


def is_below(pod: PodCpu, wish: Wish, done: Paced, now_s: float) -> bool:
    """Return True if the limit that the pod's spec has is still lower than what is wished and can be."""
    return _moved(pod.wanted.limit_m, _target(pod, wish, Paced(done.before), now_s).limit_m, rises=True)


def let_go(pod: PodCpu, done: Paced, slots: int) -> tuple[CpuM, ...]:
    """Return the patches, one after the other, that give a pod back what it had: its limit, then its request. A limit can
    never be taken away again: a pod that had none gets one for all its slots."""
    limit_m, request_m = done.before.limit_m, done.before.request_m
    if pod.leaving:
        return ()
    if limit_m is None:
        if pod.wanted.limit_m is None:
            return ()
        limit_m = max(1000 * slots, (request_m or 0) + STEP_M)
    back = CpuM(limit_m, request_m)
    if back == pod.wanted and (done.sent is None or done.arrived):
        return ()
    if pod.qos == GUARANTEED or not _raises(pod, back):
        return (back,)
    return (replace(back, request_m=_set_aside_m(pod)), back)


def refused(done: Paced, pod: PodCpu, now_s: float, *, wholly: bool) -> Paced:
    """Book a patch that the API server refused. `wholly`: it refuses all; else it may accept the same without what that
    raised."""
    if wholly or done.sent is None:
        return replace(done, rest_s=now_s + RETRY_S)
    if _raises(pod, done.sent) and now_s >= done.request_s:
        return replace(done, request_s=now_s + RETRY_S)
    if _moved(pod.wanted.limit_m, done.sent.limit_m, rises=True) and now_s >= done.limit_s:
        return replace(done, limit_s=now_s + RETRY_S)
    return replace(done, rest_s=now_s + RETRY_S)


def most_cores(pod: PodCpu, done: Paced) -> float:
    """Return the most cores that are wished as the pod's limit: that of a Guaranteed pod never rises above what it was."""
    most_m = done.before.limit_m if pod.qos == GUARANTEED else None
    return math.inf if most_m is None else most_m / 1000


def risk(pod: PodCpu, done: Paced) -> str:
    """Return a sentence for the operator on resizes that wait; empty without any."""
    if done.room:
        return (
            f"its node has no room for the CPU request that it should have again ({done.room}), so its deadline is at risk "
            "while others there are busy; it is tried again"
        )
    if pod.pending and pod.pending != DEFERRED:
        words = shortened(f"{pod.pending}: {pod.message}")
        return f"its node does not resize it ({words}), so its quota stays as it is; it is tried again"
    return ""


def another_writer(done: Paced, now_s: float) -> str:
    """Return a sentence if the pod's spec had another limit than the patched one; empty if it had not."""
    if done.sent is None or now_s > done.other_s + SHOWN_S:
        return ""
    return (
        "somebody else writes its CPU limit, too, and quotas move to and fro; leave each pod to one agent, and "
        "let no one else resize it"
    )


def shortened(words: str, most: int = 200) -> str:
    """Shorten another program's words for use within a sentence of ours."""
    words = " ".join(words.split())
    return words if len(words) <= most else words[: most - 3] + "..."


def _actual(pod: PodCpu) -> CpuM:
    """Return the amounts in force; those asked for where the node does not say."""
    return pod.actual or pod.wanted


def _set_aside_m(pod: PodCpu) -> int | None:
    """Return the request that the pod's node has granted. The node reports what the kernel has, which it rounds."""
    has_m, wanted_m = _actual(pod).request_m, pod.wanted.request_m
    if not has_m or not wanted_m:
        return has_m or wanted_m
    rounded = not pod.pending and abs(has_m - wanted_m) <= ROUNDED * wanted_m
    return wanted_m if rounded else has_m


def _raises(pod: PodCpu, target: CpuM) -> bool:
    """Return True if the request would be above what the node has set aside."""
    return (target.request_m or 0) > (_set_aside_m(pod) or 0)


def _target(pod: PodCpu, wish: Wish, done: Paced, now_s: float) -> CpuM:
    limit_m = _in_steps(wish.cores)
    if now_s < done.limit_s and pod.wanted.limit_m is not None:
        limit_m = min(limit_m, pod.wanted.limit_m)
    most_m = done.before.request_m if done.before.request_m is not None else done.before.limit_m or limit_m
    if now_s < done.request_s:
        most_m = min(most_m, _set_aside_m(pod) or most_m)
    if pod.qos == GUARANTEED:
        both_m = min(limit_m, most_m)
        return CpuM(both_m, both_m)
    need_m = most_m if wish.need is None else _in_steps(MARGIN * wish.need, up=True)
    # never equal to the limit: with equal amounts of memory that would be another QoS class, which is refused
    return CpuM(limit_m, max(1, min(need_m, most_m, limit_m - 1)))


def _in_steps(cores: float, *, up: bool = False) -> int:
    """Return thousandths of a core in whole steps."""
    steps = 1000 * cores / STEP_M
    return max(FLOOR_M, STEP_M * (math.ceil(steps - 1e-6) if up else round(steps)))


def _moved(has_m: int | None, target_m: int | None, *, rises: bool = False) -> bool:
    """Return True if the change is worth a patch; `rises`: upwards."""
    if has_m is None or target_m is None:
        return has_m != target_m and not (rises and has_m is None)
    change_m = target_m - has_m if rises else abs(target_m - has_m)
    return change_m >= max(1, min(THRESHOLD_M, THRESHOLD_SHARE * has_m))

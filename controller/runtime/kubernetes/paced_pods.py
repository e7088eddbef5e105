"""Knowledge of the runtime `kubernetes`: pods as last seen, executors with what is wished of them, and which patch is due.

One lock guards it. No thread that holds it waits for a server, or writes a record.

After each failure the wait is longer. A failure that concerns a pod holds back only that pod: 409, 500, an answer that is
late or cannot be read. A failure that concerns the server holds back all: no connection, 503, and 429, because API Priority
and Fairness counts the calls of a user together. By Kubernetes' API conventions, `Retry-After` says how long to wait then.

Not here: what to patch (`pod_resize`), and who sends it (`pod_patching`).
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from controller.runtime.base import ExecutorKey, Observed
from controller.runtime.executor_record import PodRecord
from controller.runtime.kubernetes import pod_resize
from controller.runtime.kubernetes.api import PatchRefused
from controller.runtime.kubernetes.pause import Pause
from controller.runtime.kubernetes.pod_cpu import CpuM, PodCpu
from controller.runtime.kubernetes.pod_resize import Paced, Wish

log = logging.getLogger(__name__)

LEFT = "it is paced no more"


@dataclass(slots=True)
class Known:
    """An executor. `parting`: patches that give back what it had, once it has been let go. `refusal`: why its last patch was
    refused; `trouble`: why that failed otherwise. `under_way`: a patch of it is; there is never a second one, because they
    could overtake each other."""

    path: Path
    record: PodRecord
    last: Observed
    done: Paced
    wish: Wish | None = None
    due_s: float = math.inf
    parting: tuple[CpuM, ...] = ()
    refusal: str = ""
    trouble: str = ""
    pause: Pause = field(default_factory=Pause)
    under_way: bool = False


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch that is on its way."""

    key: ExecutorKey
    pod: PodCpu
    cpu: CpuM
    parting: bool = False


class PacedPods:
    """All pods and executors. `changed` guards them; every reader or writer of a field holds it. `away`: why pods are not
    seen now; `too_old`: why their server can resize none."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.changed = threading.Condition()
        self.by_uid: dict[str, PodCpu] = {}
        self.known: dict[ExecutorKey, Known] = {}
        self.listed = self.closing = False
        self.away = self.too_old = ""
        self.pause = Pause()
        """Pause of all patches."""

    # ---------------------------------------------------------------- executors

    def remember(self, path: Path, record: PodRecord) -> Known:
        last = Observed(record.key, True, None, 0.0, 0, counted=False)
        with self.changed:
            known = Known(path, record, last, Paced(CpuM(record.limit_m, record.request_m)))
            self.known[record.key] = known
            return known

    def wish(self, known: Known, wish: Wish) -> None:
        with self.changed:
            known.wish = wish
            self._want(known)

    def let_go(self, known: Known) -> None:
        """Begin to give back what the executor's pod had. Where there is nothing to give back, it is over at once."""
        with self.changed:
            pod = self.by_uid.get(known.record.uid)
            known.parting = pod_resize.let_go(pod, known.done, known.record.slots) if pod is not None else ()
            known.pause, known.refusal, known.trouble = Pause(), "", ""
            if known.parting:
                self._want(known)
            else:
                self._over(known, LEFT)

    def _over(self, known: Known, reason: str) -> None:
        known.wish, known.due_s, known.parting = None, math.inf, ()
        known.last = replace(known.last, running=False, quota_cores=None, reason=reason, remark="", risk="")

    def _want(self, known: Known) -> None:
        """Have the threads that patch look at the executor."""
        if known.wish is not None or known.parting:
            known.due_s = min(known.due_s, self._clock())
            self.changed.notify_all()

    # ---------------------------------------------------------------- what is shown

    def show(self, known: Known) -> Observed:
        with self.changed:
            pod = self.by_uid.get(known.record.uid)
            if not known.last.running or not self.listed:
                return known.last
            if pod is None or pod.ended:
                self._over(known, "it ended")
                return known.last
            limit_m = (pod.actual or pod.wanted).limit_m
            risk = self._risk(known, pod)
            another = pod_resize.another_writer(known.done, self._clock())
            known.last = replace(
                known.last,
                quota_cores=None if limit_m is None else limit_m / 1000,
                node=pod.node,
                remark=self.away or risk or known.trouble or another,
                risk=risk,
                most_cores=pod_resize.most_cores(pod, known.done),
            )
            return known.last

    @staticmethod
    def _risk(known: Known, pod: PodCpu) -> str:
        if known.refusal and known.parting:
            return f"its pod was not given back what it had ({known.refusal}); its record stays, and it is tried again"
        return known.refusal or pod_resize.risk(pod, known.done)

    def held_back(self) -> dict[ExecutorKey, str]:
        """Return the executors whose pod may not have as much as is wished yet, each with the reason as a sentence."""
        with self.changed:
            found = {}
            for key, known in self.known.items():
                pod = self.by_uid.get(known.record.uid)
                if known.wish is None or not self.show(known).running:
                    continue
                if pod is None or pod_resize.is_below(pod, known.wish, known.done, self._clock()):
                    found[key] = self.away or known.refusal or known.trouble or "the API server has not accepted it yet"
            return found

    def idle(self) -> bool:
        """Return True if nothing waits to be patched that could be now."""
        with self.changed:
            return bool(self.away) or not any(
                one.under_way or (one.due_s < math.inf and self._differs(one)) for one in self.known.values()
            )

    def _differs(self, known: Known) -> bool:
        pod = self.by_uid.get(known.record.uid)
        if pod is None or known.refusal:
            return False
        if known.parting or known.wish is None:
            return bool(known.parting)
        later_s = self._clock() + 2 * pod_resize.INTERVAL_S
        return pod_resize.next_step(pod, known.wish, known.done, later_s).patch is not None

    # ---------------------------------------------------------------- what is seen

    def saw_all(self, pods: Iterable[PodCpu]) -> None:
        with self.changed:
            if self.away:
                log.warning("the API server answers again")
            before = self.by_uid
            self.by_uid = {pod.uid: _newer(pod, before.get(pod.uid)) for pod in pods}
            self.listed, self.away = True, ""
            for known in self.known.values():
                self._saw(known)
            self.changed.notify_all()

    def take(self, pod: PodCpu, *, there: bool) -> None:
        with self.changed:
            if there:
                self.by_uid[pod.uid] = _newer(pod, self.by_uid.get(pod.uid))
            else:
                self.by_uid.pop(pod.uid, None)
            for known in self.known.values():
                if known.record.uid == pod.uid:
                    self._saw(known)

    def _saw(self, known: Known) -> None:
        pod = self.by_uid.get(known.record.uid)
        if pod is not None:
            known.done = pod_resize.seen(pod, known.done, self._clock())
            self._want(known)

    def lost(self, reason: str) -> None:
        with self.changed:
            if not self.away:
                log.warning("%s", reason)
            self.away = reason
            self.changed.notify_all()

    # ---------------------------------------------------------------- patches

    def next(self) -> Patch | None:
        """Wait for the next patch that is due and return it; None at the end. The caller reports what became of it, by one of
        the methods below."""
        with self.changed:
            while not self.closing:
                if (patch := self.due()) is not None:
                    return patch
                next_s = min((known.due_s for known in self.known.values()), default=math.inf)
                next_s = max(next_s, self.pause.until_s)
                self.changed.wait(None if next_s == math.inf else max(0.0, next_s - self._clock()))
            return None

    def due(self) -> Patch | None:
        """Return the next patch like `next`, but None if none is due now."""
        with self.changed:
            now_s = self._clock()
            if now_s < self.pause.until_s:
                return None
            waiting = sorted((one.due_s, one.record.key) for one in self.known.values() if one.due_s <= now_s)
            patches = (self._patch_of(key, now_s) for _, key in waiting)
            patch = next((one for one in patches if one is not None), None)
            if patch is not None:
                self.known[patch.key].under_way = True
            return patch

    def _patch_of(self, key: ExecutorKey, now_s: float) -> Patch | None:
        """Return the patch to send for the executor now, if any; note when to look again."""
        known = self.known[key]
        pod = self.by_uid.get(known.record.uid)
        known.due_s = math.inf
        if pod is None or pod.ended or known.under_way:
            return None
        if now_s < known.pause.until_s:
            known.due_s = known.pause.until_s
            return None
        if known.parting:
            if now_s < known.done.sent_s + pod_resize.INTERVAL_S:
                known.due_s = known.done.sent_s + pod_resize.INTERVAL_S
                return None
            known.done = replace(known.done, sent=known.parting[0], sent_s=now_s, arrived=False)
            return Patch(key, pod, known.parting[0], parting=True)
        if known.wish is None:
            return None
        step = pod_resize.next_step(pod, known.wish, known.done, now_s)
        known.done, known.due_s = step.done, step.again_s
        if step.patch is None and step.again_s == math.inf:  # it is as it should be
            known.refusal = known.trouble = ""
        return None if step.patch is None else Patch(key, pod, step.patch)

    def accepted(self, patch: Patch, pod: PodCpu | None) -> None:
        """Book a patch that was accepted. `pod`: as the server has it then."""
        with self.changed:
            self.pause.worked()
            if (known := self._ended(patch)) is not None:
                known.pause.worked()
                known.refusal = known.trouble = ""
                if patch.parting:
                    known.parting = known.parting[1:]
                    if not known.parting:
                        self._over(known, LEFT)
            if pod is not None and pod.uid in self.by_uid:  # else it went meanwhile
                self.take(pod, there=True)

    def refused(self, patch: Patch, error: PatchRefused) -> None:
        """Book a patch that was refused. What was to be given back stays to be given back: only its record says what that
        is."""
        log.warning("executor %s: %s", patch.key.text, error)
        with self.changed:
            self.pause.worked()
            if error.too_old:
                self.too_old = str(error)
            known = self._ended(patch)
            if known is None:
                return
            if error.pod_gone:
                self.by_uid.pop(patch.pod.uid, None)
                return
            known.refusal, known.trouble = str(error), ""
            if patch.parting:
                known.pause.failed(self._clock(), pod_resize.RETRY_S)
            else:
                known.done = pod_resize.refused(known.done, patch.pod, self._clock(), wholly=error.wholly)

    def failed(self, patch: Patch, reason: str) -> None:
        """Book a failed patch, which may not have arrived; this concerns only its pod."""
        log.warning("executor %s: %s", patch.key.text, reason)
        with self.changed:
            if (known := self._ended(patch)) is not None:
                known.trouble = reason
                known.pause.failed(self._clock())

    def not_answered(self, patch: Patch, reason: str, asked_s: float = 0.0) -> None:
        """Pause all patches: the server takes none now, and asks to be left alone for `asked_s` seconds."""
        with self.changed:
            now_s = self._clock()
            if now_s >= self.pause.until_s:
                log.warning("%s", reason)
            self.pause.failed(now_s, asked_s)
            if (known := self._ended(patch)) is not None:
                known.trouble = reason

    def _ended(self, patch: Patch) -> Known | None:
        """Return the executor of a patch that is over, unless it has gone meanwhile; its next patch may begin."""
        known = self.known.get(patch.key)
        if known is None or known.record.uid != patch.pod.uid:
            return None
        known.under_way = False
        self._want(known)
        self.changed.notify_all()
        return known


def _newer(pod: PodCpu, known: PodCpu | None) -> PodCpu:
    """Return the newer of the two: an answer to a patch may come before what was watched until then."""
    return known if known is not None and known.version > pod.version else pod

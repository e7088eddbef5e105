"""The state of the runtime `kubernetes`: pods as last seen, executors with what is wished of them, and which patch is due.

One lock guards it. No thread that holds it waits for a server, or writes a record.

After each failure the wait is longer. A failure that concerns a pod holds back only that pod: 409, 500, an answer that is
late or cannot be read. A failure that concerns the server holds back all: no connection, 503, and 429, because API Priority
and Fairness counts the calls of a user together. By Kubernetes' API conventions, `Retry-After` says how long to wait then.

Not here: what to patch (`pod_resize`), and who watches and patches (`executors`).
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
from controller.runtime.kubernetes.api import PatchRefused, ServerAway
from controller.runtime.kubernetes.pod_cpu import CpuM, PodCpu
from controller.runtime.kubernetes.pod_resize import Due, Paced, Wish
from stage_model.errors import RuntimeFailed

log = logging.getLogger(__name__)

BACK_OFF = BackOff(first_s=0.5, most_s=30.0)
LEFT = "it is paced no more"


@dataclass(slots=True)
class Pause:
    """A pause in tries: no try before `until_s`, after `failures` in a row."""

    until_s: float = -math.inf
    failures: int = 0

    def failed(self, now_s: float, asked_s: float = 0.0) -> None:
        """Book a failure; the other side asked for `asked_s` seconds. Several tries that were under way together are one
        failure."""
        asked_s = min(BACK_OFF.most_s, asked_s)
        if now_s < self.until_s:
            self.until_s = max(self.until_s, now_s + asked_s)
            return
        self.failures += 1
        self.until_s = now_s + max(BACK_OFF.wait_s(self.failures), asked_s)


@dataclass(slots=True)
class PacedExecutor:
    """An executor. `parting`: patches that give its pod back what it had, once it has been let go. `trouble`: why its last
    patch failed, and `refused` if the server said no. `under_way`: a patch of it is; there is never a second one, because
    they could overtake each other. `due_s`: when to look for a patch."""

    path: Path
    record: PodRecord
    last: Observed
    done: Paced
    wish: Wish | None = None
    parting: tuple[CpuM, ...] = ()
    trouble: str = ""
    refused: bool = False
    pause: Pause = field(default_factory=Pause)
    under_way: bool = False
    due_s: float = math.inf

    def over(self, reason: str) -> None:
        self.wish, self.parting, self.due_s = None, (), math.inf
        self.last = replace(self.last, running=False, quota_cores=None, reason=reason, remark="", risk="")


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch that is on its way."""

    executor: PacedExecutor
    pod: PodCpu
    cpu: CpuM


class PacedPods:
    """All pods and executors. `changed` guards them; every reader or writer of a field holds it. `away`: why pods are not
    seen now; `too_old`: why their server can resize none; `pause`: of all patches."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.changed = threading.Condition()
        self.by_uid: dict[str, PodCpu] = {}
        self.known: dict[ExecutorKey, PacedExecutor] = {}
        self.listed = self.closing = False
        self.away = self.too_old = ""
        self.pause = Pause()

    # ---------------------------------------------------------------- executors

    def remember(self, path: Path, record: PodRecord) -> PacedExecutor:
        last = Observed(record.key, True, None, 0.0, 0, counted=False)
        made = PacedExecutor(path, record, last, Paced(CpuM(record.limit_m, record.request_m)))
        self.known[record.key] = made
        return made

    def running(self, key: ExecutorKey) -> PacedExecutor | None:
        found = self.known.get(key)
        return found if found is not None and found.last.running else None

    def wish(self, executor: PacedExecutor, wish: Wish) -> None:
        executor.wish = wish
        self._look_at(executor)

    def let_go(self, executor: PacedExecutor) -> None:
        """Begin to give back what the executor's pod had. Where there is nothing to give back, it is over at once."""
        pod = self.by_uid.get(executor.record.uid)
        executor.parting = () if pod is None else pod_resize.let_go(pod, executor.done, executor.record.slots)
        executor.pause, executor.trouble, executor.refused = Pause(), "", False
        if not executor.parting:
            executor.over(LEFT)
        self._look_at(executor)

    def _look_at(self, executor: PacedExecutor) -> None:
        """Have the threads that patch look at the executor."""
        if executor.wish is not None or executor.parting:
            executor.due_s = min(executor.due_s, self._clock())
            self.changed.notify_all()

    def show(self, executor: PacedExecutor) -> Observed:
        pod = self.by_uid.get(executor.record.uid)
        if not executor.last.running or not self.listed:
            return executor.last
        if pod is None or pod.ended:
            executor.over("it ended")
            return executor.last
        limit_m, risk = (pod.actual or pod.wanted).limit_m, pod_resize.risk(pod, executor.done)
        if executor.refused:
            risk = executor.trouble
            if executor.parting:
                risk = f"its pod was not given back what it had ({risk}); its record stays, and it is tried again"
        another = pod_resize.another_writer(executor.done, self._clock())
        executor.last = replace(
            executor.last,
            quota_cores=None if limit_m is None else limit_m / 1000,
            node=pod.node,
            remark=self.away or risk or executor.trouble or another,
            risk=risk,
            most_cores=pod_resize.most_cores(pod, executor.done),
        )
        return executor.last

    def held_back(self) -> dict[ExecutorKey, str]:
        """Return the executors whose pod may not have as much as is wished yet, each with the reason as a sentence."""
        found = {}
        for key, executor in self.known.items():
            pod = self.by_uid.get(executor.record.uid)
            if executor.wish is None or not self.show(executor).running:
                continue
            if pod is None or pod_resize.is_below(pod, executor.wish, executor.done, self._clock()):
                found[key] = self.away or executor.trouble or "the API server has not accepted it yet"
        return found

    # ---------------------------------------------------------------- what is seen

    def saw_all(self, pods: Iterable[PodCpu]) -> None:
        if self.away:
            log.warning("the API server answers again")
        before = self.by_uid
        self.by_uid = {pod.uid: _newer(pod, before.get(pod.uid)) for pod in pods}
        self.listed, self.away = True, ""
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
        pod = self.by_uid.get(executor.record.uid)
        if pod is not None:
            executor.done = pod_resize.seen(pod, executor.done, self._clock())
            self._look_at(executor)

    def lost(self, reason: str) -> None:
        if not self.away:
            log.warning("%s", reason)
        self.away = reason
        self.changed.notify_all()

    # ---------------------------------------------------------------- patches

    def idle(self) -> bool:
        """Return True if nothing waits to be patched that could be now."""
        return bool(self.away) or not any(
            one.under_way or (one.due_s < math.inf and not one.refused and self._differs(one)) for one in self.known.values()
        )

    def _differs(self, executor: PacedExecutor) -> bool:
        pod = self.by_uid.get(executor.record.uid)
        later_s = self._clock() + 2 * pod_resize.INTERVAL_S
        return pod is not None and self._step(executor, pod, later_s).patch is not None

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
        if pod is None or pod.ended or executor.under_way:
            return None
        if now_s < executor.pause.until_s:
            executor.due_s = executor.pause.until_s
            return None
        step = self._step(executor, pod, now_s)
        executor.done, executor.due_s = step.done, step.again_s
        if step.patch is not None:
            executor.under_way = True
            return Patch(executor, pod, step.patch)
        if step.again_s == math.inf:  # it is as it should be
            executor.trouble, executor.refused = "", False
        return None

    @staticmethod
    def _step(executor: PacedExecutor, pod: PodCpu, now_s: float) -> Due:
        if executor.parting:
            return pod_resize.patched(executor.parting[0], executor.done, now_s)
        if executor.wish is not None:
            return pod_resize.next_step(pod, executor.wish, executor.done, now_s)
        return Due(None, executor.done)

    def book(self, patch: Patch, pod: PodCpu | None, error: RuntimeFailed | None = None) -> None:
        """Book what became of a patch: `pod` is what the server has then, if it says so. What was to be given back stays to
        be given back: only the executor's record says what that is."""
        executor, now_s = patch.executor, self._clock()
        executor.under_way = False
        if isinstance(error, ServerAway):
            if now_s >= self.pause.until_s:
                log.warning("%s", error)
            self.pause.failed(now_s, error.asked_s)
        elif error is not None:
            log.warning("executor %s: %s", executor.record.key.text, error)
        executor.trouble, executor.refused = str(error or ""), isinstance(error, PatchRefused)
        if error is None:
            self.pause.failures = executor.pause.failures = 0
            if patch.cpu in executor.parting[:1]:
                executor.parting = executor.parting[1:]
                if not executor.parting:
                    executor.over(LEFT)
        elif isinstance(error, PatchRefused):
            self.pause.failures = 0
            self._refused(patch, error, now_s)
        elif not isinstance(error, ServerAway):
            executor.pause.failed(now_s)
        if pod is not None and pod.uid in self.by_uid:  # else it went meanwhile
            self.saw(pod, there=True)
        self._look_at(executor)
        self.changed.notify_all()

    def _refused(self, patch: Patch, error: PatchRefused, now_s: float) -> None:
        executor = patch.executor
        if error.too_old:
            self.too_old = str(error)
        if error.pod_gone:
            self.by_uid.pop(patch.pod.uid, None)
        elif patch.cpu in executor.parting[:1]:  # not an earlier wish, which was under way when the executor was let go
            executor.pause.failed(now_s, pod_resize.RETRY_S)
        else:
            executor.done = pod_resize.refused(executor.done, patch.pod, now_s, wholly=error.wholly)


def _newer(pod: PodCpu, known: PodCpu | None) -> PodCpu:
    """Return the newer of the two: an answer to a patch may come before what was watched until then."""
    return known if known is not None and known.version > pod.version else pod

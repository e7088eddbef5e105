"""The runtime `kubernetes`: paces Spark executors' pods of a whole cluster by the API server, and starts and ends none.

A quota is a wish here: `set_quota` writes it down, one thread patches pods towards the newest wishes, another one watches
pods, and `observe` shows what was last seen. So a period waits for no server. A record for each executor says what its pod
had at first; with it the next agent goes on. What is patched and when is `pod_resize`'s, which pod it is `told_pod`'s.

The API does not tell how much CPU a pod has used: that is left to what the executor tells.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from controller.runtime import executor_record, launching, pod_resize
from controller.runtime.base import Adoption, ExecutorKey, Observed
from controller.runtime.executor_record import PodRecord
from controller.runtime.kubernetes_api import KubernetesApi, PatchRefused, ServerAway, TooOldVersion
from controller.runtime.pod_cpu import CpuM, PodCpu
from controller.runtime.pod_resize import Paced, Wish
from controller.runtime.told_pod import find_told_pod
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger(__name__)

LISTED_S = 5.0
"""A new runtime waits so long for the first list of pods."""
HANGS_S = 120.0
"""A watch is begun anew every 20 s, so one that is not for so long hangs."""
FLUSHED_S = 5.0
"""What still waits to be patched is waited for so long at the end."""
FIRST_PAUSE_S, LAST_PAUSE_S = 0.5, 30.0
"""Between two tries of a server that is away."""
STEADY_S = 10.0
"""After a watch that lasted so long the next one is begun at once."""
LEFT = "it is paced no more"


@dataclass(slots=True)
class _Known:
    """`parting`: patches that give back what it had, once it has been let go. `refusal`: why its last patch was refused."""

    path: Path
    record: PodRecord
    last: Observed
    done: Paced
    wish: Wish | None = None
    due_s: float = math.inf
    parting: tuple[CpuM, ...] = ()
    refusal: str = ""


@dataclass(slots=True)
class _Patch:
    """One that is on its way."""

    key: ExecutorKey
    pod: PodCpu
    cpu: CpuM
    parting: bool = False


@dataclass(slots=True)
class _Pods:
    """What is known of the cluster. `away`: why that is not known now; `too_old`: why its server can resize none."""

    by_uid: dict[str, PodCpu] = field(default_factory=dict)
    listed: bool = False
    away: str = ""
    too_old: str = ""


class KubernetesRuntime:
    """`state_dir` holds the records. `api` is closed with it."""

    name = "kubernetes"

    def __init__(
        self,
        cluster_id: str,
        worker_id: str,
        state_dir: Path,
        api: KubernetesApi,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster_id, self._worker_id, self._state_dir = cluster_id, worker_id, state_dir
        self._api, self._clock = api, clock
        self._changed = threading.Condition()
        """Guards all below."""
        self._pods = _Pods()
        self._known: dict[ExecutorKey, _Known] = {}
        self._patching = 0
        self._closing = False
        self._beat_s = clock()
        for path, record in executor_record.read_all(state_dir, PodRecord, cluster_id, worker_id):
            self._remember(path, record)
        api.on_answer(self._beat)
        self._threads = [
            threading.Thread(target=run, name=f"kubernetes-{name}", daemon=True)
            for name, run in (("watch", self._watch), ("patch", self._patch))
        ]
        for thread in self._threads:
            thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._pods.listed or self._pods.away, LISTED_S)

    def _remember(self, path: Path, record: PodRecord) -> _Known:
        last = Observed(record.key, True, None, 0.0, 0, counted=False)
        known = self._known[record.key] = _Known(path, record, last, Paced(CpuM(record.limit_m, record.request_m)))
        return known

    # ---------------------------------------------------------------- taking over and letting go

    def adopt(self, adoption: Adoption) -> None:
        """Paces it from now on, or does nothing if it does already. Raises `RuntimeRefused` for one that is not what it says
        or cannot be paced, `RuntimeFailed` when a later try may work."""
        launching.checked_cores(adoption.cores)
        key = adoption.key
        with self._changed:
            known = self._known.get(key)
            if known is not None and known.last.running:
                return
            pod = self._pod_of(adoption)
            name = launching.unique_name(self._cluster_id, self._worker_id, key)
            record = PodRecord(
                cluster_id=self._cluster_id,
                worker_id=self._worker_id,
                application_id=key.application_id,
                executor_id=key.executor_id,
                uid=pod.uid,
                namespace=pod.namespace,
                slots=adoption.slots,
                limit_m=pod.wanted.limit_m,
                request_m=pod.wanted.request_m,
            )
            path = self._state_dir / f"{name}.json"
            try:
                executor_record.write(path, record)
            except OSError as error:
                raise RuntimeFailed(f"executor {'/'.join(key)} was not taken over ({error}); tried again later") from error
            known = self._remember(path, record)
            known.wish = Wish(adoption.cores)
            self._show(known)
            self._want(known)

    def _pod_of(self, adoption: Adoption) -> PodCpu:
        """Raises `RuntimeRefused` and `RuntimeFailed`."""
        if self._pods.too_old:
            raise RuntimeRefused(self._pods.too_old)
        if not self._pods.listed:
            raise RuntimeFailed(self._pods.away or "the pods of the cluster are not known yet; tried again later")
        pod = find_told_pod(self._pods.by_uid.values(), adoption.serves, adoption.host)
        if reason := pod_resize.why_not_paced(pod):
            raise RuntimeRefused(reason)
        others = [known.record for known in self._known.values() if known.record.uid == pod.uid and known.last.running]
        if others:
            raise RuntimeRefused(
                f"its pod is paced as executor {'/'.join(others[0].key)} already; accepted: one application for a pod"
            )
        return pod

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:  # noqa: ARG002 - nothing is ended
        """Lets it go: its pod gets back what it had, and goes on; then it counts as ended here."""
        with self._changed:
            known = self._known.get(key)
            if known is None or not known.last.running or known.parting:
                return
            if not self._pods.listed:
                raise RuntimeFailed(f"executor {'/'.join(key)} was not let go (its pod is not seen yet); tried again later")
            pod = self._pods.by_uid.get(known.record.uid)
            known.parting = pod_resize.let_go(pod, known.done, known.record.slots) if pod is not None else ()
            if known.parting:
                self._want(known)
            else:
                self._over(known, LEFT)

    def _over(self, known: _Known, reason: str) -> None:
        known.wish, known.due_s, known.parting = None, math.inf, ()
        known.last = replace(known.last, running=False, quota_cores=None, reason=reason, remark="", risk="")

    def remove(self, key: ExecutorKey) -> None:
        with self._changed:
            known = self._known.get(key)
            if known is None:
                return
            if known.last.running:
                raise launching.still_runs(key)
            known.path.unlink(missing_ok=True)
            del self._known[key]

    # ---------------------------------------------------------------- pacing and observing

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        launching.checked_cores(cores)
        with self._changed:
            known = self._known.get(key)
            if known is None or not known.last.running:
                return False
            if known.parting:
                return True
            known.wish = replace(known.wish, cores=cores) if known.wish else Wish(cores)
            self._want(known)
            return True

    def tell_need(self, key: ExecutorKey, cores: float) -> None:
        with self._changed:
            known = self._known.get(key)
            if known is not None and known.wish is not None and known.wish.need != cores:
                known.wish = replace(known.wish, need=cores)
                self._want(known)

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:  # noqa: ARG002 - memory is its owner's affair
        launching.checked_memory(memory_bytes)
        return False

    def observe(self) -> dict[ExecutorKey, Observed]:
        with self._changed:
            for known in self._known.values():
                self._show(known)
            return {key: known.last for key, known in self._known.items()}

    def _show(self, known: _Known) -> None:
        pod = self._pods.by_uid.get(known.record.uid)
        if not known.last.running or not self._pods.listed:
            return
        if pod is None or pod.ended:
            self._over(known, "it ended")
            return
        limit_m = (pod.actual or pod.wanted).limit_m
        risk = known.refusal or pod_resize.risk(pod, known.done)
        remark = self._pods.away or risk or pod_resize.another_writer(known.done, self._clock())
        known.last = replace(
            known.last,
            quota_cores=None if limit_m is None else limit_m / 1000,
            node=pod.node,
            remark=remark,
            risk=risk,
        )

    # ---------------------------------------------------------------- in the background

    def alive(self) -> bool:
        return all(thread.is_alive() for thread in self._threads) and self._clock() - self._beat_s < HANGS_S

    def close(self) -> None:
        """Waits a little for what is to be patched still."""
        with self._changed:
            self._changed.wait_for(self._idle, FLUSHED_S)
            self._closing = True
            self._changed.notify_all()
        self._api.end_watch()
        for thread in self._threads:
            thread.join(FLUSHED_S)
        self._api.close()

    def _idle(self) -> bool:
        """Whether nothing waits to be patched that could be now."""
        wait = any(known.due_s < math.inf and self._differs(known) for known in self._known.values())
        return bool(self._pods.away) or not (self._patching or wait)

    def _differs(self, known: _Known) -> bool:
        pod = self._pods.by_uid.get(known.record.uid)
        if pod is None or known.refusal:
            return False
        if known.parting or known.wish is None:
            return bool(known.parting)
        later_s = self._clock() + 2 * pod_resize.INTERVAL_S
        return pod_resize.next_step(pod, known.wish, known.done, later_s).patch is not None

    def _beat(self) -> None:
        self._beat_s = self._clock()

    def _want(self, known: _Known) -> None:
        """To be looked at by the thread that patches."""
        if known.wish is not None or known.parting:
            known.due_s = min(known.due_s, self._clock())
            self._changed.notify_all()

    def _watch(self) -> None:
        """Keeps `_pods` as the server has them, until the end."""
        pause_s = FIRST_PAUSE_S
        while not self._closing:
            self._beat()
            try:
                pods, version = self._api.pods()
                self._listed(pods)
                begun_s = self._clock()
                self._follow(version)
                if self._clock() - begun_s > STEADY_S:
                    pause_s = FIRST_PAUSE_S
            except ServerAway as error:
                self._lost(str(error))
            except Exception:
                # the watch is a loop of its own: what nobody thought of must not end it
                log.exception("watching pods failed and is begun again")
            pause_s = self._pause(pause_s)

    def _follow(self, version: str) -> None:
        """Until the watch ends: then all is listed again, and only if that fails, too, is the server away."""
        try:
            for pod, there in self._api.changes(version):
                self._beat()
                self._take(pod, there=there)
                if self._closing:
                    return
        except (TooOldVersion, ServerAway) as error:
            log.info("pods are listed again: %s", error)

    def _pause(self, pause_s: float) -> float:
        """Waits, unless all is over; returns how long to wait next time."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, pause_s)
        return min(LAST_PAUSE_S, 2 * pause_s)

    def _listed(self, pods: Iterable[PodCpu]) -> None:
        with self._changed:
            if self._pods.away:
                log.warning("the API server answers again")
            known = self._pods.by_uid
            self._pods.by_uid = {pod.uid: _newer(pod, known.get(pod.uid)) for pod in pods}
            self._pods.listed, self._pods.away = True, ""
            for one in self._known.values():
                self._saw(one)
            self._changed.notify_all()

    def _take(self, pod: PodCpu, *, there: bool) -> None:
        with self._changed:
            if there:
                self._pods.by_uid[pod.uid] = _newer(pod, self._pods.by_uid.get(pod.uid))
            else:
                self._pods.by_uid.pop(pod.uid, None)
            for known in self._known.values():
                if known.record.uid == pod.uid:
                    self._saw(known)

    def _saw(self, known: _Known) -> None:
        pod = self._pods.by_uid.get(known.record.uid)
        if pod is not None:
            known.done = pod_resize.seen(pod, known.done, self._clock())
            self._want(known)

    def _lost(self, reason: str) -> None:
        with self._changed:
            if not self._pods.away:
                log.warning("%s", reason)
            self._pods.away = reason
            self._changed.notify_all()

    def _patch(self) -> None:
        """Brings pods to what is wished, one patch after the other, until the end."""
        pause_s = FIRST_PAUSE_S
        while (patch := self._next()) is not None:
            try:
                self._send(patch)
                pause_s = FIRST_PAUSE_S
            except ServerAway as error:
                log.warning("%s", error)
                self._again(patch)
                pause_s = self._pause(pause_s)
            except Exception:
                # one pod's trouble must not end the patching of all others
                log.exception("the pod of executor %s was not patched and is tried again", "/".join(patch.key))
                self._again(patch)
                pause_s = self._pause(pause_s)
            finally:
                with self._changed:
                    self._patching -= 1
                    self._changed.notify_all()

    def _next(self) -> _Patch | None:
        """Waits for the next patch that is due; None at the end."""
        with self._changed:
            while not self._closing:
                now_s = self._clock()
                due = sorted((known.due_s, known.record.key) for known in self._known.values() if known.due_s < math.inf)
                for due_s, key in due:
                    if due_s <= now_s and (patch := self._patch_of(key, now_s)) is not None:
                        self._patching += 1
                        return patch
                next_s = min((known.due_s for known in self._known.values()), default=math.inf)
                self._changed.wait(None if next_s == math.inf else max(0.0, next_s - self._clock()))
            return None

    def _patch_of(self, key: ExecutorKey, now_s: float) -> _Patch | None:
        """What to send for it now, if anything; notes when to look again."""
        known = self._known[key]
        pod = self._pods.by_uid.get(known.record.uid)
        known.due_s = math.inf
        if pod is None or pod.ended:
            return None
        if known.parting:
            if now_s < known.done.sent_s + pod_resize.INTERVAL_S:
                known.due_s = known.done.sent_s + pod_resize.INTERVAL_S
                return None
            known.done = replace(known.done, sent=known.parting[0], sent_s=now_s, arrived=False)
            return _Patch(key, pod, known.parting[0], parting=True)
        if known.wish is None:
            return None
        step = pod_resize.next_step(pod, known.wish, known.done, now_s)
        known.done, known.due_s = step.done, step.again_s
        if step.patch is None and step.again_s == math.inf:  # it is as it should be
            known.refusal = ""
        return None if step.patch is None else _Patch(key, pod, step.patch)

    def _send(self, patch: _Patch) -> None:
        """Raises `ServerAway`."""
        try:
            pod = self._api.resize(patch.pod, patch.cpu)
        except PatchRefused as error:
            self._refused(patch, error)
            return
        with self._changed:
            known = self._known.get(patch.key)
            if known is not None and known.record.uid == patch.pod.uid:
                known.refusal = ""
                self._parted(known, patch)
            if pod is not None and pod.uid in self._pods.by_uid:  # else it went meanwhile
                self._take(pod, there=True)

    def _refused(self, patch: _Patch, error: PatchRefused) -> None:
        log.warning("executor %s: %s", "/".join(patch.key), error)
        with self._changed:
            if error.too_old:
                self._pods.too_old = str(error)
            known = self._known.get(patch.key)
            if known is None or known.record.uid != patch.pod.uid:
                return
            if error.pod_gone:
                self._pods.by_uid.pop(patch.pod.uid, None)
                return
            known.refusal = str(error)
            known.done = pod_resize.refused(known.done, patch.pod, self._clock(), wholly=error.wholly)
            self._parted(known, patch)
            self._want(known)

    def _parted(self, known: _Known, patch: _Patch) -> None:
        """After a patch that gives back what it had. What is refused it cannot have."""
        if patch.parting:
            known.parting = known.parting[1:]
            if known.parting:
                self._want(known)
            else:
                self._over(known, LEFT)

    def _again(self, patch: _Patch) -> None:
        """One that may not have arrived."""
        with self._changed:
            known = self._known.get(patch.key)
            if known is not None:
                self._want(known)


def _newer(pod: PodCpu, known: PodCpu | None) -> PodCpu:
    """An answer to a patch may come before what was watched until then."""
    return known if known is not None and known.version > pod.version else pod

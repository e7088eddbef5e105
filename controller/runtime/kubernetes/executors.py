"""The runtime `kubernetes`: paces Spark executors' pods of a whole cluster by the API server, and starts and ends none.

A quota is a wish here: `set_quota` writes it down, threads patch pods towards the newest wishes, another thread watches pods,
and `observe` shows what was last seen (`paced_pods`). So a period waits for no server.

A record for each executor says what its pod had at first; with it the next agent goes on. The record stays until the pod has
that again or is gone. `pod_resize` decides what is patched and when, `pod_cpu` which pod an executor is.

The API does not say how much CPU a pod has used: the executor's own figure is used.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from controller.runtime import executor_record, launching
from controller.runtime.base import Adopter, Adoption, ExecutorKey, Observed
from controller.runtime.executor_record import PodRecord
from controller.runtime.kubernetes import pod_resize
from controller.runtime.kubernetes.api import KubernetesApi, PatchFailed, ServerAway
from controller.runtime.kubernetes.paced_pods import PacedPods, Pause
from controller.runtime.kubernetes.pod_cpu import PodCpu, find_claimed_pod
from controller.runtime.kubernetes.pod_resize import Wish
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Number of patches under way together. So a slow patch keeps few others waiting, and an API server spends few of its seats
on it."""

LISTED_S = 5.0
"""Longest wait of a new runtime for the first list of pods."""
FLUSHED_S = 5.0
"""Longest wait at the end for what still waits to be patched."""
HANGS_S = 120.0
"""Time after which a watch hangs: it is begun again every 20 s."""
STEADY_S = 10.0
"""Time after which a watch that ends is soon followed by the next one."""


class KubernetesRuntime(Adopter):
    """Runtime for pods of Spark executors. `state_dir` holds the records. `api` is closed with it."""

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
        self._api, self._pods, self._clock = api, PacedPods(clock), clock
        self._adopting: dict[ExecutorKey, str] = {}
        """Pods of the executors whose records are being written: that is not waited for with the lock held."""
        for path, record in executor_record.read_all(state_dir, PodRecord, cluster_id, worker_id):
            self._pods.remember(path, record)
        self._beat()
        api.on_answer(self._beat)
        works = {"watch": self._watch, **{f"patch-{number}": self._patch for number in range(AT_ONCE)}}
        self._threads = [
            threading.Thread(target=work, name=f"kubernetes-{name}", daemon=True) for name, work in works.items()
        ]
        for thread in self._threads:
            thread.start()
        with self._pods.changed:
            self._pods.changed.wait_for(lambda: self._pods.listed or self._pods.away, LISTED_S)

    # ---------------------------------------------------------------- taking over and letting go

    def adopt(self, adoption: Adoption) -> None:
        """Pace the executor from now on, or do nothing if it is paced already. Raise `RuntimeRefused` for an executor that is
        not what it says or cannot be paced, `RuntimeFailed` when a later try may work."""
        launching.checked_cores(adoption.cores)
        key = adoption.key
        with self._pods.changed:
            if self._pods.running(key) is not None:
                return
            pod = self._pod_of(adoption)
            self._adopting[key] = pod.uid
        try:
            self._record(adoption, pod)
        finally:
            with self._pods.changed:
                del self._adopting[key]

    def _record(self, adoption: Adoption, pod: PodCpu) -> None:
        key = adoption.key
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
            raise RuntimeFailed(f"executor {key.text} was not taken over ({error}); tried again later") from error
        with self._pods.changed:
            known = self._pods.remember(path, record)
            self._pods.show(known)
            self._pods.wish(known, Wish(adoption.cores))

    def _pod_of(self, adoption: Adoption) -> PodCpu:
        """Return the executor's pod. Raise `RuntimeRefused` and `RuntimeFailed`."""
        if self._pods.too_old:
            raise RuntimeRefused(self._pods.too_old)
        if not self._pods.listed:
            raise RuntimeFailed(self._pods.away or "the pods of the cluster are not known yet; tried again later")
        pod = find_claimed_pod(self._pods.by_uid.values(), adoption.serves, adoption.host)
        if reason := pod_resize.why_not_paced(pod):
            raise RuntimeRefused(reason)
        if adoption.key in self._adopting or pod.uid in self._adopting.values():
            raise RuntimeFailed(f"executor {adoption.key.text} or its pod is being taken over; tried again later")
        others = [one.record for one in self._pods.known.values() if one.record.uid == pod.uid and one.last.running]
        if others:
            raise RuntimeRefused(f"its pod is paced as executor {others[0].key.text} already")
        return pod

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:  # noqa: ARG002 - nothing is ended
        """Let the executor go: its pod gets back what it had, and goes on; then it counts as ended here."""
        with self._pods.changed:
            known = self._pods.running(key)
            if known is None or known.parting:
                return
            if not self._pods.listed:
                reason = self._pods.away or "its pod is not seen yet"
                raise RuntimeFailed(f"executor {key.text} was not let go ({reason}); tried again later")
            self._pods.let_go(known)

    def remove(self, key: ExecutorKey) -> None:
        with self._pods.changed:
            known = self._pods.known.get(key)
            if known is None:
                return
            if known.last.running:
                raise launching.still_runs(key)
            if key not in self._adopting:  # else its record is that of the one that is taken over now
                known.path.unlink(missing_ok=True)
            del self._pods.known[key]

    # ---------------------------------------------------------------- pacing and observing

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        launching.checked_cores(cores)
        with self._pods.changed:
            known = self._pods.running(key)
            if known is not None and not known.parting:
                self._pods.wish(known, replace(known.wish, cores=cores) if known.wish else Wish(cores))
            return known is not None

    def tell_need(self, key: ExecutorKey, cores: float) -> None:
        with self._pods.changed:
            known = self._pods.known.get(key)
            if known is not None and known.wish is not None and known.wish.need != cores:
                self._pods.wish(known, replace(known.wish, need=cores))

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:  # noqa: ARG002 - memory is its owner's affair
        launching.checked_memory(memory_bytes)
        return False

    def observe(self) -> dict[ExecutorKey, Observed]:
        with self._pods.changed:
            return {key: self._pods.show(known) for key, known in self._pods.known.items()}

    def held_back(self) -> dict[ExecutorKey, str]:
        with self._pods.changed:
            return self._pods.held_back()

    # ---------------------------------------------------------------- in the background

    def alive(self) -> bool:
        return self._clock() - self._beat_s < HANGS_S and all(thread.is_alive() for thread in self._threads)

    def _beat(self) -> None:
        self._beat_s = self._clock()

    def _watch(self) -> None:
        """Keep the known pods as their API server has them."""
        pause = Pause()
        while not self._pods.closing:
            self._beat()
            asked_s = 0.0
            try:
                pods, version = self._api.pods()
                with self._pods.changed:
                    self._pods.saw_all(pods)
                begun_s = self._clock()
                self._follow(version)
                if self._clock() - begun_s > STEADY_S:
                    pause.failures = 0
            except ServerAway as error:
                asked_s = error.asked_s
                with self._pods.changed:
                    self._pods.lost(str(error))
            except Exception:
                # the watch is a loop of its own: an unforeseen error must not end it
                log.exception("watching pods failed and is begun again")
            now_s = self._clock()
            pause.failed(now_s, asked_s)
            with self._pods.changed:
                self._pods.changed.wait_for(lambda: self._pods.closing, pause.until_s - now_s)

    def _follow(self, version: str) -> None:
        """Take over changes until the watch ends: then all is listed again, and only if that fails, too, is the server
        away."""
        try:
            for pod, there in self._api.changes(version):
                self._beat()
                with self._pods.changed:
                    self._pods.saw(pod, there=there)
                if self._pods.closing:
                    return
        except ServerAway as error:
            log.info("pods are listed again: %s", error)

    def _patch(self) -> None:
        """Send the patches that are due, one after the other."""
        while (patch := self._pods.next()) is not None:
            pod, error = None, None
            try:
                pod = self._api.resize(patch.pod, patch.cpu)
            except RuntimeFailed as raised:
                error = raised
            except Exception:
                # one pod's trouble must not end the patching of all others
                log.exception("the pod of executor %s was not patched", patch.executor.record.key.text)
                error = PatchFailed("its pod was not patched, for a reason that is in the agent's log; it is tried again")
            with self._pods.changed:
                self._pods.book(patch, pod, error)

    def close(self) -> None:
        """Close the runtime after a short wait for what is to be patched still."""
        with self._pods.changed:
            self._pods.changed.wait_for(self._pods.idle, FLUSHED_S)
            self._pods.closing = True
            self._pods.changed.notify_all()
        self._api.end_watch()
        for thread in self._threads:
            thread.join(FLUSHED_S)
        self._api.close()

"""The runtime `kubernetes`: paces Spark executors' pods of a whole cluster by the API server, and starts and ends none.

A quota is a wish here: `set_quota` writes it down, one thread patches pods towards the newest wishes, another watches pods,
and `observe` shows what was last seen (`paced_pods`). So a period waits for no server.

A record for each executor says which limit its pod had at first; with it the next agent goes on. The record stays until the
pod has that again or is gone. `pod_resize` decides which limit is patched, `pod_cpu` which pod an executor is.

The API does not say how much CPU a pod has used: the executor's own figure is used.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from controller.runtime import executor_record, launching
from controller.runtime.base import Adopter, Adoption, ExecutorKey, Observed
from controller.runtime.executor_record import PodRecord
from controller.runtime.kubernetes import pod_resize
from controller.runtime.kubernetes.api import KubernetesApi, PodLater, ServerLater
from controller.runtime.kubernetes.paced_pods import PacedPods, Pause
from controller.runtime.kubernetes.pod_cpu import PodCpu, find_claimed_pod
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger(__name__)

LISTED_S = 5.0
"""Longest wait of a new runtime for the first list of pods."""
ENDED_S = 5.0
"""Longest wait at the end for a call that is under way."""
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
        self._adopting = threading.Lock()
        """Held for an adoption, whose record is written without the lock of `PacedPods`: a disk may be slow."""
        for path, record in executor_record.read_all(state_dir, PodRecord, cluster_id, worker_id):
            self._pods.remember(path, record)
        self._beat()
        api.on_answer(self._beat)
        works = {"watch": self._watch, "patch": self._patch}
        self._threads = [
            threading.Thread(target=work, name=f"kubernetes-{name}", daemon=True) for name, work in works.items()
        ]
        for thread in self._threads:
            thread.start()
        with self._pods.changed:
            self._pods.changed.wait_for(lambda: self._pods.listed or self._pods.away.failures, LISTED_S)

    # ---------------------------------------------------------------- taking over and letting go

    def adopt(self, adoption: Adoption) -> None:
        """Pace the executor from now on, or do nothing if it is paced already. Raise `RuntimeRefused` for an executor that is
        not what it says or cannot be paced, `RuntimeFailed` when a later try may work."""
        launching.checked_cores(adoption.cores)
        key = adoption.key
        with self._adopting:
            with self._pods.changed:
                if self._pods.find_running(key) is not None:
                    return
                pod = self._pod_of(adoption)
                # one of this key that has ended: to remove it now would take the new one's record
                former = self._pods.known.pop(key, None)
            name = launching.unique_name(self._cluster_id, self._worker_id, key)
            record = PodRecord(
                cluster_id=self._cluster_id,
                worker_id=self._worker_id,
                application_id=key.application_id,
                executor_id=key.executor_id,
                uid=pod.uid,
                namespace=pod.namespace,
                slots=adoption.slots,
                limit_m=pod.limit_m,
                watched=adoption.watched,
            )
            path = self._state_dir / f"{name}.json"
            try:
                executor_record.write(path, record)
            except OSError as error:
                if former is not None:
                    with self._pods.changed:
                        self._pods.known[key] = former
                raise RuntimeFailed(f"executor {key.text} was not taken over ({error}); tried again later") from error
            with self._pods.changed:
                made = self._pods.remember(path, record)
                self._pods.show(made)
                self._pods.want(made, adoption.cores)

    def _pod_of(self, adoption: Adoption) -> PodCpu:
        """Return the executor's pod. Raise `RuntimeRefused` and `RuntimeFailed`."""
        if self._pods.too_old and not adoption.watched:
            raise RuntimeRefused(self._pods.too_old)
        if not self._pods.listed:
            raise RuntimeFailed(self._pods.away.why or "the pods of the cluster are not known yet; tried again later")
        pod = find_claimed_pod(self._pods.by_uid.values(), adoption.serves, adoption.host)
        if not adoption.watched and (reason := pod_resize.why_not_paced(pod)):
            raise RuntimeRefused(reason)
        others = [one.record for one in self._pods.known.values() if one.record.uid == pod.uid and one.running]
        if others:
            raise RuntimeRefused(f"its pod is paced as executor {others[0].key.text} already")
        return pod

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:  # noqa: ARG002 - nothing is ended
        """Let the executor go: its pod gets back what it had, and goes on; then it counts as ended here."""
        with self._pods.changed:
            known = self._pods.find_running(key)
            if known is None or known.parting:
                return
            if not self._pods.listed:
                reason = self._pods.away.why or "its pod is not seen yet"
                raise RuntimeFailed(f"executor {key.text} was not let go ({reason}); tried again later")
            self._pods.let_go(known)

    def remove(self, key: ExecutorKey) -> None:
        with self._pods.changed:
            known = self._pods.known.get(key)
            if known is None:
                return
            if known.running:
                raise launching.still_runs(key)
            known.path.unlink(missing_ok=True)
            del self._pods.known[key]

    # ---------------------------------------------------------------- pacing and observing

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        launching.checked_cores(cores)
        with self._pods.changed:
            known = self._pods.find_running(key)
            if known is not None:
                self._pods.want(known, cores)
            return known is not None

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
        again = Pause()
        while not self._pods.closing:
            self._beat()
            why, asked_s = "", 0.0
            try:
                pods, version = self._api.pods()
                with self._pods.changed:
                    self._pods.saw_all(pods)
                begun_s = self._clock()
                self._follow(version)
                if self._clock() - begun_s > STEADY_S:
                    again = Pause()
            except ServerLater as error:
                why, asked_s = str(error), error.asked_s
                with self._pods.changed:
                    self._pods.lost(why)
            except Exception:
                # the watch is a loop of its own: an unforeseen error must not end it
                log.exception("watching pods failed and is begun again")
            again.failed(why, now_s := self._clock(), asked_s)
            with self._pods.changed:
                self._pods.changed.wait_for(lambda: self._pods.closing, again.until_s - now_s)

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
        except ServerLater as error:
            log.info("pods are listed again: %s", error)

    def _patch(self) -> None:
        """Send the patches that are due, one after the other."""
        while (patch := self._pods.next()) is not None:
            pod: PodCpu | None = None
            error: PodLater | ServerLater | None = None
            try:
                pod = self._api.resize(patch.pod, patch.limit_m)
            except (PodLater, ServerLater) as raised:
                error = raised
            except Exception:
                # one pod's trouble must not end the patching of all others
                log.exception("the pod of executor %s was not patched", patch.executor.record.key.text)
                error = PodLater("its pod was not patched, for a reason that is in the agent's log; it is tried again")
            with self._pods.changed:
                self._pods.book(patch, pod, error)

    def close(self) -> None:
        with self._pods.changed:
            self._pods.closing = True
            self._pods.changed.notify_all()
        self._api.end_watch()
        for thread in self._threads:
            thread.join(ENDED_S)
        self._api.close()

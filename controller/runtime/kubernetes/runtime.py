"""The runtime `kubernetes`: it paces Spark executors' pods of a whole cluster by the API server, and neither starts nor
ends an executor.

A quota is a wish here: `set_quota` writes it down, one thread patches pods towards the newest wishes, another watches pods,
and `observe` shows what was last seen. So a period waits for no server.

A record for each executor says which limit its pod had at first; with it the next agent goes on. The record stays until the
pod has that again or is gone. `pod_resize` decides which patch is due, `pod_cpu` which pod an executor is. Only `api` needs
lightkube, and is imported only when it is used.

`PodLater` holds back only that pod, `ServerLater` all: API Priority and Fairness counts the calls of a user together. By
Kubernetes' API conventions, `Retry-After` says how long to wait then.

The API does not say how much CPU a pod has used: the executor's own figure is used.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from controller.runtime import ending, executor_record, launching
from controller.runtime.base import Adopter, Adoption, ExecutorKey, Observed
from controller.runtime.executor_record import PodRecord
from controller.runtime.kubernetes.pod_cpu import PodCpu, find_claimed_pod
from controller.runtime.kubernetes.pod_resize import PacedPod, Pause, PodLater, ServerLater, TooOld, why_not_paced
from controller.runtime.table import Owner
from stage_model.errors import RuntimeFailed, RuntimeRefused, Unavailable

if TYPE_CHECKING:
    from controller.runtime.kubernetes.api import KubernetesApi

log = logging.getLogger(__name__)

RECORDS = "pods"
"""Folder of the records of executors, within a worker's folder."""
LISTED_S = 5.0
"""Longest wait of a new runtime for the first list of pods."""
ENDED_S = 5.0
"""Longest wait at the end for a call that is under way."""
HANGS_S = 120.0
"""Time after which a watch hangs, because it is begun again every 20 s: the program that gives a token has no time-out."""
STEADY_S = 10.0
"""Time after which a watch that ends is soon followed by the next one."""
LOGGED = 4
"""Number of failures, 3.5 s or more after the first, with which it is logged that pods are not seen: there may be no
executors of which it could be reported."""


class KubernetesRuntime(Adopter):
    """Runtime for pods of Spark executors. `state_dir` holds the records. `api` is closed with it.

    `_changed` guards all that is seen and wished for; no thread that holds it waits for a server, or writes a record."""

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
        self._adopting = threading.Lock()
        """Held for an adoption, whose record is written without `_changed`: a disk may be slow."""
        self._pods: dict[str, PodCpu] = {}
        records = executor_record.read_all(state_dir, PodRecord, cluster_id, worker_id)
        self._executors = {record.key: PacedPod(record) for _, record in records}
        self._listed = self._closing = False
        self._away, self._pause = Pause(), Pause()
        """Failures to see pods, and the pause of all patches."""
        self._too_old: TooOld | None = None
        self._beat_s = clock()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._watch, self._patch)]
        for thread in self._threads:
            thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._listed or self._away.failures, LISTED_S)

    # ---------------------------------------------------------------- taking over and letting go

    def adopt(self, adoption: Adoption) -> None:
        launching.checked_cores(adoption.cores)
        key = adoption.key
        with self._adopting:
            with self._changed:
                if self._running(key) is not None:
                    return
                pod = self._pod_of(adoption)
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
            try:
                executor_record.write(self._file(key), record)
            except OSError as error:
                raise RuntimeFailed(f"executor {key.text} was not taken over ({error}); tried again later") from error
            with self._changed:
                executor = self._executors[key] = PacedPod(record)
                executor.saw(self._pods.get(pod.uid), self._clock())
                executor.want(adoption.cores, self._clock())
                self._changed.notify_all()

    def _pod_of(self, adoption: Adoption) -> PodCpu:
        """Return the executor's pod. Raise `RuntimeRefused` and `RuntimeFailed`."""
        if self._too_old is not None and not adoption.watched:
            raise RuntimeRefused(str(self._too_old))
        if not self._listed:
            raise RuntimeFailed(self._away.why or "the pods of the cluster are not known yet; tried again later")
        pod = find_claimed_pod(self._pods.values(), adoption.serves, adoption.host)
        if not adoption.watched and (reason := why_not_paced(pod)):
            raise RuntimeRefused(reason)
        for other in self._executors.values():
            if other.record.uid == pod.uid and not other.ended:
                raise RuntimeRefused(f"its pod is paced as executor {other.record.key.text} already")
        return pod

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:  # noqa: ARG002 - nothing is ended
        """Let the executor go: its pod gets back what it had, and goes on; then it counts as ended here."""
        with self._changed:
            executor = self._running(key)
            if executor is None or executor.parting:
                return
            if not self._listed:
                reason = self._away.why or "its pod is not seen yet"
                raise RuntimeFailed(f"executor {key.text} was not let go ({reason}); tried again later")
            executor.let_go(self._clock())
            self._changed.notify_all()

    def remove(self, key: ExecutorKey) -> None:
        with self._adopting, self._changed:
            if self._running(key) is not None:
                raise launching.still_runs(key)
            if self._executors.pop(key, None) is not None:
                self._file(key).unlink(missing_ok=True)

    def _file(self, key: ExecutorKey) -> Path:
        return self._state_dir / f"{launching.unique_name(self._cluster_id, self._worker_id, key)}.json"

    def _running(self, key: ExecutorKey) -> PacedPod | None:
        found = self._executors.get(key)
        return found if found is not None and not found.ended else None

    # ---------------------------------------------------------------- pacing and observing

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        launching.checked_cores(cores)
        with self._changed:
            executor = self._running(key)
            if executor is not None:
                executor.want(cores, self._clock())
                self._changed.notify_all()
            return executor is not None

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:  # noqa: ARG002 - memory is its owner's affair
        launching.checked_memory(memory_bytes)
        return False

    def observe(self) -> dict[ExecutorKey, Observed]:
        with self._changed:
            now_s = self._clock()
            return {key: one.observed(self._away, self._pause, now_s) for key, one in self._executors.items()}

    def held_back(self) -> dict[ExecutorKey, str]:
        with self._changed:
            short = {key: one for key, one in self._executors.items() if one.is_short()}
            why, otherwise = self._away.why, self._pause.why or "the API server has not accepted it yet"
            return {key: why or one.refusal() or one.pause.why or otherwise for key, one in short.items()}

    # ---------------------------------------------------------------- in the background

    def alive(self) -> bool:
        return self._clock() - self._beat_s < HANGS_S and all(thread.is_alive() for thread in self._threads)

    def _watch(self) -> None:
        """Keep the known pods as their API server has them."""
        while not self._closing:
            self._beat_s = self._clock()
            why, asked_s, listed_s = "", 0.0, math.inf
            try:
                pods, version = self._api.pods()
                with self._changed:
                    gone = {*self._pods, *(one.record.uid for one in self._executors.values())}
                    self._saw(dict.fromkeys(gone) | {pod.uid: pod for pod in pods})
                    self._listed, self._away.why, self._away.since_s = True, "", math.inf
                listed_s = self._clock()
                for seen in self._api.changes(version):
                    self._beat_s = self._clock()
                    self._saw(seen)
            except ServerLater as error:
                why, asked_s = str(error), error.asked_s
            except Exception:
                # the watch is a loop of its own: an unforeseen error must not end it
                log.exception("watching pods failed and is begun again")
            with self._changed:
                now_s = self._clock()
                if now_s - listed_s > STEADY_S:
                    self._away = Pause()
                self._away.failed(why, now_s, asked_s)
                if why and self._away.failures == LOGGED:
                    log.warning("%s", why)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closing, self._away.until_s - now_s)

    def _saw(self, pods: Mapping[str, PodCpu | None]) -> None:
        """Take over pods by their uid; None: it is gone."""
        with self._changed:
            for uid, pod in pods.items():
                if pod is None:
                    self._pods.pop(uid, None)
                elif pod.version >= self._pods.get(uid, pod).version:  # an answer to a patch may come before older news
                    self._pods[uid] = pod
            for executor in self._executors.values():
                if executor.record.uid in pods:
                    executor.saw(self._pods.get(executor.record.uid), self._clock())
            self._changed.notify_all()

    def _patch(self) -> None:
        """Send the patches that are due, one after the other."""
        while (due := self._next()) is not None:
            executor, pod, limit_m = due
            outcome: PodCpu | PodLater | ServerLater
            try:
                outcome = self._api.resize(pod, limit_m)
            except (PodLater, ServerLater) as error:
                outcome = error
            except Exception:
                # trouble with one pod must not end the patching of all others
                log.exception("the pod of executor %s was not patched", executor.record.key.text)
                outcome = PodLater("its pod was not patched, for a reason that is in the agent's log; it is tried again")
            with self._changed:
                now_s = self._clock()
                executor.look(now_s)
                if isinstance(outcome, ServerLater):
                    self._too_old = outcome if isinstance(outcome, TooOld) else None
                    self._pause.failed(str(outcome), now_s, outcome.asked_s)
                    continue
                self._pause, self._too_old = Pause(), None
                if isinstance(outcome, PodLater):
                    executor.failed(limit_m, str(outcome), now_s, refused=outcome.refused)
                    continue
                executor.accepted(limit_m)
                if outcome.uid in self._pods:  # else it went meanwhile
                    self._saw({outcome.uid: outcome})

    def _next(self) -> tuple[PacedPod, PodCpu, int] | None:
        """Wait for the next patch that is due; return its executor, pod and limit, None at the end."""
        with self._changed:
            while not self._closing:
                executor = min(self._executors.values(), key=lambda one: one.due_s, default=None)
                due_s = math.inf if executor is None else max(executor.due_s, self._pause.until_s)
                now_s = self._clock()
                if executor is None or due_s > now_s:
                    self._changed.wait(None if due_s == math.inf else due_s - now_s)
                elif (limit_m := executor.next_limit(now_s)) is not None and executor.pod is not None:
                    return executor, executor.pod, limit_m
            return None

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._api.end_watch()
        for thread in self._threads:
            thread.join(ENDED_S)
        self._api.close()


def check(namespace: str | None) -> str:
    """Return nothing. Raise `Unavailable` where no server answers, or the server refuses to list these pods."""
    with contextlib.closing(_connect(namespace)) as api:
        try:
            api.pods()
        except RuntimeFailed as error:
            raise Unavailable(f"the runtime kubernetes does not work here: {error}") from error
    return ""


def make(owner: Owner) -> KubernetesRuntime:
    return KubernetesRuntime(owner.cluster_id, owner.worker_id, owner.folder / RECORDS, _connect(owner.namespace))


def end_all(owner: Owner) -> int:
    """Let go of the executors; where there is no record of one, no server is needed."""
    records = executor_record.read_all(owner.folder / RECORDS, PodRecord, owner.cluster_id, owner.worker_id)
    namespaces = {record.namespace for _, record in records}
    if not namespaces:
        return 0
    return ending.end_recorded(make(replace(owner, namespace=namespaces.pop() if len(namespaces) == 1 else None)))


def _connect(namespace: str | None) -> KubernetesApi:
    """Connect to the cluster. Raise `Unavailable`, also without the library: only this runtime needs it."""
    try:
        from controller.runtime.kubernetes.api import connect_kubernetes
    except ImportError as error:
        raise Unavailable(
            f"the runtime kubernetes needs lightkube ({error}); run pip install 'sparkpace[kubernetes]'"
        ) from error
    return connect_kubernetes(namespace)

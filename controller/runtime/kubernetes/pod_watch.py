"""The thread that keeps the known pods as their API server has them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from controller.runtime.kubernetes.api import KubernetesApi, ServerAway, TooOldVersion
from controller.runtime.kubernetes.paced_pods import PacedPods
from controller.runtime.kubernetes.pause import Pause

log = logging.getLogger(__name__)

HANGS_S = 120.0
"""Time after which a watch hangs: it is begun again every 20 s."""
STEADY_S = 10.0
"""Time after which a watch that ends is soon followed by the next one."""


class PodWatch:
    """A watch of pods, until `pods` are closing."""

    def __init__(self, api: KubernetesApi, pods: PacedPods, clock: Callable[[], float]) -> None:
        self._api, self._pods, self._clock = api, pods, clock
        self._pause = Pause()
        self._beat_s = clock()
        api.on_answer(self._beat)
        self.thread = threading.Thread(target=self._run, name="kubernetes-watch", daemon=True)
        self.thread.start()

    def alive(self) -> bool:
        return self.thread.is_alive() and self._clock() - self._beat_s < HANGS_S

    def _beat(self) -> None:
        self._beat_s = self._clock()

    def _run(self) -> None:
        while not self._pods.closing:
            self._beat()
            asked_s = 0.0
            try:
                pods, version = self._api.pods()
                self._pods.saw_all(pods)
                begun_s = self._clock()
                self._follow(version)
                if self._clock() - begun_s > STEADY_S:
                    self._pause.worked()
            except ServerAway as error:
                asked_s = error.asked_s
                self._pods.lost(str(error))
            except Exception:
                # the watch is a loop of its own: an unforeseen error must not end it
                log.exception("watching pods failed and is begun again")
            self._wait(asked_s)

    def _follow(self, version: str) -> None:
        """Take over changes until the watch ends: then all is listed again, and only if that fails, too, is the server
        away."""
        try:
            for pod, there in self._api.changes(version):
                self._beat()
                self._pods.take(pod, there=there)
                if self._pods.closing:
                    return
        except (TooOldVersion, ServerAway) as error:
            log.info("pods are listed again: %s", error)

    def _wait(self, asked_s: float) -> None:
        now_s = self._clock()
        self._pause.failed(now_s, asked_s)
        with self._pods.changed:
            self._pods.changed.wait_for(lambda: self._pods.closing, self._pause.until_s - now_s)

"""The threads that send patches of pods, each one patch after the other."""

from __future__ import annotations

import logging
import threading

from controller.runtime.kubernetes.api import KubernetesApi, PatchFailed, PatchRefused, ServerAway
from controller.runtime.kubernetes.paced_pods import PacedPods, Patch

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Number of patches under way together. So a slow patch keeps few others waiting, and an API server spends few of its seats
on it."""


def start_patching(api: KubernetesApi, pods: PacedPods) -> list[threading.Thread]:
    """Start the threads, which run until `pods` are closing."""
    threads = [
        threading.Thread(target=_run, args=(api, pods), name=f"kubernetes-patch-{number}", daemon=True)
        for number in range(AT_ONCE)
    ]
    for thread in threads:
        thread.start()
    return threads


def _run(api: KubernetesApi, pods: PacedPods) -> None:
    while (patch := pods.next()) is not None:
        try:
            _send(api, pods, patch)
        except Exception:
            # one pod's trouble must not end the patching of all others
            log.exception("the pod of executor %s was not patched", patch.key.text)
            pods.failed(patch, "its pod was not patched, for a reason that is in the agent's log; it is tried again")


def _send(api: KubernetesApi, pods: PacedPods, patch: Patch) -> None:
    try:
        pod = api.resize(patch.pod, patch.cpu)
    except PatchRefused as error:
        pods.refused(patch, error)
    except PatchFailed as error:
        pods.failed(patch, str(error))
    except ServerAway as error:
        pods.not_answered(patch, str(error), error.asked_s)
    else:
        pods.accepted(patch, pod)

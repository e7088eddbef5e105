"""The row `kubernetes`: executors' pods of the cluster of this pod's service account or of KUBECONFIG. The row lets go of
those it paces."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from controller.runtime import ending, executor_record
from controller.runtime.executor_record import PodRecord
from controller.runtime.table import Owner
from stage_model.errors import RuntimeFailed, Unavailable

if TYPE_CHECKING:
    from controller.runtime.kubernetes.api import KubernetesApi
    from controller.runtime.kubernetes.executors import KubernetesRuntime

RECORDS = "pods"


def check(namespace: str | None) -> str:
    """Return nothing. Raise `Unavailable` where no server answers, or the server may not show these pods."""
    with contextlib.closing(_connect(namespace)) as api:
        try:
            api.pods()
        except RuntimeFailed as error:
            raise Unavailable(f"the runtime kubernetes does not work here: {error}") from error
    return ""


def make(owner: Owner) -> KubernetesRuntime:
    api = _connect(owner.namespace)
    from controller.runtime.kubernetes.executors import KubernetesRuntime

    return KubernetesRuntime(owner.cluster_id, owner.worker_id, owner.folder / RECORDS, api)


def end_all(owner: Owner) -> int:
    records = executor_record.read_all(owner.folder / RECORDS, PodRecord, owner.cluster_id, owner.worker_id)
    namespaces = {record.namespace for _, record in records}
    if not namespaces:  # then no server is needed
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

"""Search for the pod that an executor is: pure. The driver names it, and only what the pod itself shows is believed.

Anybody who may create pods can give one the labels of another's. So labels, environment and address must all be those of this
executor: Spark has started the pod for this driver, application and number, and the driver has heard from it at that address.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.runtime.claimed_process import Serves
from controller.runtime.kubernetes.pod_cpu import PodCpu
from stage_model.errors import RuntimeFailed, RuntimeRefused


def find_claimed_pod(pods: Iterable[PodCpu], serves: Serves, host: str) -> PodCpu:
    """Return the pod of that executor, which its driver knows at the address `host`. Raise `RuntimeRefused` for a pod that is
    not what it says, `RuntimeFailed` while no such pod is seen."""
    labels = (serves.spark_application_id, serves.executor_id)
    labelled = [pod for pod in pods if pod.labels == labels and not pod.ended]
    if not labelled:
        raise RuntimeFailed(f"no pod that this agent sees has the labels of executor {serves.executor_id}; looked for again")
    meant = (serves.driver_url, serves.executor_id, serves.spark_application_id)
    alike = [pod for pod in labelled if (pod.driver_url, pod.executor_id, pod.application_id) == meant]
    if not alike:
        raise RuntimeRefused(
            f"pod {_name(labelled[0])} has its labels, but by its environment Spark has not started it for this driver"
        )
    there = [pod for pod in alike if host and pod.ip == host.strip("[]")]
    if len(there) > 1:
        raise RuntimeRefused(f"pods {_name(there[0])} and {_name(there[1])} both say that they are it, at one address")
    if there:
        return there[0]
    if not alike[0].ip:
        raise RuntimeFailed(f"pod {_name(alike[0])} has no address yet; looked for again")
    raise RuntimeRefused(
        f"pod {_name(alike[0])} says that it is it, but has address {alike[0].ip}, not {host[:80]}, from where the executor "
        "speaks"
    )


def _name(pod: PodCpu) -> str:
    return f"{pod.namespace}/{pod.name}"

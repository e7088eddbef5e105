"""Executors that another cluster manager has started, of an application that is attached only by its conf.

The driver says which executors live and what they have done; each goes to the worker whose agent sees its process. No such
executor is started, ended or placed here. An executor that no agent sees goes on as it would without us, and its user is
informed. The agent of a pod's node gets the pod; without such an agent, an agent that paces the pods of the whole cluster
gets it. Two agents never get the same pod.
"""

from __future__ import annotations

from controller.master.core import executors
from controller.master.core.application import Application
from controller.master.core.executor_state import Executor, ExecutorRecord
from controller.master.core.registry import Registry
from controller.wire.driver import AttachedExecutor, DriverSync
from controller.wire.limits import EXECUTORS
from controller.wire.worker import AdoptedSpec, WorkerInfo

K8S = "k8s://"
NO_AGENT = (
    "executor {} on {} goes on at whatever speed it has: no Sparkpace agent with `--runtime adopt` is on that machine; start "
    "one there"
)
OR_ANYWHERE = ", or one with `--runtime kubernetes` anywhere"


def take_executors(application: Application, sync: DriverSync, registry: Registry, now_s: float) -> None:
    """Take in the driver's report of its executors."""
    if sync.spark_application_id and sync.spark_application_id != application.record.spark_application_id:
        application.record.spark_application_id = sync.spark_application_id
        registry.save(application)
    reported = {one.executor_id: one for one in sync.executors}
    for executor_id, one in reported.items():
        executor = application.executors.get(executor_id)
        if executor is None and application.record.spark_application_id:
            executor = _adopted(application, one, registry, now_s)
        if executor is not None and executor.record.adopted is not None:
            executor.progress = one.progress
    for executor in list(application.live_executors()):
        if executor.record.executor_id not in reported:
            executor.record.planned_end = True
            executor.record.gone = executors.last_word(executor, None, "Spark has removed it")
            registry.save_executor(application, executor)


def _adopted(application: Application, one: AttachedExecutor, registry: Registry, now_s: float) -> Executor | None:
    """Return the executor taken in; None where no agent sees it, or the application has had as many as are kept."""
    if len(application.executors) >= EXECUTORS:
        application.notify(f"it has had {EXECUTORS} executors, as many as an application may; further ones are not paced")
        return None
    pod = application.record.registration.conf.get("spark.master", "").startswith(K8S)
    worker = _worker_of(one, registry, now_s, pod=pod)
    if worker is None:
        application.notify(NO_AGENT.format(one.executor_id[:40], one.host[:80]) + (OR_ANYWHERE if pod else ""))
        return None
    spec = AdoptedSpec(
        application_id=application.id,
        executor_id=one.executor_id,
        slots=one.slots,
        process=one.process,
        spark_application_id=application.record.spark_application_id,
        driver_url=application.record.registration.driver_url,
        host=one.host,
        watched=application.options.observe,
    )
    record = ExecutorRecord(
        executor_id=one.executor_id,
        worker_id=worker.worker_id,
        profile_id=one.profile_id,
        adopted=spec,
        created_s=application.elapsed_s(now_s),
    )
    executor = Executor(record)
    registry.place(application, executor)
    registry.save_executor(application, executor)
    registry.changes.log(f"{application.id} executor {one.executor_id} on worker {worker.worker_id} is attached")
    return executor


def _worker_of(one: AttachedExecutor, registry: Registry, now_s: float, *, pod: bool) -> WorkerInfo | None:
    """Return the worker whose agent runs in the same boot of the same machine; without one, for a pod, a worker whose agent
    paces pods everywhere. Of several, the worker that joined first is taken: each executor has one agent."""
    adopting = registry.workers.adopting(now_s)
    there = [w for w in adopting if w.boot_id == one.process.boot_id and not w.everywhere]
    there += [w for w in adopting if w.everywhere and pod]
    return next(iter(there), None)

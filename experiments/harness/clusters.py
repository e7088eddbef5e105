"""The clusters of an experiment, all up at once: Sparkpace's own, and others whose executors it adopts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from controller.master.core.executor_spec import LEAST_OVERHEAD_MB, PYTHON_MB_PER_SLOT
from controller.runtime.docker.client import connect
from controller.runtime.docker.image import ensure_executor_image
from controller.runtime.engines import machine_cores
from controller.submit.bridge_jar import bridge_jar
from controller.submit.spark_install import find_spark
from experiments.baselines.standalone import standalone
from experiments.harness.live_cluster import own_python_roots
from experiments.harness.local_cluster import LocalCluster
from experiments.harness.one_node import find_kubeconfig, fresh_namespace, load_image, namespace_of
from experiments.harness.result_folder import Asked, AskedCluster
from stage_model.errors import BadInput

WORKERS, SLOTS = 2, 2
"""Executors of a job, as many as Sparkpace has workers, and slots of a Worker, with room for a second job's."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Options of `sparkpace submit` so that another cluster manager starts executors. `variables` go to its environment."""

    master: str
    settings: Mapping[str, object]
    variables: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> tuple[str, ...]:
        conf = (word for key, value in self.settings.items() for word in ("--conf", f"{key}={value}"))
        return ("--master", self.master, *conf)


@contextmanager
def running(folder: Path, what: Asked) -> Iterator[Mapping[str, LocalCluster]]:
    """Provide the clusters by name; the only cluster of a spec that names none is "". Raise `BadInput` for executors of an
    unknown kind."""
    wanted = what.clusters or {"": AskedCluster(what.cluster)}
    for name, asked in wanted.items():
        if asked.executors not in ("", *STARTERS):
            raise BadInput(f"cluster {name} has executors of {asked.executors!r}; accepted: {', '.join(STARTERS)}")
    with ExitStack() as stack:
        found = {}
        for name, asked in wanted.items():
            found[name] = stack.enter_context(LocalCluster(folder, name).running(asked.up))
            if asked.executors:
                elsewhere = stack.enter_context(STARTERS[asked.executors](folder))
                found[name].options, found[name].variables = elsewhere.options(), elsewhere.variables
        yield found


@contextmanager
def _standalone(folder: Path) -> Iterator[Elsewhere]:
    """Provide Spark's Master and Workers. They see the inputs in that folder and may use all cores: only Sparkpace sets
    quotas."""
    with standalone(folder, workers=WORKERS, cores_each=machine_cores(), slots=SLOTS) as spark:
        settings = {
            "spark.cores.max": WORKERS,
            "spark.executor.cores": 1,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        yield Elsewhere(spark.url, settings)


@contextmanager
def _kubernetes(folder: Path) -> Iterator[Elsewhere]:
    """Provide pods of a namespace of this folder's own, on the one node that this machine is. They see the inputs in that
    folder and keep shuffle files to themselves; without a limit of CPU, only Sparkpace sets quotas. Raise `Unavailable` where
    there is no Kubernetes."""
    kubeconfig = find_kubeconfig(os.environ)
    with closing(connect()) as engine:
        image = ensure_executor_image(engine, os.environ.get("SPARKPACE_BASE_IMAGE"))
    load_image(image)
    with fresh_namespace(kubeconfig, namespace_of(folder), folder / "kubernetes") as cluster:
        shown = (bridge_jar().parent, folder, *own_python_roots())
        settings = {
            **cluster.settings(image, find_spark(os.environ).home, shown),
            "spark.executor.instances": WORKERS,
            "spark.executor.cores": 1,
            # a pod is as large as Sparkpace's containers; Spark by itself leaves no room for Python
            "spark.executor.memoryOverhead": f"{LEAST_OVERHEAD_MB + PYTHON_MB_PER_SLOT}m",
        }
        yield Elsewhere(cluster.master(), settings, cluster.variables())


STARTERS: Mapping[str, Callable[[Path], AbstractContextManager[Elsewhere]]] = {
    "standalone": _standalone,
    "kubernetes": _kubernetes,
}
"""Starters of executors that Sparkpace adopts."""

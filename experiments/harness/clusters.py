"""The clusters of an experiment: Sparkpace's own, and others whose executors it adopts. All are up at once, except those that
are to be alone."""

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
from experiments.harness.local_cluster import LocalCluster, SlotMeter
from experiments.harness.one_node import find_kubeconfig, fresh_namespace, load_image, namespace_of
from experiments.harness.result_folder import Asked, AskedCluster
from stage_model.errors import BadInput

WORKERS = 2
"""Executors of a job, as many as Sparkpace has workers."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Options of `sparkpace submit` so that another cluster manager starts executors. `variables` go to its environment;
    `meter` reads what executors hold."""

    master: str
    settings: Mapping[str, object]
    variables: Mapping[str, str] = field(default_factory=dict)
    meter: SlotMeter | None = None

    def options(self) -> tuple[str, ...]:
        conf = (word for key, value in self.settings.items() for word in ("--conf", f"{key}={value}"))
        return ("--master", self.master, *conf)


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters by name; the only cluster of a spec that names none is "". Use `running`."""

    folder: Path
    asked: Mapping[str, AskedCluster]
    _found: dict[str, LocalCluster] = field(default_factory=dict)
    together: ExitStack = field(default_factory=ExitStack)
    alone: ExitStack = field(default_factory=ExitStack)

    def __getitem__(self, name: str) -> LocalCluster:
        """Return the cluster, which is up. If it is to be alone, the cluster that was up for others' steps ends first."""
        if name not in self._found:
            asked = self.asked[name]
            if asked.alone:
                self.end_alone()
            stack = self.alone if asked.alone else self.together
            cluster = LocalCluster(self.folder, "" if asked.alone else name)
            self._found[name] = stack.enter_context(cluster.running(asked.up))
            if asked.executors:
                elsewhere = stack.enter_context(STARTERS[asked.executors](self.folder, asked))
                cluster.options, cluster.variables = elsewhere.options(), elsewhere.variables
                cluster.meter = elsewhere.meter
        return self._found[name]

    def none(self) -> LocalCluster:
        """Return a cluster that is not up, when no cluster is that was to be alone: only its folders can be used."""
        self.end_alone()
        return LocalCluster(self.folder)

    def end_alone(self) -> None:
        """End the cluster that is up only for its own steps, if one is."""
        for name in [name for name in self._found if self.asked[name].alone]:
            del self._found[name]
        self.alone.close()


@contextmanager
def running(folder: Path, what: Asked) -> Iterator[Clusters]:
    """Provide the clusters. Raise `BadInput` for executors of an unknown kind."""
    wanted = what.clusters or {"": AskedCluster(what.cluster)}
    for name, asked in wanted.items():
        if asked.executors not in ("", *STARTERS):
            raise BadInput(f"cluster {name} has executors of {asked.executors!r}; accepted: {', '.join(STARTERS)}")
    clusters = Clusters(folder, wanted)
    with clusters.together, clusters.alone:
        for name, asked in wanted.items():
            if not asked.alone:
                clusters[name]
        yield clusters


@contextmanager
def _standalone(folder: Path, asked: AskedCluster) -> Iterator[Elsewhere]:
    """Provide Spark's Master and Workers, which see the inputs in that folder. Unless a Worker has cores of its own, only
    Sparkpace sets quotas."""
    cores_each = machine_cores() if asked.cores_each is None else asked.cores_each
    with standalone(folder, workers=asked.workers, cores_each=cores_each, slots=asked.slots) as spark:
        settings = {
            "spark.cores.max": WORKERS,
            "spark.executor.cores": 1,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        yield Elsewhere(spark.url, settings, meter=spark)


@contextmanager
def _kubernetes(folder: Path, _asked: AskedCluster) -> Iterator[Elsewhere]:
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


STARTERS: Mapping[str, Callable[[Path, AskedCluster], AbstractContextManager[Elsewhere]]] = {
    "standalone": _standalone,
    "kubernetes": _kubernetes,
}
"""Starters of executors that Sparkpace adopts."""

"""The clusters of an experiment, all up at once: ours, and others whose executors ours adopts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from controller.engines import machine_cores
from experiments.baselines.standalone import standalone
from experiments.harness.local_cluster import LocalCluster
from experiments.harness.result_folder import Asked, AskedCluster
from stage_model.errors import BadInput

WORKERS, SLOTS = 2, 2
"""Of Spark's own clusters: as many executors per job as ours has workers, and room for a second job's."""


@contextmanager
def running(folder: Path, what: Asked) -> Iterator[Mapping[str, LocalCluster]]:
    """By name; the only one of a spec that names none is "". Raises `BadInput` for executors of an unknown kind."""
    wanted = what.clusters or {"": AskedCluster(what.cluster)}
    for name, asked in wanted.items():
        if asked.executors not in ("", *STARTERS):
            raise BadInput(f"cluster {name} has executors of {asked.executors!r}; accepted: {', '.join(STARTERS)}")
    with ExitStack() as stack:
        found = {}
        for name, asked in wanted.items():
            found[name] = stack.enter_context(LocalCluster(folder, name).running(asked.up))
            if asked.executors:
                found[name].options = stack.enter_context(STARTERS[asked.executors](folder))
        yield found


@contextmanager
def _standalone(folder: Path) -> Iterator[tuple[str, ...]]:
    """Spark's Master and Workers. They see the inputs in that folder and may use all cores: quotas are set by us alone."""
    with standalone(folder, workers=WORKERS, cores_each=machine_cores(), slots=SLOTS) as spark:
        settings = {
            "spark.cores.max": WORKERS,
            "spark.executor.cores": 1,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        yield ("--master", spark.url, *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")))


STARTERS: Mapping[str, Callable[[Path], AbstractContextManager[tuple[str, ...]]]] = {"standalone": _standalone}
"""What starts executors that ours adopts; yields options of `sparkpace submit`."""

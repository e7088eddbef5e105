"""Image and class archives, which jobs of this machine need besides Spark, made before the first job has to wait for them.

Agents make the image and the archives of executors on first use anyway, also for a Spark or a submitter that `sparkpace up`
does not know.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import cast

from controller.agent.executors.class_archive import ClassArchives, archive_root
from controller.home import Home
from controller.local.plan import Plan
from controller.master.core.executor_spec import DEFAULT_HEAP_MB, class_path
from controller.runtime.base import Bind, ExecutorKey, Launch, Starter
from controller.runtime.table import RUNTIMES, Owner
from controller.submit import driver_archive
from controller.submit.bridge_jar import bridge_jar
from controller.submit.spark_install import SparkInstall, find_spark
from stage_model.errors import RuntimeFailed, RuntimeRefused, Unavailable

NAME = "prepare"
Step = Callable[[str], AbstractContextManager[None]]
"""A context that shows what goes on within it."""
TIMEOUT_S = 600.0
"""No job waits yet, so a busy machine may take its time."""
log = logging.getLogger(__name__)


def prepare(home: Home, plan: Plan, java_home: Path, step: Step) -> None:
    """Prepare drivers and executors of this user that run the Spark which is here, for a runtime that starts them; work that
    may take long is within a `step`. A part that cannot be made is named in one line and stops nothing. Without a Spark, an
    engine or a built bridge nothing is made: agents prepare executors when they see the first."""
    with suppress(Unavailable), ThreadPoolExecutor(1, "prepare") as pool:
        spark, jar = find_spark(os.environ), bridge_jar()
        driver = pool.submit(_prepare_driver, spark, java_home, jar, step)
        _prepare_executors(home, plan, spark, java_home, jar, step)
        try:
            driver.result()
        except (RuntimeFailed, OSError) as error:
            log.warning("%s", error)


def _prepare_driver(spark: SparkInstall, java_home: Path, jar: Path, step: Step) -> None:
    with step("class archive of drivers"):
        driver_archive.make_archive(os.environ, java_home, spark, jar)


def _prepare_executors(home: Home, plan: Plan, spark: SparkInstall, java_home: Path, jar: Path, step: Step) -> None:
    row = RUNTIMES[plan.runtime]
    runtime = cast(Starter, row.load().make(Owner(cluster_of(home), NAME, home.agent(NAME), plan.image)))
    try:
        with step(row.prepares):
            java = runtime.java(str(java_home), None)
        launch = Launch(
            key=ExecutorKey(NAME, NAME),
            argv=[java.program, "-cp", class_path(str(jar), str(spark.home / "jars")), f"-Xmx{DEFAULT_HEAP_MB}m"],
            environment={},
            binds=[Bind(spark.home), Bind(jar)],
            working_dir=home.path,
            log_dir=home.logs,
            memory_bytes=max(worker.memory_mb for worker in plan.workers) << 20,
            cores=sum(worker.cores for worker in plan.workers),  # no executor has them yet
            uid=os.getuid(),
            gid=os.getgid(),
        )
        with step("class archive of executors"):
            ClassArchives(runtime, archive_root(), TIMEOUT_S).add_to(launch, java)
    except (RuntimeFailed, RuntimeRefused) as error:
        log.warning("executors cannot be prepared: %s", error)
    finally:
        runtime.close()


def cluster_of(home: Home) -> str:
    """Return the cluster id for programs that run here: each home has its own, because runtimes of one cluster end each
    other's programs."""
    return f"{NAME}-{hashlib.sha256(bytes(home.path)).hexdigest()[:8]}"

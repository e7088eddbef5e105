"""Spark's own standalone cluster on this machine, as plain processes: a Master and Workers, unmodified."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.harness.live_cluster import end_processes, free_port, spark_home
from tests.integration.local_cluster import QUICK_JVM, eventually

SLOTS = 4
"""Cores that each Worker says it has: more than the machine's, so that several jobs have executors at once."""


@contextmanager
def standalone(folder: Path, python: Path, workers: int = 2) -> Iterator[str]:
    """Start the cluster and provide its URL; the Spark is that of `python`. `folder` gets its logs and its executors'
    files."""
    home, port = spark_home(python), free_port()
    folder.mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
        "SPARK_CONF_DIR": str(folder),
    }
    url, services = f"spark://127.0.0.1:{port}", []

    def start(name: str, *words: str) -> None:
        with (folder / f"{name}.log").open("wb") as out:
            command = [str(home / "bin/spark-class"), *words, "--host", "127.0.0.1", "--webui-port", "0"]
            services.append(
                subprocess.Popen(
                    command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
                )
            )

    try:
        start("master", "org.apache.spark.deploy.master.Master", "--port", str(port))
        for number in range(1, workers + 1):
            size = ("--cores", str(SLOTS), "--memory", "4g", "--work-dir", str(folder / f"work-{number}"))
            start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *size, url)
        log = folder / "master.log"
        eventually(lambda: log.read_text(errors="replace").count("Registering worker") == workers, f"{workers} Workers")
        yield url
    finally:
        end_processes(services[::-1])

"""Spark's own authentication on real Spark: a peer without the application's secret is refused, and nothing shows the secret.

In containers with the installed Spark, as processes with Spark 3.5 and encryption. Not covered: what reads the memory of a
process of the same user.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from controller.asks.properties import parse_properties
from experiments.harness.live_cluster import spark_home
from tests.integration.engine import Engine
from tests.integration.local_cluster import QUICK_JVM, Job, LocalCluster, eventually

pytestmark = pytest.mark.spark

BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
SECRET = "spark.authenticate.secret"
JOINED = "Successfully registered with driver"


@pytest.mark.docker
def test_containers_of_the_installed_spark(cluster: LocalCluster, engine: Engine, stop_file: Path, tmp_path: Path) -> None:
    check(cluster, Path(sys.executable), stop_file, tmp_path, engine)


def test_encrypted_processes_of_spark_35(
    process_cluster: LocalCluster, spark35_python: Path, stop_file: Path, tmp_path: Path
) -> None:
    check(process_cluster, spark35_python, stop_file, tmp_path, None, "--encrypt")


def check(cluster: LocalCluster, python: Path, stop_file: Path, tmp_path: Path, engine: Engine | None, *options: str) -> None:
    (tmp_path / "events").mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{tmp_path}/events",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "true",
        "spark.redaction.regex": "(?i)password",  # would show the secret in the event log and the UI
        "spark.my.password": "mine",
    }
    words = (part for key, value in conf.items() for part in ("--conf", f"{key}={value}"))
    variables = {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark_home(python))}
    command = cluster.sparkpace().command(("submit", *options, *words, "--name", "closed", "rounds.py", str(stop_file)))
    job = cluster.start(command, variables)
    view = cluster.running("closed", executors=2 if engine else 1)
    secret = secret_of(job)
    # of each once: a process that an executor is about to start has its command line for a moment
    executors = {tuple(words): words for words in command_lines() if is_executor(words, view.application_id)}
    [line, *_] = lines = list(executors.values())
    assert ("-Dspark.network.crypto.enabled=true" in line) == ("--encrypt" in options)

    held = sorted(places(cluster, secret))
    assert len(held) == len(lines)
    for file in held:
        assert (file.name, file.stat().st_mode & 0o777, file.stat().st_uid) == ("credentials", 0o400, os.getuid())
    assert secret not in str(command_lines())
    assert not [pid for pid, environment in environments() if secret in environment]
    if engine is not None:
        containers = [engine.inspect(container) for container in engine.containers(view.application_id)]
        assert len(containers) == 2
        assert secret not in json.dumps(containers)
    assert view.ui_url is not None
    page = urllib.request.urlopen(f"{view.ui_url}/environment/", timeout=60).read().decode()
    assert ("spark.authenticate" in page, secret in page) == (True, False)

    peer = Peer(python, line, tmp_path)
    assert JOINED not in peer.ended({}, "-Dspark.authenticate=false")
    wrong = tmp_path / "wrong"
    right = held[0].read_bytes()
    wrong.write_bytes(right.replace(secret.encode(), secret[::-1].encode()))
    assert JOINED not in peer.ended({"HADOOP_TOKEN_FILE_LOCATION": str(wrong)})
    assert " with ID 99," not in job.err.read_text()
    # the very same with the secret: it is this that keeps the others out
    shutil.copyfile(held[0], tmp_path / "right")
    with peer.running({"HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "right")}) as log:
        eventually(lambda: JOINED in log.read_text(errors="replace") or peer.over, "an executor that has the secret")
        assert not peer.over, log.read_text(errors="replace")
    (tmp_path / "right").unlink()

    stop_file.touch()
    done = job.finish().ok()
    assert done.answer["ok"]
    eventually(lambda: all(v.finished for v in cluster.views("closed")), "the record")
    eventually(lambda: not places(cluster, secret), "the end of every file with the secret")
    [log] = [path for path in (tmp_path / "events").rglob("*") if path.is_file() and path.stat().st_size > 1000]
    logged = log.read_text()
    assert ("spark.authenticate" in logged, secret in logged, "spark.my.password" in logged) == (True, False, True)


class Peer:
    """An executor that the master did not order, started like the agent's: `line` is the command of one of the agent's."""

    def __init__(self, python: Path, line: list[str], folder: Path) -> None:
        home, java = os.environ.get("JAVA_HOME"), shutil.which("java")
        options = [
            word for word in line[line.index("-cp") + 2 : line.index(BACKEND)] if word.startswith(("-Dspark.", "--add-"))
        ]
        values = dict(zip(line[line.index(BACKEND) + 1 :: 2], line[line.index(BACKEND) + 2 :: 2], strict=False))
        address = {"--executor-id": "99", "--hostname": "127.0.0.1", "--bind-address": "127.0.0.1"}
        wanted = {name: values[name] for name in ("--driver-url", "--app-id", "--cores", "--resourceProfileId")} | address
        self.folder = folder
        self.command = [f"{home}/bin/java" if home else str(java), "-cp", f"{spark_home(python)}/jars/*", "-Xmx512m"]
        self.options = [*options, *QUICK_JVM.split(), "-Dspark.network.timeout=60s", f"-Djava.io.tmpdir={folder}"]
        self.end = [BACKEND, *(word for pair in wanted.items() for word in pair)]

    @contextlib.contextmanager
    def running(self, environment: dict[str, str], *options: str) -> Iterator[Path]:
        log = self.folder / "peer.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*self.command, *self.options, *options, *self.end],
                env={"PATH": os.environ["PATH"], "SPARK_LOCAL_DIRS": str(self.folder), **environment},
                cwd=self.folder,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            self.process = process
            yield log
        finally:
            process.kill()
            process.wait()

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def ended(self, environment: dict[str, str], *options: str) -> str:
        """Run until the peer gives up; return its log."""
        with self.running(environment, *options) as log:
            assert self.process.wait(300) != 0
            return log.read_text(errors="replace")


def secret_of(job: Job) -> str:
    """Return the secret as the driver read it: from a file that only it and `submit` have open."""
    driver = job.driver()
    words = driver.cmdline()
    number = re.fullmatch(r"/proc/self/fd/(\d+)", words[words.index("--properties-file") + 1])
    assert number is not None
    settings = parse_properties(Path(f"/proc/{driver.pid}/fd/{number[1]}").read_text())
    assert len(settings[SECRET]) >= 43
    return settings[SECRET]


def places(cluster: LocalCluster, secret: str) -> list[Path]:
    """Return the files of the cluster and of its jobs that hold the secret: database, records, run folders, logs,
    settings."""
    found = []
    for path in cluster.home.path.parent.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes():
                found.append(path)
    return found


def is_executor(words: list[str], application_id: str) -> bool:
    """Check that the words start an executor, not the first process of its container."""
    return BACKEND in words and application_id in words and Path(words[0]).name == "java"


def command_lines() -> list[list[str]]:
    return [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]


def environments() -> Iterator[tuple[int, str]]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            yield process.pid, str(process.environ())

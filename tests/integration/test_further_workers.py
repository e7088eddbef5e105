"""Workers that a program starts (`--provider command`), on real Spark and Docker: for a job that could not run, and for a
deadline that the present worker cannot keep."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stage_model.errors import InfeasibleDeadline
from tests.integration.engine import containers_in
from tests.integration.local_cluster import PROGRAM, LocalCluster, eventually
from tests.integration.pacing import AIM, assert_late_only_with_all

pytestmark = [pytest.mark.spark, pytest.mark.docker, pytest.mark.slow]

JOB = ("stages.py", "--work", "1700", "--tasks", "12", "--rounds", "1")
"""A job that takes long on half a core: a second worker must be there long before its end."""
STARTER = """#!{python}
import json, os, signal, subprocess, sys
from pathlib import Path

verb, name, *size = sys.argv[1:]
home = os.environ["SPARKPACE_HOME"]
record = Path(home, f"{{name}}.pid")
if verb == "start":
    cores, memory, resources, labels = size
    words = ["agent", "--home", home, "--worker-id", name, "--cores", cores, "--memory", memory, "--runtime", "docker",
             "--resources", resources, "--labels", labels, "--master", os.environ["SPARKPACE_MASTER"], "--host", "127.0.0.4",
             "--network", "host"]
    with open(Path(home, "logs", f"agent-{{name}}.log"), "ab") as log:
        agent = subprocess.Popen([*{command!r}, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True)
    record.write_text(str(agent.pid))
elif record.exists():
    os.kill(int(record.read_text()), signal.SIGTERM)
    record.unlink()
"""


@pytest.fixture
def small(docker_engine: Any, tmp_path: Path) -> Iterator[LocalCluster]:
    """Provide a worker of half a core; a program may start one more. They are on the host's network, because they have names
    of their own, by which Spark knows executors only there."""
    starter = tmp_path / "starter.py"
    starter.write_text(STARTER.format(python=sys.executable, command=PROGRAM))
    starter.chmod(0o755)
    options = (
        *("--worker", "cores=0.5 memory=3g host=127.0.0.2 id=a", "--grow-up-to", "cores=1 memory=3g resources=fpga=1"),
        *("--network", "host", "--provider", "command", "--provider-command", str(starter), "--idle", "3s"),
    )
    with containers_in(docker_engine, tmp_path, *options) as cluster:
        yield cluster


def conf(what: str, value: str) -> tuple[str, ...]:
    return ("--conf", f"spark.pace.placement.{what}={value}")


def test_a_job_that_could_not_run_and_a_deadline_that_needs_more_cores_start_a_worker(small: LocalCluster) -> None:
    # the first one shows also how long a worker takes to start here
    only_there = ("--num-executors", "1", *conf("resources", "fpga=1"), *conf("labels", "zone=c"))
    assert small.run("--name", "first", *only_there, "stages.py").ok().answer["ok"]
    [first] = small.summary("first")["workers"]
    assert first.startswith("grown-")
    assert f"starting worker {first}" in small.log("master")
    eventually(lambda: f"giving worker {first} back: it had no work for 3 s" in small.log("master"), "the worker's end")
    eventually(lambda: first not in {w.worker_id for w in small.client().workers()}, "its removal")
    refused = small.run("--name", "asic", *conf("resources", "asic=1"), "stages.py")
    assert "1 cores, 3072 MiB, fpga=1" in refused.err

    assert small.run("--name", "grown", *JOB).ok().answer["ok"]
    alone = small.summary("grown")
    assert alone["workers"] == ["a"]
    deadline = ("--name", "grown", "--deadline", f"{0.85 * alone['end_s']:.1f}s")
    refused = small.run(*deadline, "--num-executors", "1", *JOB)
    assert refused.code == InfeasibleDeadline.exit_code
    assert "its settings allow no executor on more workers" in refused.err
    planned = small.command("submit", "--dry-run", *deadline, *JOB)
    assert "can be met with 1 further worker (1 cores" in planned.stdout + planned.stderr
    assert small.run(*deadline, *AIM, *JOB).ok().answer["ok"]
    summary = small.summary("grown")
    assert "its deadline needs 1 further worker" in small.log("master")
    [second] = [worker for worker in summary["workers"] if worker != "a"]
    assert second.startswith("grown-")
    assert_late_only_with_all(summary["violated"], small.samples(summary["app_id"]))

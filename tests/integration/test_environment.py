"""An executor's environment is what Spark would give it: one program under plain `local-cluster` and under our runtimes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments.harness.live_cluster import spark_home
from tests.integration.local_cluster import LocalCluster

pytestmark = pytest.mark.spark

Facts = dict[str, Any]
DRIVER = {"TZ": "Asia/Kolkata", "LANG": "C.UTF-8", "LC_NUMERIC": "C", "DRIVERS_OWN": "here only", "JDK_JAVA_OPTIONS": ""}
"""Variables of the driver's environment; the tests' own options of Java would reach Spark's executors and not ours."""
WORDS = (
    *("--conf", "spark.executorEnv.MINE=yes", "--conf", "spark.executor.extraJavaOptions=-Dmy.own=1"),
    *("--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=512m"),
)
UMASK = 0o027
SAME_VARIABLES = ("TZ", "LANG", "LC_NUMERIC", "MINE", "SPARK_USER", "PYTHONHASHSEED", "OMP_NUM_THREADS")
MEANT: Mapping[str, Mapping[str, str]] = {
    "process": {
        "python/working folder": "Spark's lies below SPARK_HOME, which may be read-only",
        "jvm/user.dir": "the same",
        "python/limits": "no core is dumped",
        "jvm/class path": "the bridge, and Spark's own jars without its configuration's folder",
    },
    "docker": {
        "python/working folder": "Spark's lies below SPARK_HOME, which may be read-only",
        "jvm/user.dir": "the same",
        "python/limits": "a container has limits of its own on open files, and no core is dumped",
        "python/home": "a container does not see the home of its user, which may hold secrets",
        "jvm/class path": "the bridge, and Spark's own jars without its configuration's folder",
    },
}
"""Differences that are meant, and why. Variables of the driver that say neither time nor text are not handed on either, as no
cluster manager on other machines would: `spark.executorEnv.NAME` is for them."""


def facts(answer: Facts) -> Facts:
    """Everything but the variables, by name."""
    return {f"{side}/{name}": value for side, of in answer.items() for name, value in of.items() if name != "variables"}


def run(cluster: LocalCluster, command: list[str], variables: Mapping[str, str]) -> Facts:
    """The program's answer, of a driver with these variables and the umask of this test."""
    started = ["/bin/sh", "-c", f'umask {UMASK:04o}; exec "$@"', "sh", *command]
    answer = cluster.start(started, {**DRIVER, **variables}).finish().ok().answer
    assert isinstance(answer, dict)
    return answer


@pytest.fixture(scope="module")
def plain(process_home: LocalCluster) -> Facts:
    """What Spark's own executors see."""
    python = Path(sys.executable)
    submit = [str(python.parent / "spark-submit"), "--master", "local-cluster[1,1,1024]", *WORDS, "environment.py"]
    return run(process_home, submit, {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark_home(python))})


@pytest.mark.parametrize("runtime", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_tasks_see_what_sparks_own_executors_would_show_them(
    runtime: str, plain: Facts, request: pytest.FixtureRequest
) -> None:
    cluster: LocalCluster = request.getfixturevalue("cluster" if runtime == "docker" else "process_cluster")
    ours = run(cluster, cluster.sparkpace().command(("submit", *WORDS, "environment.py")), {})
    expected, got = facts(plain), facts(ours)
    assert {name for name in expected if got.get(name) != expected[name]} == set(MEANT[runtime])
    for name in SAME_VARIABLES:
        assert ours["python"]["variables"].get(name) == plain["python"]["variables"].get(name), name
    assert "DRIVERS_OWN" not in ours["python"]["variables"]
    assert (got["python/umask"], got["jvm/hour"]) == (UMASK, "15:30")

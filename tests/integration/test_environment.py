"""An executor's environment is what Spark would give it.

One program runs under plain `local-cluster` and under our runtimes, and under Spark's own standalone cluster and Kubernetes
with us and without. Not covered: the variables that name a pod and its addresses.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments.harness.live_cluster import spark_home
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.local_cluster import QUICK_JVM, Job, LocalCluster
from tests.integration.spark_standalone import standalone
from tests.integration.test_kubernetes_node_mode import attached

pytestmark = pytest.mark.spark

Facts = dict[str, Any]
DRIVER = {"TZ": "Asia/Kolkata", "LANG": "C.UTF-8", "LC_NUMERIC": "C", "DRIVERS_OWN": "here only", "JDK_JAVA_OPTIONS": ""}
"""Variables of the driver's environment; the tests' own options of Java would reach Spark's executors and not Sparkpace's."""
WORDS = (
    *("--conf", "spark.executorEnv.MINE=yes", "--conf", f"spark.executor.extraJavaOptions={QUICK_JVM} -Dmy.own=1"),
    *("--conf", f"spark.driver.extraJavaOptions={QUICK_JVM}"),
    *("--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=512m"),
)
ONE = ("--num-executors", "1")
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
    """Return everything but the variables, by name; names that Spark draws for each application are replaced by their
    kind."""
    named = {f"{side}/{name}": value for side, of in answer.items() for name, value in of.items() if name != "variables"}
    return {name: without_drawn_names(value) if isinstance(value, str) else value for name, value in named.items()}


def without_drawn_names(text: str) -> str:
    return re.sub(r"app-\d{14}-\d{4}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "NAME", text)


def differences(ours: Facts, plain: Facts) -> set[str]:
    expected, got = facts(plain), facts(ours)
    return {name for name in expected.keys() | got.keys() if got.get(name) != expected.get(name)}


def start(cluster: LocalCluster, command: list[str], variables: Mapping[str, str]) -> Job:
    """Start the program, with these variables of the driver and the umask of this test."""
    return cluster.start(["/bin/sh", "-c", f'umask {UMASK:04o}; exec "$@"', "sh", *command], {**DRIVER, **variables})


def answer_of(job: Job) -> Facts:
    answer = job.finish().ok().answer
    assert isinstance(answer, dict)
    return answer


@pytest.fixture(scope="module")
def plain(process_home: LocalCluster) -> Facts:
    """Provide the facts that Spark's own executors see."""
    python = Path(sys.executable)
    submit = [str(python.parent / "spark-submit"), "--master", "local-cluster[1,1,1024]", *WORDS, "environment.py"]
    return answer_of(start(process_home, submit, {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark_home(python))}))


@pytest.mark.parametrize("runtime", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_tasks_see_what_sparks_own_executors_would_show_them(
    runtime: str, plain: Facts, request: pytest.FixtureRequest
) -> None:
    cluster: LocalCluster = request.getfixturevalue("cluster" if runtime == "docker" else "process_cluster")
    ours = answer_of(start(cluster, cluster.sparkpace().command(("submit", *ONE, *WORDS, "environment.py")), {}))
    assert differences(ours, plain) == set(MEANT[runtime])
    for name in SAME_VARIABLES:
        assert ours["python"]["variables"].get(name) == plain["python"]["variables"].get(name), name
    assert "DRIVERS_OWN" not in ours["python"]["variables"]
    assert (ours["python"]["umask"], ours["jvm"]["hour"]) == (UMASK, "15:30")


def variables(answer: Facts, ignored: str) -> dict[str, str]:
    found = {name: without_drawn_names(value) for name, value in answer["python"]["variables"].items()}
    return {name: value for name, value in found.items() if not re.match(ignored, name)}


@pytest.mark.slow
def test_standalone_executors_show_tasks_the_same_with_and_without_us(adopting: LocalCluster, tmp_path: Path) -> None:
    python = Path(sys.executable)
    own = {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark_home(python))}
    # with one Worker, both jobs have their working folders below the same one
    with standalone(tmp_path / "standalone", python, workers=1) as url:
        words = ("--master", url, "--total-executor-cores", "1", *WORDS, "environment.py")
        without = start(adopting, [str(python.parent / "spark-submit"), *words], own)
        ours = answer_of(start(adopting, adopting.sparkpace().command(("submit", *words)), own))
        plain = answer_of(without)
    assert differences(ours, plain) == set()
    drawn = "SPARK_LOG_URL|SPARK_EXECUTOR_DIRS|CLASSPATH|PYTHON_WORKER_FACTORY_SECRET|.*_PORT$"
    assert variables(ours, drawn) == variables(plain, drawn)


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.kubernetes
@pytest.mark.groups
def test_pods_show_tasks_the_same_with_and_without_us(
    adopting: LocalCluster, kubernetes: Kubernetes, executor_image: str
) -> None:
    python, words = Path(sys.executable), (*WORDS, "--conf", "spark.executor.instances=1", "environment.py")
    without = kubernetes.spark_submit(python, executor_image, *words)
    ours = attached(adopting, kubernetes, executor_image, python)(*words).finish().ok().answer
    plain = without.finish().ok().answer
    assert differences(ours, plain) == set()
    names = "SPARK_APPLICATION_ID|SPARK_EXECUTOR_POD|SPARK_DRIVER|HOSTNAME|PYTHON_WORKER_FACTORY_SECRET"
    drawn = f"{names}|SPARK_JAVA_OPT"  # Spark's settings, which differ by those of Sparkpace
    assert variables(ours, drawn) == variables(plain, drawn)


@pytest.mark.docker
def test_driver_and_tasks_run_under_the_virtual_environment_that_is_active(cluster: LocalCluster, tmp_path: Path) -> None:
    """The environment has a package of its own, and no pyspark; executors in containers see only what is mounted there."""
    active = tmp_path / "active"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(active)], check=True)
    [packages] = active.glob("lib/python3*/site-packages")
    (packages / "for_this_test.py").write_text("SAID = 'yes'\n")
    words = cluster.sparkpace().command(("submit", *ONE, "own_package.py"))
    answer = cluster.start(words, {"VIRTUAL_ENV": str(active)}).finish().ok().answer
    seen = [str(active / "bin" / "python3"), "yes"]
    assert answer == {"driver": seen, "tasks": [seen, seen]}

"""Executors that Spark's own cluster managers start, on real Spark: paced only by conf, and untouched without us."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from controller.asks.properties import parse_properties
from controller.wire.command import ApplicationView
from experiments.harness.live_cluster import free_port, spark_home
from tests.integration.conftest import ONE_SPARK
from tests.integration.local_cluster import Finished, Job, LocalCluster, adopted_groups, conf_words, eventually
from tests.integration.pacing import AIM, assert_paced, assert_squeezed, assert_told, contest, deadline_for
from tests.integration.spark_standalone import standalone

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SPARKS = "local-cluster[2,1,1024]"
"""A Master and two Workers of Spark's own in the driver's JVM, with an executor of one core each."""
ONE = "local-cluster[1,1,1024]"
"""The same with one Worker, for a job that only has to run."""
JOB = ("stages.py", "--work", "40", "--tasks", "8", "--rounds", "3")
SMALL = ("stages.py", "--work", "1", "--tasks", "2", "--rounds", "1")
LONG = ("stages.py", "--work", "600", "--tasks", "8", "--rounds", "2")
"""About 16 core-seconds in Python workers."""


def _attached(adopting: LocalCluster, name: str, executors: int) -> ApplicationView:
    def look() -> ApplicationView | None:
        return next((view for view in adopting.views(name) if view.executors == executors), None)

    return eventually(look, f"{executors} executors of {name}")


@pytest.fixture
def submit(adopting: LocalCluster, python: Path) -> Callable[..., Finished]:
    """Provide a function that runs `sparkpace submit --master` with the Spark of that Python."""
    variables = {"SPARK_HOME": str(spark_home(python)), "PYSPARK_PYTHON": str(python)}

    def run(*words: str) -> Finished:
        return adopting.start(adopting.sparkpace().command(("submit", "--master", SPARKS, *words)), variables).finish()

    return run


@pytest.fixture(scope="module")
def hold_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the path of a file for which the last round of `work` waits."""
    return tmp_path_factory.mktemp("hold") / "go-on"


@pytest.fixture
def work(hold_file: Path) -> tuple[str, ...]:
    """Provide the words of a job that does not wait unless a test removes `hold_file`."""
    hold_file.touch()
    return (*JOB, "--hold", str(hold_file))


@pytest.fixture(scope="module")
def known() -> dict[str, dict[str, Any]]:
    """Records of first runs, by the name of the job."""
    return {}


@pytest.fixture
def taught(
    adopting: LocalCluster,
    submit: Callable[..., Finished],
    python: Path,
    work: tuple[str, ...],
    known: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Provide the record of a run of `work` without a deadline, one for each Spark; its name is that of the profile's job."""
    name = f"job-{python.parent.parent.name}"
    if name not in known:
        assert submit("--name", name, *work).ok().answer["ok"]
        known[name] = adopting.summary(name)
    return known[name]


@pytest.mark.parametrize("python", ["spark35"], indirect=True)
def test_a_job_on_sparks_own_cluster_is_paced_and_its_groups_go(
    adopting: LocalCluster, submit: Callable[..., Finished], taught: dict[str, Any], work: tuple[str, ...]
) -> None:
    name = taught["name"]
    assert taught["executors"] == 2
    assert submit("--name", name, "--deadline", f"{deadline_for(taught['end_s']):.0f}s", *AIM, *work).ok().answer["ok"]
    summary = adopting.summary(name)
    samples = adopting.samples(summary["app_id"])
    assert_paced(summary, samples)
    assert {sample.executor_id for sample in samples if sample.quota > 0} == {"0", "1"}
    assert_told(adopting.home, summary)
    eventually(lambda: adopted_groups(adopting) == [], "the end of the executors' groups")


@ONE_SPARK
def test_a_watched_job_stays_in_its_groups_without_a_quota_and_its_savings_are_shown(
    adopting: LocalCluster, taught: dict[str, Any], work: tuple[str, ...], hold_file: Path
) -> None:
    hold_file.unlink()
    watch = ("submit", "--master", SPARKS, "--name", "watched", "--profile", taught["profile"], "--observe")
    job = adopting.start(adopting.sparkpace().command((*watch, "--deadline", "1s", *work)))
    view = _attached(adopting, "watched", 2)
    eventually(lambda: adopting.client().application(view.application_id).stages_done, "work of the executors")
    driver = job.driver().pid
    executors = [process.pid for process in psutil.process_iter() if _is_executor(process, driver)]
    assert len(executors) == 2
    groups = {Path(f"/proc/{pid}/cgroup").read_text() for pid in (driver, *executors)}
    assert (len(groups), adopted_groups(adopting)) == (1, [])
    hold_file.touch()
    assert job.finish().ok().answer["ok"]
    summary = adopting.summary("watched")
    assert (summary["app_id"], summary["observed"], summary["violated"]) == (view.application_id, True, True)
    samples = adopting.samples(view.application_id)
    assert {sample.quota for sample in samples} == {0.0}
    [row] = json.loads(adopting.command("savings", view.application_id, "--output", "json").stdout)["applications"]
    # the runs before it in the profile give an interval; no cores keep a deadline of 1 s
    assert (row["on_time"], row["remark"], row["saved_core_s"], row["most_core_s"]) == (False, "", 0.0, 0.0)
    assert row["used_core_s"] > 0
    assert row["held_core_s"] > 0


@ONE_SPARK
def test_a_deadline_that_cannot_be_met_ends_the_driver_before_it_has_executors(
    adopting: LocalCluster, submit: Callable[..., Finished], python: Path, taught: dict[str, Any], work: tuple[str, ...]
) -> None:
    name = taught["name"]
    refused = submit("--name", name, "--deadline", "1s", *work)
    assert (refused.code, "cannot be met" in refused.err) == (75, True)
    attached = parse_properties(adopting.command("conf", "--attach").stdout)
    settings = attached | {"spark.pace.deadline": "1s", "spark.app.name": name, "spark.ui.enabled": "false"}
    job = adopting.start(
        [str(python.parent / "spark-submit"), "--master", SPARKS, *conf_words(settings), *work],
        {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark_home(python))},
    ).finish()
    assert job.code != 0
    assert "deadline 1s cannot be met" in job.err
    assert "Granted executor ID" not in job.err


def test_without_a_master_or_a_token_the_job_runs_and_says_what_it_lacks(adopting: LocalCluster, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.token"
    wrong.touch(mode=0o600)
    wrong.write_text("not-a-token\n")
    lacking = {
        f"spark.pace.master=sparkpace://127.0.0.1:{free_port()}": ": the master at 127.0.0.1:",
        f"spark.pace.token.file={wrong}": "",
        f"spark.pace.ca.file={tmp_path / 'no-ca.pem'}": ": there is no CA file",
    }
    command = ("submit", "--master", ONE, "--conf")
    jobs = [adopting.start(adopting.sparkpace().command((*command, setting, *SMALL))) for setting in lacking]
    for job, why in zip(jobs, lacking.values(), strict=True):
        done = job.finish().ok()
        assert done.answer["ok"]
        assert done.err.count(f"this application runs without Sparkpace{why}") == 1


def test_agent_and_master_may_die_and_the_job_loses_nothing(adopting: LocalCluster, stop_file: Path) -> None:
    words = ("submit", "--master", SPARKS, "--name", "lasting", "rounds.py", str(stop_file))
    job = adopting.start(adopting.sparkpace().command(words))
    view = _attached(adopting, "lasting", 2)
    eventually(lambda: len({group.name for group in adopted_groups(adopting)}) == 2, "a group of each executor")
    adopting.kill_agent("w1")
    adopting.kill_master()
    adopting.restore()
    adopting.await_workers()
    eventually(lambda: adopting.client().application(view.application_id).executors == 2, "the same executors")
    executors = [p for p in psutil.process_iter() if _is_executor(p, job.driver().pid)]
    assert len(executors) == 2
    adopting.command("kill", "lasting")
    assert job.finish().code != 0
    eventually(lambda: adopted_groups(adopting) == [], "the end of the executors' groups")


def _is_executor(process: psutil.Process, driver: int) -> bool:
    try:
        line = process.cmdline()
        return "org.apache.spark.executor.CoarseGrainedExecutorBackend" in line and any(
            parent.pid == driver for parent in process.parents()
        )
    except psutil.Error:
        return False


def test_a_stock_job_without_our_settings_knows_nothing_of_us(adopting: LocalCluster, tmp_path: Path) -> None:
    """The plugin by itself, without `spark.pace.master`, says nothing and makes no call."""
    jar = adopting.command("jar").stdout.strip()
    conf = {"spark.plugins": "org.sparkpace.bridge.PacePlugin", "spark.jars": jar, "spark.ui.enabled": "false"}
    python = Path(sys.executable)
    before = len(adopting.client().applications())
    done = adopting.start(
        [str(python.parent / "spark-submit"), "--master", ONE, *conf_words(conf), *SMALL],
        {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark_home(python))},
    ).finish()
    assert done.ok().answer["ok"]
    assert "Sparkpace" not in done.err
    assert len(adopting.client().applications()) == before


# ---------------------------------------------------------------- a Master and Workers of their own


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("standalone") / "spark", Path(sys.executable)) as url:
        yield url


@pytest.fixture
def to_workers(adopting: LocalCluster, workers: str) -> Callable[..., Job]:
    """Provide a function that starts `sparkpace submit --master spark://...`, with two executors of one core at most."""
    local = ("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1")
    two = ("--conf", "spark.cores.max=2", "--conf", "spark.executor.cores=1")

    def start(*words: str) -> Job:
        return adopting.start(adopting.sparkpace().command(("submit", "--master", workers, *local, *two, *words)))

    return start


def test_a_job_of_high_priority_takes_the_cores_of_another_that_loses_nothing(
    adopting: LocalCluster, to_workers: Callable[..., Job], stop_file: Path
) -> None:
    """The last rounds of both begin together."""
    to_workers("--name", "long", *LONG).finish().ok()
    alone = adopting.summary("long")
    assert alone["executors"] == 2
    words = ("--profile", alone["profile"], *LONG, "--hold", str(stop_file))
    low, high = (to_workers(*options, *words) for options in contest(alone["end_s"]))
    ids = [_attached(adopting, name, 2).application_id for name in ("squeezed", "first")]
    eventually(lambda: all(adopting.client().application(one).stages_done == 2 for one in ids), "the first rounds of both")
    stop_file.touch()
    assert high.finish().ok().answer["ok"]
    assert low.finish().ok().answer["ok"]
    assert_squeezed(adopting.summary("squeezed"), adopting.samples(ids[0]), ids[0])
    eventually(lambda: adopted_groups(adopting) == [], "the end of the executors' groups")


def test_executors_of_dynamic_allocation_come_and_go_and_are_paced_while_they_are_there(
    adopting: LocalCluster, to_workers: Callable[..., Job], tmp_path: Path
) -> None:
    dynamic = {
        "enabled": "true",
        "shuffleTracking.enabled": "true",
        "shuffleTracking.timeout": "1s",
        "executorIdleTimeout": "1s",
        "minExecutors": "1",
        "initialExecutors": "2",
    }
    settings = [word for key, value in dynamic.items() for word in ("--conf", f"spark.dynamicAllocation.{key}={value}")]
    first, go, second = (tmp_path / name for name in ("first", "go", "second"))
    job = to_workers("--name", "dynamic", *settings, "waiting.py", *map(str, (first, go, second)))
    view = _attached(adopting, "dynamic", 2)

    def paced() -> set[str]:
        return {sample.executor_id for sample in adopting.samples(view.application_id) if sample.quota > 0}

    eventually(lambda: len(paced()) >= 2, "quotas of both")
    first.touch()
    _attached(adopting, "dynamic", 1)
    before = paced()
    go.touch()
    eventually(lambda: paced() - before, "a quota of the one that comes again")
    second.touch()
    assert job.finish().ok().answer["ok"]
    summary = adopting.summary("dynamic")
    assert (summary["app_id"], summary["executors_lost"], summary["tasks_failed"]) == (view.application_id, 0, 0)
    eventually(lambda: adopted_groups(adopting) == [], "the end of the executors' groups")

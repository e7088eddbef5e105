"""Executors that Spark's own cluster managers start, on real Spark: paced only by conf, and untouched without us."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from controller.asks.properties import parse_properties
from controller.wire.command import ApplicationView
from experiments.harness.live_cluster import free_port, spark_home
from tests.integration.conftest import ONE_SPARK
from tests.integration.local_cluster import Job, LocalCluster, adopted_groups, conf_words, eventually
from tests.integration.pacing import AIM, assert_paced, assert_reported, assert_squeezed, contest, deadline_for
from tests.integration.spark_standalone import standalone

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SPARKS = "local-cluster[2,1,1024]"
"""A Master and two Workers of Spark's own in the driver's JVM, with an executor of one core each."""
ONE = "local-cluster[1,1,1024]"
"""The same with one Worker, for a job that only has to run."""
JOB = ("stages.py", "--work", "40", "--tasks", "8", "--rounds", "3")
SMALL = ("stages.py", "--work", "1", "--tasks", "2", "--rounds", "1")
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def _attached(adopting: LocalCluster, name: str, executors: int) -> ApplicationView:
    def look() -> ApplicationView | None:
        living = (view for view in adopting.views(name) if not view.ended)
        return next((view for view in living if view.executors == executors), None)

    return eventually(look, f"{executors} executors of {name}")


def _paced(adopting: LocalCluster, view: ApplicationView) -> set[str]:
    """Return the executors of which a sample shows a quota."""
    return {sample.executor_id for sample in adopting.samples(view.application_id) if sample.quota > 0}


@pytest.fixture
def submit(adopting: LocalCluster, python: Path) -> Callable[..., Job]:
    """Provide a function that starts `sparkpace submit --master` with the Spark of that Python."""
    variables = {"SPARK_HOME": str(spark_home(python)), "PYSPARK_PYTHON": str(python)}

    def start(*words: str) -> Job:
        return adopting.start(adopting.sparkpace().command(("submit", "--master", SPARKS, *words)), variables)

    return start


@pytest.fixture(scope="module")
def begin_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the path of a file for which the first round of `work` waits."""
    return tmp_path_factory.mktemp("begin") / "begin"


@pytest.fixture(scope="module")
def hold_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the path of a file for which the last round of `work` waits."""
    return tmp_path_factory.mktemp("hold") / "go-on"


@pytest.fixture
def work(begin_file: Path, hold_file: Path) -> tuple[str, ...]:
    """Provide the words of a job that waits before its first round until a test makes `begin_file`, and before its last one
    only if a test removes `hold_file`."""
    begin_file.unlink(missing_ok=True)
    hold_file.touch()
    return (*JOB, "--begin", str(begin_file), "--hold", str(hold_file))


@pytest.fixture
def run(
    adopting: LocalCluster, submit: Callable[..., Job], work: tuple[str, ...], begin_file: Path
) -> Callable[..., dict[str, Any]]:
    """Provide a function that runs `work` under a name and returns its record. Its tasks begin when both executors have
    quotas: else one of them could do it all."""

    def record_of(name: str, *options: str) -> dict[str, Any]:
        begin_file.unlink(missing_ok=True)
        job = submit("--name", name, *options, *work)
        view = _attached(adopting, name, 2)
        eventually(lambda: len(_paced(adopting, view)) == 2, "quotas of both")
        begin_file.touch()
        assert job.finish().ok().answer["ok"]
        return adopting.summary(name)

    return record_of


@pytest.fixture(scope="module")
def known() -> dict[str, dict[str, Any]]:
    """Records of first runs, by the name of the job."""
    return {}


@pytest.fixture
def taught(run: Callable[..., dict[str, Any]], python: Path, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Provide the record of a run of `work` without a deadline, one for each Spark; its name is that of the profile's job."""
    name = f"job-{python.parent.parent.name}"
    if name not in known:
        known[name] = run(name)
    return known[name]


@pytest.mark.parametrize("python", ["spark35"], indirect=True)
def test_a_job_on_sparks_own_cluster_is_paced_and_its_groups_go(
    adopting: LocalCluster, run: Callable[..., dict[str, Any]], taught: dict[str, Any]
) -> None:
    assert taught["executors"] == 2
    summary = run(taught["name"], "--deadline", f"{deadline_for(taught['end_s']):.0f}s", *AIM)
    samples = adopting.samples(summary["app_id"])
    assert_paced(summary, samples)
    assert {sample.executor_id for sample in samples if sample.quota > 0} == {"0", "1"}
    assert_reported(adopting.home, summary)
    eventually(lambda: adopted_groups(adopting) == [], "the end of the executors' groups")


@ONE_SPARK
def test_a_watched_job_stays_in_its_groups_without_a_quota_and_its_savings_are_shown(
    adopting: LocalCluster, taught: dict[str, Any], work: tuple[str, ...], begin_file: Path, hold_file: Path
) -> None:
    begin_file.unlink(missing_ok=True)
    hold_file.unlink()
    watch = ("submit", "--master", SPARKS, "--name", "watched", "--profile", taught["profile"], "--observe")
    job = adopting.start(adopting.sparkpace().command((*watch, "--deadline", "1s", *work)))
    view = _attached(adopting, "watched", 2)
    begin_file.touch()
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
    adopting: LocalCluster, submit: Callable[..., Job], python: Path, taught: dict[str, Any], work: tuple[str, ...]
) -> None:
    name = taught["name"]
    refused = submit("--name", name, "--deadline", "1s", *work).finish()
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
    """Check that it is an executor of that driver. What an executor is about to start has its command line for a moment."""
    try:
        if EXECUTOR not in process.cmdline():
            return False
        above = process.parents()
        return EXECUTOR not in above[0].cmdline() and any(parent.pid == driver for parent in above)
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
    adopting: LocalCluster, to_workers: Callable[..., Job], tmp_path: Path
) -> None:
    """Tasks of both wait for a file: they ask for cores, and take none from other tests."""
    files = [tmp_path / name for name in ("first", "go", "second")]
    words = ("waiting.py", *map(str, files))

    def finish(jobs: Sequence[Job]) -> None:
        for file in files:
            file.touch()
        for job in jobs:
            assert job.finish().ok().answer["ok"]

    alone = to_workers("--name", "waiting", *words)
    _attached(adopting, "waiting", 2)
    finish([alone])
    taught = adopting.summary("waiting")
    for file in files:
        file.unlink()
    jobs = [to_workers(*options, "--profile", taught["profile"], *words) for options in contest(taught["end_s"])]
    ids = [_attached(adopting, name, 2).application_id for name in ("squeezed", "first")]
    eventually(lambda: adopting.client().application(ids[0]).debt_core_s > 0, "cores that the one has lost to the other")
    finish(jobs)
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

    eventually(lambda: len(_paced(adopting, view)) >= 2, "quotas of both")
    first.touch()
    _attached(adopting, "dynamic", 1)
    before = _paced(adopting, view)
    go.touch()
    eventually(lambda: _paced(adopting, view) - before, "a quota of the one that comes again")
    second.touch()
    assert job.finish().ok().answer["ok"]
    summary = adopting.summary("dynamic")
    assert (summary["app_id"], summary["executors_lost"], summary["tasks_failed"]) == (view.application_id, 0, 0)
    eventually(lambda: adopted_groups(adopting) == [], "the end of the executors' groups")

"""Jobs of every kind on real Spark, its executors in Docker containers: right answers, whole records, kept deadlines.

Deadlines are generous and the law aims well before them (`pacing`), since a test's machine may be busy; how near they are met
is the experiments' to show. Not covered: failures (`test_failures`), bad input before anything starts
(`tests/controller/cli`).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import psutil
import pytest

from bridge.build import find_javac
from controller.runs.profile_store import ProfileStore
from controller.runtime.docker import packet_filter
from controller.submit.bridge_jar import bridge_jar
from experiments.harness.live_cluster import spark_home
from experiments.harness.local_cluster import WORKLOADS
from stage_model.forecast.bounds import LARGEST, Bound
from stage_model.forecast.estimate import record_traits
from stage_model.forecast.expected import Expected
from stage_model.forecast.same_stage import same_stages
from tests.integration.conftest import Learned
from tests.integration.engine import Container, Engine
from tests.integration.local_cluster import APPS, LocalCluster, eventually
from tests.integration.pacing import AIM, assert_late_only_with_all, assert_paced

pytestmark = [pytest.mark.spark, pytest.mark.docker]

HERE = Path(__file__).resolve().parent
PYTHON = Path(sys.executable)


def assert_whole(summary: dict[str, Any], *, deadline: str | None = None) -> None:
    """Assert that every field is there, each with a value that can be true."""
    assert summary["app_id"].startswith("pace-")
    assert summary["runtime"] == "docker"
    assert summary["law"] == "forecast"
    assert summary["end_reason"] == ""
    assert summary["taught"] is True
    assert (summary["tasks_failed"], summary["executors_lost"]) == (0, 0)
    assert 1 <= summary["executors"] <= 2
    assert 0 < summary["first_task_s"] < summary["last_task_s"] <= summary["end_s"]
    # a quota may be exceeded within one sample, never over a run; one period's borrowing is the tolerance
    assert 0 < summary["used_core_s"] <= summary["allocated_core_s"] + 2
    assert summary["allocated_core_s"] <= summary["all_cores_core_s"] + 0.1
    assert 0 < summary["peak_cores"] <= summary["cluster_cores"] <= 2
    if deadline is None:
        assert (summary["deadline_s"], summary["error_pct"], summary["violated"]) == (None, None, None)
        return
    assert summary["deadline_s"] == pytest.approx(float(deadline.removesuffix("s")), abs=0.01)
    assert summary["error_pct"] == pytest.approx(100 * (summary["end_s"] / summary["deadline_s"] - 1), abs=0.01)
    assert summary["profile_runs"] >= 1
    assert summary["profile_match"] == 1.0


def assert_waits(cluster: LocalCluster, summary: dict[str, Any]) -> None:
    """Assert that Spark's metrics of waiting are there for a run with shuffles, and that the largest stages have bounds."""
    profile = ProfileStore(cluster.home.profiles).load(summary["profile"])
    assert profile is not None
    stages = {run.id: run for run in profile.runs}[summary["app_id"]].stages
    assert all(stage.waits is not None and stage.waits.remote_bytes <= stage.bytes for stage in stages)
    wrote = [stage.waits for stage in stages if stage.written_bytes]
    assert any(waits is not None and waits.write_s > 0 for waits in wrote)
    bounds = [one["bound"] for one in summary["largest_stages"]]
    assert 1 <= len(bounds) <= LARGEST
    assert set(bounds) <= set(get_args(Bound))


def assert_kept(cluster: LocalCluster, name: str, deadline: str) -> dict[str, Any]:
    summary = cluster.summary(name)
    assert_whole(summary, deadline=deadline)
    assert_paced(summary, cluster.samples(summary["app_id"]))
    return summary


# ---------------------------------------------------------------- kinds of jobs


def test_a_pyspark_rdd_job_teaches_then_keeps_its_deadline_in_hardened_paced_containers(
    cluster: LocalCluster, engine: Engine, stages: Learned
) -> None:
    assert_whole(stages.summary)
    assert (stages.summary["profile_runs"], stages.summary["tasks"]) == (0, 30)
    assert stages.summary["peak_cores"] == stages.summary["cluster_cores"]
    profile = ProfileStore(cluster.home.profiles).load(stages.summary["profile"])
    assert profile is not None
    taught = {run.id: run for run in profile.runs}[stages.summary["app_id"]]
    assert taught.arguments == tuple(stages.words[1:])
    # what quotas held back is counted of each stage of which an agent saw anything
    assert any(stage.throttled_s is not None for stage in taught.stages)
    assert all((stage.throttled_s is None) == (stage.cores_s is None) for stage in taught.stages)

    job = cluster.submit("--name", stages.name, "--deadline", stages.deadline, *AIM, *stages.words)
    view = cluster.running(stages.name)
    quotas: dict[str, set[int]] = {}
    inspected: dict[str, Any] = {}
    while job.process.poll() is None:
        for container in engine.containers(view.application_id, ended=False):
            if found := engine.inspect(container):
                inspected[container.id] = found
                quotas.setdefault(container.id, set()).add(found["HostConfig"]["CpuQuota"])
        time.sleep(0.1)  # a quota holds for a period at least, and looks take cores from the job
    assert job.finish().ok().answer["ok"]
    summary = assert_kept(cluster, stages.name, stages.deadline)
    assert summary["tasks"] == 30

    assert len(quotas) == 2
    assert all(10_000 <= quota <= 100_000 for seen in quotas.values() for quota in seen), quotas
    samples = cluster.samples(view.application_id)
    assert {sample.executor_id for sample in samples} == {"1", "2"}
    assert any(sample.set_point is not None and sample.progress for sample in samples)
    assert {f["Config"]["Labels"]["sparkpace.worker"] for f in inspected.values()} == {"w1", "w2"}
    [memory_mb] = {worker.memory_mb for worker in cluster.client().workers()}
    for found in inspected.values():
        host, config = found["HostConfig"], found["Config"]
        assert (host["CapDrop"], host["CapAdd"], host["Privileged"]) == (["ALL"], None, False)
        assert any("no-new-privileges" in option for option in host["SecurityOpt"])
        assert host["CpuPeriod"] == 100_000
        # by itself on its worker: heap, overhead, Python, and all the rest as off-heap memory
        assert host["Memory"] == host["MemorySwap"] == memory_mb << 20
        assert config["User"] == f"{os.getuid()}:{os.getgid()}"
        labels = {k: v for k, v in config["Labels"].items() if k.startswith("sparkpace.")}
        assert labels.pop("sparkpace.worker") in ("w1", "w2")
        assert labels.pop("sparkpace.executor") in ("1", "2")
        assert labels == {"sparkpace.application": view.application_id, "sparkpace.cluster": engine.cluster_id}
        writable = {mount["Source"] for mount in found["Mounts"] if mount["RW"]}
        assert all(source.startswith(str(cluster.home.path)) for source in writable)


@pytest.mark.slow
def test_dataframes_and_sql_with_adaptive_execution(cluster: LocalCluster, learned: Callable[..., Learned]) -> None:
    taught = learned("sql", "sql.py")
    assert_whole(taught.summary)
    assert_waits(cluster, taught.summary)
    done = cluster.run("--name", "sql", "--deadline", taught.deadline, *AIM, "sql.py").ok()
    assert done.answer["ok"]
    assert_kept(cluster, "sql", taught.deadline)
    assert cluster.summary("sql")["actions"] == [], "the deadline is the application's, not one of its query"


@pytest.mark.slow
def test_jobs_from_threads_are_recognised_in_whatever_order_they_begin(
    cluster: LocalCluster, learned: Callable[..., Learned]
) -> None:
    """Three jobs of the same code: two with as many tasks, of which one writes three times as much as the other."""
    words = (str(WORKLOADS / "side_by_side.py"), "--millions", "0.05", "--seed")
    taught = learned("side-by-side", *words, "1")
    done = cluster.run("--name", "side-by-side", "--deadline", taught.deadline, *AIM, *words, "4").ok()
    assert done.answer["answer"]["order"] != [0, 2, 1], "that of seed 1"
    summary = cluster.summary("side-by-side")
    # for other arguments time is kept for twice the work, so the job may rightly hold all cores
    assert_late_only_with_all(summary["violated"], cluster.samples(summary["app_id"]))
    assert summary["profile_match"] >= 0.95
    profile = ProfileStore(cluster.home.profiles).load(taught.summary["profile"])
    assert profile is not None
    first, other = profile.runs
    places = same_stages(Expected(record_traits(first)), record_traits(other)).places
    assert sorted(place for place in places if place is not None) == list(range(len(first.stages)))
    for stage, place in zip(other.stages, places, strict=True):
        assert place is not None
        same = first.stages[place]
        assert stage.tasks == same.tasks
        assert stage.bytes + stage.written_bytes == pytest.approx(same.bytes + same.written_bytes, rel=0.1)


@pytest.mark.slow
def test_a_jvm_application(cluster: LocalCluster, tmp_path: Path) -> None:
    """Tasks in JVMs keep a deadline in the test of DataFrames."""
    jars = spark_home(PYTHON) / "jars"
    source = HERE / "jvm_app" / "CountApp.java"
    subprocess.run([str(find_javac()), "-cp", f"{jars}/*", "-d", str(tmp_path / "classes"), str(source)], check=True)
    packed = tmp_path / "count-app.jar"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in (tmp_path / "classes").iterdir():
            archive.write(file, file.name)
    words = ("--name", "count-app", "--num-executors", "1", "--class", "CountApp", str(packed), "200000", "8", "3")
    assert cluster.run(*words).ok().answer["ok"]
    summary = cluster.summary("count-app")
    assert_whole(summary)
    assert summary["main"] == "CountApp"


def test_stock_spark_submit_with_the_settings_file_keeps_a_deadline(cluster: LocalCluster, stages: Learned) -> None:
    pace = ("--conf", f"spark.pace.deadline={stages.deadline}", *AIM, "--name", stages.name)
    done = cluster.stock(PYTHON, "--properties-file", str(cluster.properties()), *pace, *stages.words).finish().ok()
    assert done.answer["ok"]
    assert "warning" not in "".join(line for line in done.err.splitlines() if line.startswith("sparkpace:"))
    assert_kept(cluster, stages.name, stages.deadline)


def test_stock_spark_submit_without_the_settings_file_is_refused_unless_it_says_that_it_wants_no_authentication(
    cluster: LocalCluster, stop_file: Path
) -> None:
    stop_file.touch()
    one = ("--conf", "spark.executor.instances=1")
    bare = ("--driver-class-path", str(bridge_jar()), "--name", "bare", *one, "rounds.py", str(stop_file))
    refused = cluster.stock(PYTHON, *bare).finish()
    assert refused.code == 1
    assert "Spark's own authentication" in refused.err
    assert "`sparkpace conf -o FILE`" in refused.err
    assert cluster.views("bare") == []
    done = cluster.stock(PYTHON, "--conf", "spark.authenticate=false", *bare).finish().ok()
    assert done.answer == {"ok": True, "rounds": 1}
    open_port, missing = [line for line in done.err.splitlines() if line.startswith("sparkpace: warning")]
    assert "spark.authenticate=false: whoever reaches a port" in open_port
    assert "spark.network.timeout" in missing
    assert "spark.executor.heartbeatInterval" in missing
    assert "sparkpace conf" in missing
    assert_whole(cluster.summary("bare"))


def test_a_notebooks_session_is_an_application_by_a_folder_of_settings(cluster: LocalCluster) -> None:
    """A session whose settings come in a file keeps a deadline in `test_jupyter`."""
    variables = {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(cluster.properties().parent)}
    assert cluster.start([sys.executable, str(APPS / "notebook.py"), "600s"], variables).finish().ok().answer["ok"]
    summary = cluster.summary("notebook")
    assert (summary["deadline_s"], summary["violated"], summary["taught"]) == (pytest.approx(600, abs=0.01), False, True)
    assert (summary["profile"], summary["profile_runs"]) == ("notebook@notebook.py", 0)


# ---------------------------------------------------------------- what they reach


def test_executors_have_a_network_of_their_own_and_the_drivers_page_is_for_this_machine(
    cluster: LocalCluster, engine: Engine, stop_file: Path, python: Path
) -> None:
    name = f"reach-{python.parent.parent.name}"
    address = cluster.cluster().driver_host
    with socket.create_server(("0.0.0.0", 0)) as everywhere:  # a master for other machines, say
        targets = [[address, everywhere.getsockname()[1]], ["127.0.0.1", cluster.cluster().port]]
        words = ("submit", "--name", name, "--num-executors", "2", "--conf", "spark.ui.enabled=true")
        job = cluster.start(
            cluster.sparkpace().command((*words, "reach.py", json.dumps(targets), str(stop_file))),
            {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark_home(python))},
        )
        view = cluster.running(name)
        eventually(lambda: "{" in job.out.read_text() or job.process.poll() is not None, "the job's answer")
        listening = {
            (found.laddr.ip.removeprefix("::ffff:"), found.laddr.port)
            for found in job.driver().net_connections("inet")
            if found.status == psutil.CONN_LISTEN
        }
        networks = [
            inspected(engine, found)["NetworkSettings"]["Networks"] for found in engine.containers(view.application_id)
        ]
        stop_file.touch()
        done = job.finish().ok()
    assert {ip for ip, _ in listening} == {address, "127.0.0.1"}
    assert view.ui_url is not None
    page = urllib.parse.urlsplit(view.ui_url)
    assert (page.hostname, page.port) in listening
    assert page.hostname == "127.0.0.1"
    assert (done.answer["shuffled"], done.answer["large"]) == (200 * 5000, 4 * 2_000_000)
    assert len({name for found in networks for name in found}) == 1
    assert sorted(done.answer["members"]) == sorted([address, *(one["IPAddress"] for n in networks for one in n.values())])
    if not packet_filter.why_not():
        assert done.answer["reached"] == [[False, False]] * 4
    summary = cluster.summary(name)
    assert_whole(summary)
    assert summary["outcome"] == "succeeded"
    assert summary["spark_version"].startswith("3.5.") == (python != PYTHON)


def inspected(engine: Engine, container: Container) -> dict[str, Any]:
    found = engine.inspect(container)
    assert found is not None
    return found


# ---------------------------------------------------------------- what executors see


def test_shipped_files_and_mounts_reach_python_on_executors(cluster: LocalCluster, tmp_path: Path) -> None:
    shown = cluster.home.path.parent / "shown"
    readable, writable = shown / "in", shown / "out"
    for folder in (readable, writable):
        folder.mkdir()
    (readable / "given.txt").write_text("given")
    (tmp_path / "helper_module.py").write_text("def triple(x):\n    return 3 * x\n")
    (tmp_path / "note.txt").write_text("noted")
    with zipfile.ZipFile(tmp_path / "box.zip", "w") as archive:
        archive.writestr("inner.txt", "packed")
    done = cluster.run(
        *("--py-files", str(tmp_path / "helper_module.py"), "--files", str(tmp_path / "note.txt")),
        *("--archives", f"{tmp_path / 'box.zip'}#box", "--mount", str(readable), "--mount", f"{writable}:rw"),
        *("--name", "shipped", "shipped.py", str(readable), str(writable)),
    ).ok()
    seen = {
        "module": 42,
        "file": "noted",
        "archive": "packed",
        "mount": "given",
        "read_only": True,
        "uid": os.getuid(),
    }
    assert done.answer["seen"] == [seen] * 4
    assert sorted(path.name for path in writable.iterdir()) == [f"from-{number}" for number in range(4)]
    assert not (readable / "forbidden.txt").exists()


def test_a_mount_outside_the_allowed_roots_is_refused_and_nothing_is_left(
    cluster: LocalCluster, engine: Engine, stop_file: Path
) -> None:
    done = cluster.run("--mount", "/etc", "--name", "nosy", "rounds.py", str(stop_file))
    assert done.code not in (0, 143, 137), done.err[-2000:]
    shown = cluster.home.path.parent / "shown"
    assert f"({shown}; --allow-mount)" in done.err
    assert engine.containers() == []
    assert "mount '/etc'" in cluster.summary("nosy")["end_reason"]


# ---------------------------------------------------------------- options and exit codes


def test_an_exception_in_a_task_is_shown_and_the_drivers_exit_code_is_the_commands(
    cluster: LocalCluster, engine: Engine
) -> None:
    done = cluster.run("--name", "failing", "--num-executors", "1", "failing.py")
    assert done.code == 1, done.err[-3000:]
    assert "ZeroDivisionError" in done.err
    engine.await_none()


def test_a_detached_job_with_one_executor_goes_on_by_itself(cluster: LocalCluster, engine: Engine, stop_file: Path) -> None:
    begun = cluster.command("submit", "--detach", "--num-executors", "1", "--name", "alone", "rounds.py", str(stop_file))
    application_id = begun.stdout.splitlines()[-1].removeprefix("application ")
    view = cluster.running("alone", executors=1)
    assert view.application_id == application_id
    assert len(engine.containers(application_id)) == 1
    assert application_id.rpartition("-")[0] in cluster.command("ps").stdout
    stop_file.touch()
    eventually(lambda: cluster.client().application(application_id).finished, "the record of the detached job")
    summary = cluster.summary("alone")
    assert_whole(summary)
    assert (summary["executors"], summary["app_id"]) == (1, application_id)
    assert '"ok": true' in cluster.command("logs", application_id).stdout


def test_an_impossible_deadline_is_refused_unless_forced(cluster: LocalCluster, stages: Learned) -> None:
    known = [view.application_id for view in cluster.client().applications()]
    words = ("--name", stages.name, "--deadline", "2s", *stages.words)
    assert f"{stages.summary['cluster_cores']:.2f} cores" in cluster.command("submit", *words, check=75).stderr
    assert [view.application_id for view in cluster.client().applications()] == known

    done = cluster.run("--force", *words).ok()
    assert done.answer["ok"]
    summary = cluster.summary(stages.name)
    assert (summary["violated"], summary["deadline_s"]) == (True, 2)
    assert summary["error_pct"] > 0
    assert summary["peak_cores"] == summary["cluster_cores"], "what is late gets all it can use"

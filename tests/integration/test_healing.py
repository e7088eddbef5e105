"""Healing: parts of a cluster die while a job runs on real Spark, `up` starts just what is missing, `down` leaves nothing."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.home import Home
from controller.locks import holder
from controller.machine.process import find_process
from experiments.harness.live_cluster import free_port
from tests.fakes.refusals import assert_names
from tests.integration.engine import Engine
from tests.integration.local_cluster import DEFAULTS, PATIENCE_S, Job, LocalCluster, eventually
from tests.integration.test_process_runtime import executors_of

pytestmark = pytest.mark.spark
START = """
import sys
from pathlib import Path
from controller.home import Home
from controller.local.cluster import start
from controller.local.plan import Plan, WorkerPlan
home, runtime, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
start(Home(home), Plan(
    workers=tuple(WorkerPlan(f"w{number}", 0.8, 2048) for number in range(1, count + 1)),
    runtime=runtime, host="127.0.0.1", port=0, master_options=("--keep-runs", "10"),
    agent_options=("--allow-mount", str(home.parent / "shown"), "--network", "host"),
))
"""
"""Script of `up` without its preparations: no class archive is made for a few small jobs."""
PLAIN = ("--conf", "spark.executor.extraClassPath=/nothing", "rounds.py")
"""Words of a job for which an agent does not make one, either."""


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[LocalCluster]:
    """Provide a cluster of its own, so that all of it may die."""
    yield from _cluster(tmp_path, "process")


@pytest.fixture
def mortal_docker(tmp_path: Path) -> Iterator[LocalCluster]:
    yield from _cluster(tmp_path, "docker")


def _cluster(place: Path, runtime: str) -> Iterator[LocalCluster]:
    (place / "shown").mkdir()
    (place / "conf").mkdir()
    (place / "conf" / "spark-defaults.conf").write_text(DEFAULTS)
    cluster = LocalCluster(Home(place / "home"), runtime)
    try:
        yield cluster
    finally:
        cluster.down()
    eventually(lambda: not cluster.left(), "the end of the cluster's processes")


def said(stderr: str, *parts: str) -> None:
    """Assert that stderr has one sentence of Sparkpace, which names the parts, and no traceback."""
    [line] = [line for line in stderr.splitlines() if line.startswith("sparkpace: ")]
    assert "Traceback" not in stderr
    assert_names(line, *parts)


def begin(cluster: LocalCluster, workers: int = 1) -> None:
    words = (str(cluster.home.path), cluster.runtime, str(workers))
    subprocess.run([sys.executable, "-c", START, *words], check=True, env=cluster.environment())


def parts(cluster: LocalCluster) -> dict[str, Any]:
    """Return the processes that hold the home's locks: master, supervisors, children."""
    home = cluster.home
    locks = {"master": home.master_lock} | {
        f"{kind} {name}": lock
        for name in ("w1", "w2")
        for kind, lock in (("agent", home.agent_lock(name)), ("child", home.child_lock(name)))
    }
    return {name: found.process for name, path in locks.items() if (found := holder(path)) is not None}


def kill(cluster: LocalCluster, *names: str) -> None:
    """Kill at once, so that no supervisor brings its child back meanwhile."""
    living = parts(cluster)
    for name in names:
        living[name].send(signal.SIGSTOP)
    for name in names:
        living[name].send(signal.SIGKILL)
    eventually(lambda: not any(living[name].is_alive() for name in names), "their end")


DEATHS = (
    (("master",), {"master"}, "Started the master, which had died."),
    (("agent w2",), {"agent w2", "child w2"}, "Started the agent of w2, which had died."),
    (("agent w1", "child w1"), {"agent w1", "child w1"}, "Started the agent of w1, which had died."),
    (("master", "agent w1", "child w1", "agent w2", "child w2"), None, "Started the master, which had died."),
)


@pytest.mark.slow
def test_up_starts_just_what_died_and_the_job_goes_on(mortal: LocalCluster, stop_file: Path) -> None:
    begin(mortal, 2)
    job = mortal.submit("--name", "survivor", *PLAIN, str(stop_file))
    view = mortal.running("survivor")
    executors = set(executors_of(view.application_id))
    for names, replaced, sentence in DEATHS:
        before = parts(mortal)
        assert len(before) == 5
        kill(mortal, *names)
        out = mortal.restore()
        assert sentence in out
        assert "1 application(s) go on" in out
        after = parts(mortal)
        assert {name for name in before if after[name] != before[name]} == (replaced or set(before))

    # only the child has died: `up` waits until its supervisor has started another
    before = parts(mortal)
    kill(mortal, "child w1")
    out = mortal.restore()
    after = parts(mortal)
    assert {name for name in before if after[name] != before[name]} == {"child w1"}
    assert "Started" not in out
    assert "nothing was missing" in mortal.restore()
    assert parts(mortal) == after

    # a stranger on the master's port: nothing is started, what lives goes on
    kill(mortal, "master")
    before = parts(mortal)
    with socket.create_server(("127.0.0.1", mortal.cluster().port)):
        said(mortal.command("up", check=69).stderr, f"port {mortal.cluster().port}", "sparkpace down")
    assert parts(mortal) == before
    mortal.restore()

    assert set(executors_of(view.application_id)) == executors
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    summary = mortal.summary("survivor")
    assert (summary["end_reason"], summary["executors_lost"], summary["tasks_failed"]) == ("", 0, 0)


def test_an_agent_without_its_supervisor_opens_the_quotas_and_ends(mortal: LocalCluster) -> None:
    begin(mortal)
    supervisor = mortal.cluster().agents[0].process
    child = find_process(mortal.agent_child("w1").pid)
    assert child is not None
    supervisor.send(signal.SIGKILL)
    eventually(lambda: not child.is_alive(), "the child's end")
    assert "quotas opened" in mortal.log("agent-w1")


def test_down_ends_a_master_that_was_started_by_hand_and_a_second_one_is_refused(mortal: LocalCluster) -> None:
    mortal.home.create()
    port = free_port()
    mortal.start_master_by_hand(port)
    pid = str(mortal.by_hand[0].pid)
    said(mortal.command("master", "--port", str(free_port()), check=69).stderr, "has a master already", pid)
    said(mortal.command("up", "--runtime", "process", "--port", "0", check=2).stderr, "the master", "`sparkpace down`")
    assert "Sparkpace is down." in mortal.command("down").stdout
    assert mortal.by_hand[0].wait(PATIENCE_S) is not None
    assert "No local cluster" in mortal.command("down").stdout


def test_down_ends_a_submission_and_a_driver_that_wait_for_others(mortal: LocalCluster) -> None:
    begin(mortal)
    job = mortal.submit("--name", "waits", "--after", "nothing", *PLAIN, "never")
    words = ("--properties-file", str(mortal.properties()), "--conf", "spark.pace.after=nothing")
    held = mortal.stock(Path(sys.executable), *words, "--name", "held", *PLAIN, "never")
    driver = held.driver()
    for name in ("waits", "held"):
        eventually(partial(mortal.views, name), name)
    assert "Sparkpace is down." in mortal.command("down").stdout
    assert job.finish().code in (1, 69)
    assert "the master ends this application: it was killed" in held.finish().err
    eventually(lambda: not driver.is_running(), "the driver's end")


def test_down_ends_executors_and_control_groups_whose_agents_died(mortal: LocalCluster, stop_file: Path) -> None:
    begin(mortal)
    mortal.submit("--name", "outliving", *PLAIN, str(stop_file))
    view = mortal.running("outliving", executors=1)
    groups = [path for path in Path("/sys/fs/cgroup").glob(f"**/sparkpace/*{view.application_id}*") if path.is_dir()]
    agent, child, master = (parts(mortal)[name] for name in ("agent w1", "child w1", "master"))
    for process in (agent, child, master):
        process.send(signal.SIGSTOP)
        process.send(signal.SIGKILL)
    eventually(lambda: not parts(mortal), "the services' end")
    assert executors_of(view.application_id)
    done = mortal.command("down")
    assert "1 executor(s)" in done.stdout
    assert "no master was there to tell the drivers" in done.stderr
    assert not executors_of(view.application_id)
    assert not any(group.exists() for group in groups)
    assert not any(group.parent.exists() and not list(group.parent.glob("*/")) for group in groups)
    assert "No local cluster" in mortal.command("down").stdout


def one_in_docker(cluster: LocalCluster, docker_engine: Any, stop_file: Path) -> tuple[Engine, Job]:
    """Start an application with one executor in a container, which runs until `stop_file` is there."""
    begin(cluster)
    job = cluster.submit("--name", "doomed", *PLAIN, str(stop_file))
    cluster.running("doomed", executors=1)
    return Engine(docker_engine, cluster.cluster().cluster_id), job


@pytest.mark.slow
@pytest.mark.docker
def test_down_removes_a_container_whose_application_ended_without_an_agent(
    mortal_docker: LocalCluster, docker_engine: Any, stop_file: Path
) -> None:
    engine, job = one_in_docker(mortal_docker, docker_engine, stop_file)
    mortal_docker.kill_agent("w1")
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    eventually(lambda: not engine.containers(ended=False), "the executor's end")
    assert len(engine.containers()) == 1
    # an engine that does not answer is reported, and nothing is forgotten
    away = {"DOCKER_HOST": f"unix://{stop_file}.no-socket"}
    done = mortal_docker.command("down", check=1, environment=away)
    assert "worker w1" in done.stderr
    done = mortal_docker.command("down")
    assert "1 executor(s)" in done.stdout
    assert engine.containers() == []


@pytest.mark.slow
@pytest.mark.docker
def test_down_removes_containers_that_no_master_has_listed_as_stopped(
    mortal_docker: LocalCluster, docker_engine: Any, stop_file: Path
) -> None:
    engine, job = one_in_docker(mortal_docker, docker_engine, stop_file)
    mortal_docker.kill_master()
    done = mortal_docker.command("down")
    job.kill()
    assert "1 executor(s)" in done.stdout
    assert engine.containers() == []

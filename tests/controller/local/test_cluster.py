"""The services' commands carry what `up` was asked for, and what lives of a home is found however it was started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.home import CONFIG_VARIABLE, AgentProcess, Cluster, Home
from controller.local.cluster import _as_found, look
from controller.local.healing import Found, FoundAgent
from controller.local.plan import Plan, WorkerPlan
from controller.local.prepare import cluster_of
from controller.locks import Holder, agent_lock, child_lock, master_lock
from controller.machine.process import Process, find_process

GONE = Process(2**22, 1, "none")
START_AND_STOP = """
import sys
from pathlib import Path
from controller.home import Home
from controller.local.cluster import start
from controller.local.ending import stop
from controller.local.plan import Plan
home = Home(Path(sys.argv[1]))
try:
    start(home, Plan(workers=(), runtime="process", host="127.0.0.1", port=0))
finally:
    stop(home, home.cluster())
"""
"""A program of its own, as `up` is, which leaves its children behind."""


def test_services_are_started_with_all_that_up_was_asked_for() -> None:
    plan = Plan(
        workers=(WorkerPlan("w1", 0.4, 4096, ("--labels", "zone=a")),),
        runtime="docker",
        host="0.0.0.0",
        port=7171,
        master_options=("--law", "paper"),
        agent_options=("--period", "0.5s"),
    )
    assert " ".join(plan.master_words()) == "master --host 0.0.0.0 --port 7171 --law paper"
    words = plan.agent_words(plan.workers[0])
    assert words[0] == "agent"
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert (options["--cores"], options["--period"], options["--master"]) == ("0.4", "0.5s", "https://127.0.0.1:7171")
    assert (options["--worker-id"], options["--memory"], options["--labels"]) == ("w1", "4096", "zone=a")


def test_services_that_up_starts_read_no_configuration(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.config_file.write_text("[master]\nport = 0\n")  # a master that read it would refuse to start
    home.config_file.chmod(0o600)
    monkeypatch.setenv(CONFIG_VARIABLE, str(home.config_file))
    done = subprocess.run([sys.executable, "-c", START_AND_STOP, str(home.path)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def me() -> Process:
    found = find_process(os.getpid())
    assert found is not None
    return found


def recorded(process: Process) -> Cluster:
    return Cluster(
        cluster_id="c1",
        url="https://here:1",
        host="here",
        port=1,
        runtime="process",
        master=process,
        agents=(AgentProcess(worker_id="w1", process=process),),
    )


def test_what_was_started_by_hand_is_found_by_its_locks(home: Home, me: Process) -> None:
    with master_lock(home, "https://here:1"), agent_lock(home, "m3"), child_lock(home, "m3", "docker"):
        for cluster in (None, recorded(GONE)):
            assert look(home, cluster) == Found(
                master=Holder(process=me, note="https://here:1"),
                agents={"m3": FoundAgent(supervisor=Holder(process=me), child=Holder(process=me, note="docker"))},
            )
    assert look(home, recorded(GONE)) == Found()


def test_what_the_cluster_file_names_is_found_without_its_lock(home: Home, me: Process) -> None:
    assert look(home, recorded(me)) == Found(Holder(process=me), {"w1": FoundAgent(supervisor=Holder(process=me))})


def test_after_healing_the_cluster_file_names_the_processes_that_live_now(home: Home, me: Process) -> None:
    with master_lock(home, "https://here:1"), agent_lock(home, "w1"):
        _as_found(home, recorded(GONE))
    assert home.cluster() == recorded(me)


def test_the_preparations_of_two_homes_do_not_end_each_others_programs() -> None:
    assert cluster_of(Home(Path("/one"))) != cluster_of(Home(Path("/other")))

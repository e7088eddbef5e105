"""The cluster to which an agent takes itself to belong: by its file, its master, or the executors that it paces. The claim
of a machine, by which a second agent notices the first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from controller.agent.membership import claim_machine, find_cluster, recall_cluster
from controller.asks.options import AgentOptions
from controller.home import Home
from controller.machine.process import Process, find_process
from controller.runtime import executor_record
from controller.runtime.adopt.runtime import records_of
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.executor_record import AdoptedRecord
from controller.wire.command import Health
from stage_model.errors import Unavailable
from tests.fakes.master import serving
from tests.fakes.messages import made_up
from tests.fakes.options import agent_options

Adopted = Callable[..., None]


@pytest.fixture
def options(tmp_path: Path) -> AgentOptions:
    """Provide the options of a worker whose master does not answer."""
    return agent_options(tmp_path)


@pytest.fixture
def adopted(options: AgentOptions) -> Adopted:
    """Provide a function that leaves the record of an executor, which is this test's process or has ended."""

    def leave(cluster_id: str, *, executor_id: str = "1", worker_id: str = options.worker_id, alive: bool = True) -> None:
        process = find_process(os.getpid())
        assert process is not None
        if not alive:
            process = Process(process.pid, process.start_ticks + 1, process.boot_id)
        record = AdoptedRecord(
            cluster_id=cluster_id,
            worker_id=worker_id,
            application_id="app-1",
            executor_id=executor_id,
            process=process,
            quota_cores=0.5,
        )
        folder = records_of(Home(options.home).agent(options.worker_id))
        executor_record.write(folder / f"{cluster_id}.{executor_id}.json", record)

    return leave


def test_without_a_master_and_without_executors_the_cluster_is_not_known(options: AgentOptions) -> None:
    with pytest.raises(Unavailable):
        find_cluster(options, alone=True)
    assert recall_cluster(options, lambda: True) == ""


def test_while_no_master_answers_living_executors_name_the_cluster_and_no_file_does(
    options: AgentOptions, adopted: Adopted
) -> None:
    adopted("dead", executor_id="2", alive=False)
    adopted("of-another-worker", executor_id="3", worker_id="w9")
    adopted("mine")
    assert find_cluster(options, alone=True) == ("mine", False)
    assert recall_cluster(options, lambda: True) == "mine"
    assert not (Home(options.home).agent(options.worker_id) / "cluster_id").exists()


def test_executors_that_may_be_another_agents_name_no_cluster(options: AgentOptions, adopted: Adopted) -> None:
    adopted("mine")
    with pytest.raises(Unavailable):
        find_cluster(options, alone=False)
    assert recall_cluster(options, lambda: False) == ""


def test_executors_of_two_clusters_name_no_cluster(options: AgentOptions, adopted: Adopted) -> None:
    adopted("mine")
    adopted("theirs", executor_id="2")
    with pytest.raises(Unavailable):
        find_cluster(options, alone=True)


def test_a_master_says_it_once_whatever_executors_say(options: AgentOptions, adopted: Adopted) -> None:
    adopted("old")
    with serving(Home(options.home)) as master:
        health = msgspec.json.decode(made_up(Health, full=True), type=Health)
        master.refuse = (200, msgspec.json.encode(msgspec.structs.replace(health, cluster_id="mine")))
        assert find_cluster(replace(options, master_url=master.url), alone=True) == ("mine", True)
    assert find_cluster(options, alone=True) == ("mine", True)
    assert recall_cluster(options, lambda: True) == "mine"


HOLD = """
import sys
from pathlib import Path
from controller.agent.membership import claim_machine
from controller.runtime.cgroup.tree import CgroupTree
print(claim_machine(CgroupTree(Path(sys.argv[1]))), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=[1, 2])
def groups(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Provide a folder that looks like a tree of control groups of either version."""
    if request.param == 2:
        (tmp_path / "cgroup.controllers").touch()
    else:
        (tmp_path / "cpu,cpuacct").mkdir()
    return tmp_path


def test_the_second_agent_has_no_claim_as_long_as_the_first_lives(groups: Path) -> None:
    first = subprocess.Popen([sys.executable, "-c", HOLD, groups], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdin is not None
    assert first.stdout is not None
    with first:
        assert first.stdout.readline() == "True\n"
        assert not claim_machine(CgroupTree(groups))
        first.stdin.close()
        first.wait(60)
    assert claim_machine(CgroupTree(groups))


def test_without_control_groups_a_machine_can_always_be_claimed(tmp_path: Path) -> None:
    assert CgroupTree(tmp_path).cpu_root() is None
    assert claim_machine(CgroupTree(tmp_path))

"""Applications whose executors another cluster manager starts: the agent that paces each, and that nothing else is done to
them."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import msgspec
import pytest
from msgspec import structs

from controller.home import User
from controller.machine.proc import boot_id
from controller.master.access.peer import DriverSeen, Facts
from controller.master.access.vouching import vouched
from controller.master.core import attached
from controller.wire.driver import NOBODY_UID, AttachedExecutor, ExecutorProcess
from controller.wire.worker import Desired
from stage_model.errors import BadInput, InfeasibleDeadline
from stage_model.progress import SCHEMA, Progress
from tests.fakes.cluster import FakeCluster, one_stage_run, registration, report
from tests.fakes.refusals import assert_names

SPARKS = "app-20261122101500-0007"
K8S = {"spark.master": "k8s://https://10.0.0.1:6443"}


def executor(executor_id: str, boot: str = "", **changed: Any) -> AttachedExecutor:
    process = ExecutorProcess(pid=7, start_ticks=1, boot_id=boot or boot_id(), pid_namespace="pid:[1]", uid=os.getuid())
    plain = AttachedExecutor(executor_id=executor_id, host="node", slots=1, process=process)
    return structs.replace(plain, **changed)


def attach(cluster: FakeCluster, **changed: Any) -> str:
    return cluster.register(attached=True, wanted={}, **changed)


def tell(cluster: FakeCluster, application_id: str, *executors: AttachedExecutor, **changed: Any) -> Any:
    return cluster.driver(application_id, wanted={}, executors=executors, spark_application_id=SPARKS, **changed)


def desired(cluster: FakeCluster, worker_id: str = "node", *reports: Any, **changed: Any) -> Desired:
    return cluster.worker(worker_id, *reports, adopts=True, **changed).desired


def adopted(cluster: FakeCluster, worker_id: str = "node", **changed: Any) -> list[str]:
    """Return the executors that the worker's agent is to pace."""
    return [spec.executor_id for spec in desired(cluster, worker_id, **changed).adopted]


@pytest.fixture
def job(cluster: FakeCluster) -> str:
    """Provide an application with executor 0 on a node whose agent adopts."""
    desired(cluster)
    application_id = attach(cluster)
    tell(cluster, application_id, executor("0"))
    return application_id


def test_an_executor_is_paced_by_the_agent_that_sees_its_process(cluster: FakeCluster) -> None:
    cluster.worker("own")
    desired(cluster, "far", boot="another machine")
    desired(cluster)
    application_id = attach(cluster)
    tell(cluster, application_id, executor("0"), executor("1", "another machine", slots=2))
    [spec] = desired(cluster).adopted
    assert (spec.executor_id, spec.slots, spec.process.pid, spec.spark_application_id) == ("0", 1, 7, SPARKS)
    assert spec.driver_url == registration().driver_url
    [spec] = desired(cluster, "far", boot="another machine").adopted
    assert (spec.executor_id, spec.slots) == ("1", 2)
    own = cluster.worker("own").desired
    assert (own.adopted, own.executors) == ((), ())
    assert [plan.slots for plan in desired(cluster).applications] == [3]


def test_nothing_is_started_for_it_and_nothing_of_others_on_workers_that_adopt(cluster: FakeCluster) -> None:
    desired(cluster)
    cluster.worker("own")
    other = cluster.registered()
    cluster.tick()
    application_id = attach(cluster)
    for _ in range(3):
        tell(cluster, application_id, executor("0"))
        cluster.tick()
    assert [spec.application_id for spec in cluster.worker("own").desired.executors] == [other.id]
    assert desired(cluster).executors == ()
    assert other.placement.waiting == ""


def test_without_an_agent_the_job_goes_on_and_its_user_is_informed_once(cluster: FakeCluster) -> None:
    application_id = attach(cluster)
    said = tell(cluster, application_id, executor("0"))
    assert any("executor 0 on node" in line for line in said.notices)
    assert tell(cluster, application_id, executor("0")).notices == ()
    desired(cluster)  # an agent comes later
    tell(cluster, application_id, executor("0"))
    assert adopted(cluster) == ["0"]


def test_of_two_agents_on_a_machine_the_first_has_it(cluster: FakeCluster) -> None:
    desired(cluster, "first")
    desired(cluster, "second")
    tell(cluster, attach(cluster), executor("0"))
    assert (adopted(cluster, "first"), adopted(cluster, "second")) == (["0"], [])


def everywhere(cluster: FakeCluster, *reports: Any, nodes: int = 1) -> Desired:
    return desired(cluster, "pods", *reports, everywhere=True, nodes=nodes, boot="the agent's own")


def test_a_pod_is_paced_by_the_agent_of_its_node_else_by_the_one_that_is_everywhere(cluster: FakeCluster) -> None:
    everywhere(cluster)
    desired(cluster)
    application_id = attach(cluster, conf=K8S)
    tell(cluster, application_id, executor("0"), executor("1", "another machine"))
    assert adopted(cluster) == ["0"]
    [spec] = everywhere(cluster).adopted
    assert (spec.executor_id, spec.host) == ("1", "node")
    # an agent that comes to that node later changes nothing: each executor has one agent
    assert adopted(cluster, "late", boot="another machine") == []
    tell(cluster, application_id, executor("0"), executor("1", "another machine"))
    assert adopted(cluster, "late", boot="another machine") == []
    assert len(everywhere(cluster).adopted) == 1


def test_what_is_no_pod_is_nothing_for_the_agent_that_is_everywhere(cluster: FakeCluster) -> None:
    everywhere(cluster)
    application_id = attach(cluster, conf={"spark.master": "spark://here:7077"})
    said = tell(cluster, application_id, executor("0"), executor("1", "the agent's own"))
    assert (everywhere(cluster).adopted, len(said.notices)) == ((), 2)
    assert not any("--runtime kubernetes" in line for line in said.notices)


def test_where_no_agent_sees_a_pod_both_ways_are_named(cluster: FakeCluster) -> None:
    said = tell(cluster, attach(cluster, conf=K8S), executor("0"))
    assert any("--runtime adopt" in line and "--runtime kubernetes" in line for line in said.notices)


def test_what_its_agent_says_of_a_running_executor_reaches_its_user_once(cluster: FakeCluster) -> None:
    everywhere(cluster)
    application_id = attach(cluster, conf=K8S)
    tell(cluster, application_id, executor("0"))
    for _ in range(3):
        everywhere(cluster, report(application_id, "0", risk="its node has no room"))
    [line] = tell(cluster, application_id, executor("0")).notices
    assert_names(line, "executor 0", "its node has no room")
    assert tell(cluster, application_id, executor("0")).notices == ()


def test_the_cores_of_several_nodes_are_what_an_application_may_get(cluster: FakeCluster) -> None:
    everywhere(cluster, nodes=3)
    for conf, cores in (({}, 3.0), ({"spark.executor.instances": "2", "spark.executor.cores": "1"}, 2.0)):
        application = cluster.state.applications[attach(cluster, conf=K8S | conf)]
        assert cluster.state.workers.capacity(application, cluster.now_s).cores == cores
    # and a plan made before the driver starts says the same
    asked = cluster.plan(conf=conf, executor_cores=1, attached=True)
    assert asked.cluster_cores == cores


def test_what_it_tells_goes_to_its_agent(cluster: FakeCluster, job: str) -> None:
    progress = Progress(schema=SCHEMA, executor="0", sequence=3)
    tell(cluster, job, executor("0", progress=progress))
    assert desired(cluster).progress == {f"{job}/0": progress}


def test_an_executor_that_spark_removes_is_let_go_and_is_no_failure(cluster: FakeCluster, job: str) -> None:
    for number in range(15):
        tell(cluster, job, executor(str(number)))
        desired(cluster, "node", report(job, str(number)))
    tell(cluster, job)
    found = desired(cluster, "node", report(job, "14"))
    assert found.adopted == ()
    assert f"{job}/14" in found.stopped
    application = cluster.state.applications[job]
    assert (application.ended, application.placement.lost) == (False, 0)


def test_an_executor_that_its_agent_cannot_pace_goes_on(cluster: FakeCluster, job: str) -> None:
    desired(cluster, "node", report(job, "0", "refused", reason="it may not be divided"))
    said = tell(cluster, job, executor("0"))
    assert any("it may not be divided" in line for line in said.notices)
    assert (said.stop, said.gone) == (None, ())


def test_beyond_the_most_an_executor_goes_on_unpaced(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    monkeypatch.setattr(attached, "EXECUTORS", 2)
    said = tell(cluster, job, *(executor(str(number)) for number in range(3)))
    assert adopted(cluster) == ["0", "1"]
    [line] = said.notices
    assert "2 executors" in line


@pytest.mark.parametrize("name", ["mounts", "image", "python", "network", "after", "placement.labels", "locality.wait"])
def test_settings_that_say_how_executors_start_are_refused(cluster: FakeCluster, name: str) -> None:
    with pytest.raises(BadInput, match=f"spark.pace.{name}"):
        attach(cluster, conf={f"spark.pace.{name}": "x"})


@pytest.mark.parametrize("watched", [True, False])
def test_an_executor_that_is_only_watched_is_marked_for_its_agent(cluster: FakeCluster, watched: bool) -> None:
    desired(cluster)
    tell(cluster, attach(cluster, conf={"spark.pace.observe": "true"} if watched else {}), executor("0"))
    [spec] = desired(cluster).adopted
    assert spec.watched is watched


def test_a_deadline_is_judged_by_the_workers_that_adopt(cluster: FakeCluster) -> None:
    cluster.finished_run()  # which teaches 8 s of work
    hurry = {"spark.pace.deadline": "6s", "spark.pace.priority": "high", "spark.pace.master": "sparkpace://m:1"}
    attach(cluster, conf=hurry)  # no worker is there by which to judge it
    for _ in range(4):
        cluster.worker("own2")
    desired(cluster)
    with pytest.raises(InfeasibleDeadline):
        attach(cluster, conf=hurry)
    attach(cluster, conf=hurry | {"spark.pace.force": "true"})
    plan = cluster.plan(profile="app@app.py", deadline_s=6.0, attached=True)
    assert (plan.feasible, plan.cluster_cores) == (False, 1.0)


@pytest.mark.parametrize(
    ("conf", "cores"),
    [
        ({}, 3.0),
        ({"spark.cores.max": "2"}, 2.0),
        ({"spark.executor.instances": "1", "spark.executor.cores": "1"}, 1.0),
        ({"spark.executor.instances": "7", "spark.executor.cores": "1"}, 3.0),
    ],
)
def test_without_executors_its_settings_say_what_it_may_get(cluster: FakeCluster, conf: dict[str, str], cores: float) -> None:
    for name in ("a", "b", "c"):
        desired(cluster, name, boot=name)
    application = cluster.state.applications[attach(cluster, conf=conf)]
    assert cluster.state.workers.capacity(application, cluster.now_s).cores == cores


def test_slots_beyond_the_cores_of_a_machine_get_at_most_its_cores(cluster: FakeCluster) -> None:
    """Oversubscribed Workers, as a squeeze needs."""
    desired(cluster)
    application_id = attach(cluster)
    tell(cluster, application_id, executor("0", slots=2), executor("1", slots=2))
    most = cluster.state.workers.capacity(cluster.state.applications[application_id], cluster.now_s)
    assert (most.cores, most.slots, most.executors) == (1.0, 4, 2)


def test_a_restart_of_the_master_keeps_what_is_attached(cluster: FakeCluster, job: str) -> None:
    before = desired(cluster).adopted
    cluster.restart()
    assert desired(cluster).adopted == before != ()
    assert cluster.state.applications[job].attached


def test_its_end_is_recorded_and_lets_its_executors_go(cluster: FakeCluster, job: str) -> None:
    cluster.now_s += 9
    said: dict[str, Any] = {"wanted": {}, "executors": (executor("0"),), "spark_application_id": SPARKS, "ended": True}
    cluster.driver(job, *one_stage_run(1000), **said)
    assert desired(cluster, "node", report(job, "0")).stopped == (f"{job}/0",)
    desired(cluster)
    cluster.tick()
    assert cluster.state.applications[job].finished


SAID = structs.replace(registration(uid=1000, gid=1000, pid=7), attached=True, pid_namespace="theirs")


def test_its_user_only_says_for_whom_it_counts() -> None:
    assert vouched(SAID, Facts("10.0.0.9")).uid == NOBODY_UID
    assert vouched(SAID, Facts("10.0.0.9", user=User(1001, 1001))).uid == 1001
    seen = Facts("127.0.0.1", peer_uid=1000, in_sight=True, namespace="ours")
    driver = DriverSeen(8, 1000, frozenset({1000}), nested=True, connected=True)
    assert vouched(SAID, seen).boot_id == ""  # silence shows when it has ended
    trusted = vouched(SAID, dataclasses.replace(seen, driver=driver))
    assert (trusted.uid, trusted.pid, trusted.pid_namespace, trusted.boot_id) == (1000, 8, "ours", SAID.boot_id)


@pytest.mark.parametrize("name", ["/home/victim", "../..", "", "1\n", "12345678901"])
def test_an_executors_id_is_a_number_as_files_are_named_after_it(name: str) -> None:
    fields = msgspec.to_builtins(executor("1")) | {"executor_id": name}
    with pytest.raises(msgspec.ValidationError, match="executor_id"):
        msgspec.convert(fields, type=AttachedExecutor)

"""Capacity of workers, also where Spark changes the number of executors, and the cores with which a stage begins. Expected
numbers are derived next to each assert."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from controller.asks.allocation import most_executors
from controller.master.core.capacity import Capacity, initial
from controller.master.core.plan_reply import ClusterNow, plan_reply
from controller.master.profiles import profile_of
from controller.runs.profile_store import ProfileStore
from controller.wire.command import PlanRequest
from controller.wire.driver import ExecutorWish
from controller.wire.worker import WorkerInfo
from stage_model.history.profile import profile, profile_json
from tests.fakes.cluster import FakeCluster, report
from tests.fakes.records import run, stage

TWO = Capacity(cores=4.0, slots=4, speed_limit=1.0, executors=2)
ON = {"spark.dynamicAllocation.enabled": "true"}
MOST = "spark.dynamicAllocation.maxExecutors"


@pytest.mark.parametrize(
    ("work_core_s", "left_s", "cores"),
    [
        # 120 core-seconds in 50 s: 2.4 cores, 1.2 for each of two executors, which is 24 quanta
        (120.0, 50.0, 1.2),
        # no more than its slots; all of them where no time is left, or where no float holds its share
        (120.0, 1.0, 2.0),
        (120.0, 0.0, 2.0),
        (0.0, 0.0, 2.0),
        (1e300, 1e-300, 2.0),
    ],
)
def test_a_stage_begins_with_work_over_deadline_shared_by_executors(work_core_s: float, left_s: float, cores: float) -> None:
    assert initial(work_core_s, left_s, TWO) == cores


@pytest.mark.timeout(120)
@pytest.mark.parametrize("many", [2_000_000, 2**31 - 1, 2**63 - 1])
def test_a_plan_costs_no_more_for_a_profile_that_claims_any_number_of_slots_and_tasks(tmp_path: Path, many: int) -> None:
    claimed = profile("k", [run("r", 1, *(stage(f"s{n}", tasks=many - n, task_cv=0.5) for n in range(20)), slots=many)])
    request = PlanRequest(profile_json=profile_json(claimed).decode(), deadline_s=60.0, law="paper")
    info = WorkerInfo(worker_id="w", host="h", cores=2.0, memory_mb=1, runtime="r", pid=1, boot_id="b")
    reply = plan_reply(request, profile_of(request, ProfileStore(tmp_path)), ClusterNow([info]))
    assert len(reply.stages) == 20


@pytest.mark.parametrize(
    "offer", [{"cores": 1e9}, {"cores": 0}, {"memory_mb": -1}, {"resources": {"gpu": 10**9}}, {"resources": {"gpu": -1}}]
)
def test_a_worker_cannot_report_impossible_amounts(offer: dict[str, object]) -> None:
    plain = {"worker_id": "w", "host": "h", "cores": 1, "memory_mb": 1, "runtime": "r", "pid": 1, "boot_id": "b"}
    msgspec.convert(plain, WorkerInfo)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**plain, **offer}, WorkerInfo)


@pytest.mark.parametrize(
    ("conf", "wanted", "most"),
    [
        ({}, None, None),
        ({}, 2, 2),
        ({MOST: "9"}, 2, 2),
        (ON, 2, None),
        ({**ON, MOST: "9"}, 2, 9),
        # Spark itself says what it thinks of such a value
        ({**ON, MOST: "many"}, 2, None),
        ({"spark.dynamicAllocation.enabled": "false", MOST: "9"}, 2, 2),
    ],
)
def test_with_dynamic_allocation_a_wish_is_no_limit(conf: dict[str, str], wanted: int | None, most: int | None) -> None:
    assert most_executors(conf, wanted) == most


def test_executors_that_spark_would_do_without_count_until_they_are_gone(cluster: FakeCluster) -> None:
    """Three workers of one core; no task waits, so Spark wants one executor, but takes none away yet."""
    for worker in ("w1", "w2", "w3"):
        cluster.worker(worker)
    application = cluster.registered(conf=ON, wanted={"0": ExecutorWish(count=1)})

    def most() -> Capacity:
        return cluster.state.registry.workers.capacity(application, cluster.now_s)

    # before it has any it may get one on each
    application.executors.clear()
    assert (most().cores, most().executors) == (3.0, 3)
    cluster.driver(application.id, wanted={"0": ExecutorWish(count=2)})
    workers = {e.record.worker_id: number for number, e in application.executors.items()}
    assert len(workers) == 2
    for worker, number in workers.items():
        cluster.worker(worker, report(application.id, number))
    cluster.driver(application.id, wanted={"0": ExecutorWish(count=1)})
    assert (most().cores, most().executors) == (2.0, 2)
    # its other executor is gone
    worker, number = workers.popitem()
    cluster.driver(application.id, wanted={"0": ExecutorWish(count=1)}, killed=(number,))
    cluster.worker(worker, report(application.id, number, "exited", exit_code=0))
    assert (most().cores, most().executors) == (1.0, 1)

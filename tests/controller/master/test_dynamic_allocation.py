"""An application whose number of executors Spark changes: its executors count, or those that it may get."""

from __future__ import annotations

import pytest

from controller.asks.allocation import most_executors
from controller.master.core.capacity import Capacity
from controller.wire.driver import ExecutorWish
from tests.fakes.cluster import FakeCluster, report

ON = {"spark.dynamicAllocation.enabled": "true"}
MOST = "spark.dynamicAllocation.maxExecutors"


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
def test_with_dynamic_allocation_the_number_wanted_now_is_no_limit(
    conf: dict[str, str], wanted: int | None, most: int | None
) -> None:
    assert most_executors(conf, wanted) == most


def test_executors_that_spark_would_do_without_count_until_they_are_gone(cluster: FakeCluster) -> None:
    """Three workers of one core; no task waits, so Spark wants one executor, but takes none away yet."""
    for worker in ("w1", "w2", "w3"):
        cluster.worker(worker)
    application = cluster.registered(conf=ON, wanted={"0": ExecutorWish(count=1)})
    application_id = application.id

    def most() -> Capacity:
        return cluster.state.registry.workers.capacity(application, cluster.now_s)

    # before it has any it may get one on each
    application.executors.clear()
    assert (most().cores, most().executors) == (3.0, 3)
    cluster.driver(application_id, wanted={"0": ExecutorWish(count=2)})
    workers = {e.record.worker_id: number for number, e in application.executors.items()}
    assert len(workers) == 2
    for worker, number in workers.items():
        cluster.worker(worker, report(application_id, number))
    cluster.driver(application_id, wanted={"0": ExecutorWish(count=1)})
    assert (most().cores, most().executors) == (2.0, 2)
    # its other executor is gone
    worker, number = workers.popitem()
    cluster.driver(application_id, wanted={"0": ExecutorWish(count=1)}, killed=(number,))
    cluster.worker(worker, report(application_id, number, "exited", exit_code=0))
    assert (most().cores, most().executors) == (1.0, 1)

"""The master's side of memory: the wanted split, who waits in which order and why, starts by itself, restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.wire.driver import ExecutorWish
from controller.wire.worker import WorkerReply
from tests.fakes.cluster import FakeCluster, answered, registration, report
from tests.fakes.refusals import assert_names

ELASTIC = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "64m"}
H = 1024 + 384
"""Heap and overhead of the defaults."""


def register(cluster: FakeCluster, name: str, conf: dict[str, str] | None = None, *, age_s: float = 0.0) -> str:
    cluster.now_s += 1
    changed: dict[str, Any] = {"instance": name, "name": name, "conf": {**ELASTIC, **(conf or {})}, "age_s": age_s}
    return answered(cluster.state.drivers.register(registration(**changed), cluster.clock)).application_id


def sync(cluster: FakeCluster, *ids: str, worker: str = "w1", memory_mb: int = 8000, **changed: Any) -> WorkerReply:
    """Report that all these applications run there, each with executor number 1."""
    return cluster.worker(worker, *(report(i, "1", **changed) for i in ids), memory_mb=memory_mb)


def split(reply: WorkerReply) -> dict[str, int]:
    return reply.desired.budgets_mb


def started(cluster: FakeCluster) -> list[str]:
    """Return the names of the applications with an executor."""
    return [a.name for a in cluster.state.applications.values() if any(True for _ in a.live_executors())]


def end(cluster: FakeCluster, application_id: str, *others: str) -> None:
    cluster.driver(application_id, ended=True)
    sync(cluster, *others)
    cluster.tick()


def test_the_split_is_right_after_every_arrival_and_departure(cluster: FakeCluster) -> None:
    sync(cluster)
    a = register(cluster, "a")
    assert split(sync(cluster, a)) == {f"{a}/1": 8000 - H}
    b = register(cluster, "b")
    half = (8000 - 2 * H) // 2
    assert split(sync(cluster, a)) == {f"{a}/1": half, f"{b}/1": half}
    cluster.driver(b, ended=True)
    # its container is still there; that the first may not grow yet is the agent's to see
    assert split(sync(cluster, a, b)) == {f"{a}/1": 8000 - H}


def test_a_watched_one_that_runs_keeps_its_memory_and_the_others_share_the_rest(cluster: FakeCluster) -> None:
    sync(cluster)
    a = register(cluster, "a", {"spark.pace.observe": "true"})
    assert split(sync(cluster)) == {f"{a}/1": 8000 - H}
    b = register(cluster, "b")
    assert split(sync(cluster, a, b, memory_limit_mb=2 * H)) == {f"{b}/1": 8000 - 3 * H}


def test_a_killed_application_and_a_lost_executor_count_no_more(cluster: FakeCluster) -> None:
    sync(cluster)
    a, b = register(cluster, "a"), register(cluster, "b")
    sync(cluster, a, b)
    cluster.kill(b)
    assert split(sync(cluster, a, b)) == {f"{a}/1": 8000 - H}
    cluster.worker("w1", report(a, "1", "exited", exit_code=137), memory_mb=8000)
    cluster.worker("w1", memory_mb=8000)
    cluster.tick()
    assert split(sync(cluster)) == {f"{a}/2": 8000 - H}


def test_a_restarted_master_wants_the_same_split_at_once(cluster: FakeCluster) -> None:
    sync(cluster)
    a, b = register(cluster, "a"), register(cluster, "b")
    before = split(sync(cluster, a, b))
    cluster.restart()
    assert split(sync(cluster, a, b)) == before


def test_each_worker_is_split_among_those_on_it(cluster: FakeCluster) -> None:
    sync(cluster)
    sync(cluster, worker="w2", memory_mb=6000)
    a = register(cluster, "a")
    b = register(cluster, "b")
    cluster.driver(b, wanted={"0": ExecutorWish(count=1)}, killed=("2",))
    assert set(split(sync(cluster, a, b))) == {f"{a}/1", f"{b}/1"}
    assert split(sync(cluster, a, worker="w2", memory_mb=6000)) == {f"{a}/2": 6000 - H}


def test_a_size_that_the_user_chose_is_fixed(cluster: FakeCluster) -> None:
    sync(cluster)
    a = register(cluster, "a", {"spark.memory.offHeap.size": "1g"})
    b = register(cluster, "b")
    reply = sync(cluster, a, b)
    assert split(reply) == {f"{b}/1": 8000 - (H + 1024) - H}
    assert {s.application_id: (s.memory_mb, s.off_heap_floor_mb) for s in reply.desired.executors} == {
        a: (H + 1024, None),
        b: (H, 64),
    }


def test_it_waits_where_off_heap_memory_would_fall_below_h(cluster: FakeCluster) -> None:
    memory = 4 * H - 1
    sync(cluster, memory_mb=memory)
    a = register(cluster, "a")
    b = register(cluster, "b")
    assert started(cluster) == ["a"]
    shown = cluster.view(b)
    assert (shown.state, shown.queue_position) == ("waiting", 1)
    assert_names(shown.reason, "w1", f"{(memory - 2 * H) // 2} MiB", f"{H} MiB")
    assert cluster.view(a).queue_position is None
    assert split(sync(cluster, a, memory_mb=memory)) == {f"{a}/1": memory - H}


def test_one_mib_more_and_it_runs(cluster: FakeCluster) -> None:
    sync(cluster, memory_mb=4 * H)
    register(cluster, "a")
    register(cluster, "b")
    assert started(cluster) == ["a", "b"]


def test_alone_it_runs_however_small_the_worker_and_what_can_never_fit_is_refused(cluster: FakeCluster) -> None:
    sync(cluster, memory_mb=H + 64)
    a = register(cluster, "a")
    assert split(sync(cluster, a, memory_mb=H + 64)) == {f"{a}/1": 64}
    with pytest.raises(Exception, match=f"{H + 64 + 64} MiB"):
        register(cluster, "b", {"spark.executor.memory": f"{1024 + 64}m"})


def test_it_runs_where_it_fits_and_waits_only_if_it_fits_nowhere(cluster: FakeCluster) -> None:
    sync(cluster, memory_mb=3 * H)
    a = register(cluster, "a")
    sync(cluster, a, memory_mb=3 * H)
    sync(cluster, worker="w2", memory_mb=5 * H)
    cluster.driver(a, wanted={"0": ExecutorWish(count=1)})
    b = register(cluster, "b")
    [executor] = cluster.state.applications[b].executors.values()
    assert executor.record.worker_id == "w2"


def test_those_that_wait_start_by_themselves_in_order_of_priority_then_arrival(cluster: FakeCluster) -> None:
    sync(cluster, memory_mb=3 * H)
    a = register(cluster, "a", {"spark.pace.priority": "high"})  # no one is above it, so no one takes its memory
    sync(cluster, a, memory_mb=3 * H)
    late = register(cluster, "late")
    high, later = register(cluster, "high", {"spark.pace.priority": "high"}), register(cluster, "later")
    assert [cluster.view(i).queue_position for i in (late, high, later)] == [2, 1, 3]
    assert "2 ahead" in cluster.view(later).reason
    running = a
    for waiting in (high, late, later):
        cluster.driver(running, ended=True)
        sync(cluster, memory_mb=3 * H)
        cluster.tick()
        assert any(True for _ in cluster.state.applications[waiting].live_executors())
        running = waiting
        sync(cluster, running, memory_mb=3 * H)
        cluster.tick()
        assert len(started(cluster)) == 1


def test_arrival_is_submission_not_registration(cluster: FakeCluster) -> None:
    sync(cluster, memory_mb=3 * H)
    a = register(cluster, "a")
    sync(cluster, a, memory_mb=3 * H)
    quick = register(cluster, "quick")
    slow = register(cluster, "slow", age_s=30.0)
    assert [cluster.view(i).queue_position for i in (quick, slow)] == [2, 1]


def test_a_small_one_does_not_overtake_on_the_worker_that_the_first_waits_for(cluster: FakeCluster) -> None:
    sync(cluster, memory_mb=6000)
    a = register(cluster, "a")
    sync(cluster, a, memory_mb=6000)
    cluster.driver(a, wanted={"0": ExecutorWish(count=1)})
    large = register(cluster, "large", {"spark.executor.memory": "3g"})
    small = register(cluster, "small", {"spark.executor.memory": "64m"})
    assert started(cluster) == ["a"]
    # too large for this worker, so it waits for another one and keeps no one from this one
    sync(cluster, worker="w2", memory_mb=2000)
    cluster.tick()
    assert started(cluster) == ["a", "small"]
    [executor] = cluster.state.applications[small].executors.values()
    assert executor.record.worker_id == "w2"
    assert cluster.view(large).queue_position == 1


def test_the_order_survives_a_restart(cluster: FakeCluster) -> None:
    sync(cluster, memory_mb=3 * H)
    a = register(cluster, "a")
    waiting = [register(cluster, "b"), register(cluster, "c"), register(cluster, "d", {"spark.pace.priority": "low"})]
    cluster.restart()
    sync(cluster, a, memory_mb=3 * H)
    cluster.tick()
    assert [cluster.view(i).queue_position for i in waiting] == [1, 2, 3]
    assert started(cluster) == ["a"]


def test_a_stock_driver_is_told_place_and_reason_once_per_change(cluster: FakeCluster) -> None:
    sync(cluster, memory_mb=3 * H)
    a = register(cluster, "a")
    sync(cluster, a, memory_mb=3 * H)
    b, c = register(cluster, "b"), register(cluster, "c")
    lines = [line for line in cluster.view(c).notices if "waits" in line]
    assert ["place 2: 1 ahead" in line for line in lines] == [True]
    for _ in range(3):
        cluster.tick()
    cluster.kill(b)
    cluster.tick()
    lines = [line for line in cluster.view(c).notices if "waits" in line]
    assert ["place 1: " in line for line in lines] == [False, True]


def test_submit_says_it_itself(cluster: FakeCluster) -> None:
    sync(cluster, memory_mb=3 * H)
    a = register(cluster, "a")
    sync(cluster, a, memory_mb=3 * H)
    b = register(cluster, "b", {"spark.pace.submission": "12345678-aaaa"})
    assert not [line for line in cluster.view(b).notices if "waits" in line]


def test_the_view_shows_limits_and_acknowledged_budgets(cluster: FakeCluster) -> None:
    sync(cluster)
    a = register(cluster, "a")
    sync(cluster, a, memory_limit_mb=8000, off_heap_mb=8000 - H)
    shown = cluster.view(a)
    assert (shown.memory_mb, shown.off_heap_mb) == (8000, 8000 - H)


def test_an_agent_that_waits_for_others_to_shrink_is_the_reason_until_it_starts(cluster: FakeCluster) -> None:
    sync(cluster)
    a, b = register(cluster, "a"), register(cluster, "b")
    waiting = report(b, "1", "starting", reason="others are still giving it up")
    cluster.worker("w1", report(a, "1"), waiting, memory_mb=8000)
    assert (cluster.view(b).queue_position, cluster.view(b).reason) == (None, "others are still giving it up")
    sync(cluster, a, b)
    assert cluster.view(b).reason == ""


def test_by_need_follows_what_agents_report(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, memory_policy="by-need")
    sync(cluster)
    a, b = register(cluster, "a"), register(cluster, "b")
    half = (8000 - 2 * H) // 2
    assert split(sync(cluster)) == {f"{a}/1": half, f"{b}/1": half}
    reply = cluster.worker(
        "w1",
        report(a, "1", memory_limit_mb=H + half, off_heap_mb=half, off_heap_storage_mb=half),
        report(b, "1", memory_limit_mb=H + half, off_heap_mb=half, off_heap_storage_mb=100),
        memory_mb=8000,
    )
    budgets = split(reply)
    assert budgets[f"{a}/1"] > half > budgets[f"{b}/1"] >= 125
    assert sum(budgets.values()) <= 8000 - 2 * H


def test_nobody_can_claim_more_than_its_container_holds(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, memory_policy="by-need")
    sync(cluster)
    a, b = register(cluster, "a"), register(cluster, "b")
    half = (8000 - 2 * H) // 2
    use: dict[str, Any] = {"memory_limit_mb": H + half, "off_heap_mb": half, "off_heap_storage_mb": half}
    reports = report(a, "1", **use, off_heap_execution_mb=1 << 40), report(b, "1", **use)
    budgets = split(cluster.worker("w1", *reports, memory_mb=8000))
    assert budgets == {f"{a}/1": half, f"{b}/1": half}

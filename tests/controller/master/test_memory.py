"""The master's side of memory: the wanted split, the order and reasons of waiting, starts without help, restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.wire.driver import ExecutorWish
from controller.wire.worker import ExecutorReport
from stage_model.errors import BadInput
from tests.fakes.cluster import report
from tests.fakes.placed import ELASTIC, Scene
from tests.fakes.refusals import assert_names

H = 1024 + 384
"""Heap and overhead of the defaults."""
HALF = (8000 - 2 * H) // 2
"""Off-heap memory of each of two executors on a worker."""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Provide a worker of 8000 MiB."""
    return Scene(tmp_path, w1={})


@pytest.fixture
def full(tmp_path: Path) -> Scene:
    """Provide a worker with an executor, `a`, that has room for no second one. No application is above it, so none takes its
    memory."""
    made = Scene(tmp_path, w1={"memory_mb": 3 * H})
    made.register("a", priority="high")
    made.sync()
    return made


def sized(scene: Scene, name: str, **more: str) -> str:
    """Register an application whose executors have another size."""
    conf = {**ELASTIC, **{f"spark.{key}": value for key, value in more.items()}}
    scene.cluster.now_s += 1
    return scene.cluster.register(name=name, instance=name, conf=conf)


def worker_reports(scene: Scene, *reports: ExecutorReport) -> None:
    scene.cluster.worker("w1", *reports, memory_mb=8000)


def split(scene: Scene, worker: str = "w1") -> dict[str, int]:
    found: dict[str, int] = scene.state.core.agents.desired(worker, scene.cluster.now_s).budgets_mb
    return found


def positions(scene: Scene, *ids: str) -> list[int | None]:
    return [scene.view(one).queue_position for one in ids]


def test_the_split_is_right_after_every_arrival_and_departure_and_a_restart(scene: Scene) -> None:
    a = scene.register("a")
    assert split(scene) == {f"{a}/1": 8000 - H}
    b = scene.register("b")
    assert split(scene) == {f"{a}/1": HALF, f"{b}/1": HALF}
    scene.restart()
    assert split(scene) == {f"{a}/1": HALF, f"{b}/1": HALF}
    scene.cluster.driver(b, ended=True)
    # its container is still there; that the first may not grow yet is the agent's to see
    assert split(scene) == {f"{a}/1": 8000 - H}


def test_a_watched_one_that_runs_keeps_its_memory_and_the_others_share_the_rest(scene: Scene) -> None:
    a = scene.register("a", observe="true")
    assert split(scene) == {f"{a}/1": 8000 - H}
    b = scene.register("b")
    worker_reports(scene, *(report(one, "1", memory_limit_mb=2 * H) for one in (a, b)))
    assert split(scene) == {f"{b}/1": 8000 - 3 * H}


def test_each_worker_is_split_among_those_on_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={}, w2={"memory_mb": 6000})
    a, b = scene.register("a", None), scene.register("b", None)
    scene.cluster.driver(b, wanted={"0": ExecutorWish(count=1)}, killed=("2",))
    scene.sync()
    assert set(split(scene)) == {f"{a}/1", f"{b}/1"}
    assert split(scene, "w2") == {f"{a}/2": 6000 - H}


def test_a_size_that_the_user_chose_is_fixed(scene: Scene) -> None:
    a, b = sized(scene, "a", **{"memory.offHeap.size": "1g"}), scene.register("b")
    desired = scene.state.core.agents.desired("w1", scene.cluster.now_s)
    assert desired.budgets_mb == {f"{b}/1": 8000 - (H + 1024) - H}
    sizes = {s.application_id: (s.memory_mb, s.off_heap_floor_mb) for s in desired.executors}
    assert sizes == {a: (H + 1024, None), b: (H, 64)}


@pytest.mark.parametrize(("memory_mb", "runs"), [(4 * H - 1, False), (4 * H, True)])
def test_it_waits_where_off_heap_memory_would_fall_below_h(tmp_path: Path, memory_mb: int, runs: bool) -> None:
    scene = Scene(tmp_path, w1={"memory_mb": memory_mb})
    a, b = scene.register("a"), scene.register("b")
    assert (scene.where(a), scene.where(b)) == (["w1"], ["w1"] if runs else [])
    if not runs:
        shown = scene.view(b)
        assert (shown.state, positions(scene, a, b)) == ("waiting", [None, 1])
        assert_names(shown.reason, "w1", f"{(memory_mb - 2 * H) // 2} MiB", f"{H} MiB")
        assert split(scene) == {f"{a}/1": memory_mb - H}


def test_alone_it_runs_however_small_the_worker_and_what_can_never_fit_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"memory_mb": H + 64})
    a = scene.register("a")
    assert split(scene) == {f"{a}/1": 64}
    with pytest.raises(BadInput, match=f"{H + 64 + 64} MiB"):
        sized(scene, "b", **{"executor.memory": f"{1024 + 64}m"})


def test_it_runs_where_it_fits_and_waits_only_if_it_fits_nowhere(full: Scene) -> None:
    full.offers["w2"] = {**full.offers["w1"], "memory_mb": 5 * H}
    full.sync()
    assert full.where(full.register("b")) == ["w2"]


def test_applications_that_wait_start_by_themselves_in_order_of_priority_then_arrival(full: Scene) -> None:
    [running] = full.state.applications
    late, high, later = full.register("late"), full.register("high", priority="high"), full.register("later")
    assert positions(full, late, high, later) == [2, 1, 3]
    assert "2 ahead" in full.view(later).reason
    for waiting in (high, late, later):
        full.end(running)
        assert [one for one in (late, high, later) if full.where(one)] == [waiting]
        running = waiting


def test_arrival_is_submission_not_registration(full: Scene) -> None:
    quick = full.register("quick")
    slow = full.cluster.register(name="slow", instance="slow", conf=ELASTIC, age_s=30.0)
    assert positions(full, quick, slow) == [2, 1]


def test_a_small_one_does_not_overtake_on_the_worker_that_the_first_waits_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"memory_mb": 6000})
    scene.register("a")
    scene.sync()
    large, small = (sized(scene, name, **{"executor.memory": size}) for name, size in (("large", "3g"), ("small", "64m")))
    assert (scene.where(large), scene.where(small)) == ([], [])
    # too large for this worker, so it waits for another worker and keeps no application from this one
    scene.offers["w2"] = {**scene.offers["w1"], "memory_mb": 2000}
    scene.sync()
    assert (scene.where(large), scene.where(small), positions(scene, large)) == ([], ["w2"], [1])


def test_the_order_survives_a_restart(full: Scene) -> None:
    waiting = [full.register("b"), full.register("c"), full.register("d", priority="low")]
    full.restart()
    assert positions(full, *waiting) == [1, 2, 3]
    assert [full.where(one) for one in waiting] == [[], [], []]


def test_a_stock_driver_gets_place_and_reason_once_per_change_and_submit_says_it_itself(full: Scene) -> None:
    b, c, d = full.register("b"), full.register("c"), full.register("d", submission="12345678-aaaa")

    def notices_to(application_id: str) -> list[str]:
        return [line for line in full.view(application_id).notices if "waits" in line]

    assert ["place 2: 1 ahead" in line for line in notices_to(c)] == [True]
    for _ in range(3):
        full.cluster.tick()
    full.cluster.kill(b)
    full.cluster.tick()
    assert ["place 1: " in line for line in notices_to(c)] == [False, True]
    assert notices_to(d) == []


def test_the_view_shows_limits_and_acknowledged_budgets(scene: Scene) -> None:
    a = scene.register("a")
    worker_reports(scene, report(a, "1", memory_limit_mb=8000, off_heap_mb=8000 - H))
    shown = scene.view(a)
    assert (shown.memory_mb, shown.off_heap_mb) == (8000, 8000 - H)


def test_an_agent_that_waits_for_others_to_shrink_is_the_reason_until_it_starts(scene: Scene) -> None:
    a, b = scene.register("a"), scene.register("b")
    worker_reports(scene, report(a, "1"), report(b, "1", "starting", reason="others are still giving it up"))
    assert (scene.view(b).queue_position, scene.view(b).reason) == (None, "others are still giving it up")
    scene.sync()
    assert scene.view(b).reason == ""


@pytest.mark.parametrize(("execution_mb", "storage_mb"), [(0, 100), (1 << 40, HALF)])
def test_by_need_follows_reports_up_to_what_a_container_holds(scene: Scene, execution_mb: int, storage_mb: int) -> None:
    scene.cluster.memory_policy = "by-need"
    scene.restart()
    a, b = scene.register("a"), scene.register("b")
    assert split(scene) == {f"{a}/1": HALF, f"{b}/1": HALF}
    use: dict[str, Any] = {"memory_limit_mb": H + HALF, "off_heap_mb": HALF}
    worker_reports(
        scene,
        report(a, "1", **use, off_heap_storage_mb=HALF, off_heap_execution_mb=execution_mb),
        report(b, "1", **use, off_heap_storage_mb=storage_mb),
    )
    budgets = split(scene)
    if execution_mb:
        assert budgets == {f"{a}/1": HALF, f"{b}/1": HALF}
    else:
        assert budgets[f"{a}/1"] > HALF > budgets[f"{b}/1"] >= 125
        assert sum(budgets.values()) <= 8000 - 2 * H

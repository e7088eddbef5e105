"""The applications that wait, their order and their workers are kept up to date; a pass costs in proportion to their
number."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from controller.master.core import executors
from controller.master.core.application import Application
from controller.master.core.queue import by_rank, rank_of, waits
from controller.wire.driver import ExecutorWish
from placement.plan import ever_fitting
from tests.fakes.placed import Scene
from tests.fakes.refusals import assert_names

LABELS = ("zone=a", "zone=b", "")


def asked_anew(scene: Scene, application: Application) -> tuple[int | None, int, set[str]]:
    """Compute again an application's position, the number in line before it, and the workers that those want, by a look at
    all others."""
    placing = scene.state.placing
    before = [one for one in scene.state.applications.values() if waits(one) and rank_of(one) < rank_of(application)]
    in_line = [one for one in before if not one.held_back]
    requests = [placing._request(one, name, wish) for one in in_line for name, wish in one.placement.wanted.items()]
    wanted = {worker.worker_id for request, memory in requests for worker in ever_fitting(request, placing.fleet, memory)}
    return (1 + len(before) if waits(application) else None), len(in_line), wanted


def something_happens(scene: Scene, rng: random.Random, number: int) -> None:
    living = [a for a in scene.state.applications.values() if not a.ended]
    one = rng.choice(living) if living else None
    what = rng.randrange(9)
    if one is None or what <= 2:
        conf: dict[str, Any] = {"priority": rng.choice(("low", "normal", "high")), "placement_labels": rng.choice(LABELS)}
        if living and rng.random() < 0.2:
            conf["after"] = rng.choice(living).name
        scene.register(f"app{number}", rng.choice((None, 1, 2)), **conf)
    elif what == 3:
        scene.state.commands.kill(one.id, scene.cluster.now_s)
    elif what == 4:
        scene.end(one.id)
    elif what == 5:
        scene.cluster.driver(one.id, wanted={"0": ExecutorWish(count=rng.randrange(3))})
    elif what == 6:
        scene.cluster.change(one.id, priority=rng.choice(("low", "normal", "high")), labels=rng.choice(LABELS))
    elif what == 7:
        name = rng.choice(("w1", "w2", "w3", "w4"))
        labels = {"zone": rng.choice(("a", "b"))}
        scene.offers[name] = {"cores": 1.0, "memory_mb": rng.choice((2000, 8000)), "host": "127.0.0.1", "labels": labels}
    else:
        scene.cluster.now_s += 5
    scene.sync()


def test_higher_priority_comes_first_then_the_earlier_submission_then_the_id(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"memory_mb": 3000})
    for name, priority in (("app0", "low"), ("app1", "normal"), ("app2", "high"), ("app3", "normal")):
        scene.register(name, priority=priority)
    applications = list(scene.state.applications.values())
    assert [one.name for one in by_rank(applications)] == ["app2", "app1", "app3", "app0"]
    early, late = (one for one in applications if one.name in ("app1", "app3"))
    late.started_s = early.started_s
    assert [one.id for one in by_rank([late, early])] == sorted([early.id, late.id])


@pytest.mark.parametrize("seed", range(5))
def test_the_queue_and_who_lacks_executors_are_what_a_look_at_everybody_says(tmp_path: Path, seed: int) -> None:
    scene, rng, waited = Scene(tmp_path, w1={"memory_mb": 3000}), random.Random(seed), 0
    for number in range(40):
        something_happens(scene, rng, number)
        queue, lacking = scene.state.placing.queue, scene.state.registry.changes.lacking
        scene.state.placing.refresh(scene.cluster.now_s)
        for application in scene.state.applications.values():
            found = queue.position(application), queue.ahead(application), set(queue.kept(application))
            assert found == asked_anew(scene, application)
            assert application.ended or application.id in lacking or executors.has_all_executors(application)
            waited += found[0] is not None
    assert waited > 20


def calls_of_a_pass(path: Path, waiting: int) -> int:
    """Count the calls of Python's and of C's functions in a pass."""
    path.mkdir()
    scene = Scene(path, **{f"w{number}": {"memory_mb": 2000} for number in range(5)})
    for number in range(5 + waiting):
        scene.register(f"app{number}", placement_labels=LABELS[2])
        scene.sync()  # or the workers would be silent for too long, and the master looked for none
    assert sum(map(waits, scene.state.applications.values())) == waiting
    assert all("no worker has joined" not in one.placement.waiting for one in scene.state.applications.values())
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    scene.cluster.now_s += 0.5
    sys.setprofile(count)
    try:
        scene.state.tick(scene.cluster.now_s)
    finally:
        sys.setprofile(None)
    return calls


def test_a_pass_costs_in_proportion_to_those_that_wait(tmp_path: Path) -> None:
    few, more, many = (calls_of_a_pass(tmp_path / f"{waiting}", waiting) for waiting in (25, 50, 100))
    assert many - more <= 2.2 * (more - few)


def test_executors_that_cannot_be_on_a_new_worker_keep_no_other_waiting(tmp_path: Path) -> None:
    scene = Scene(tmp_path, small={"cores": 1.0})
    fixed = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "4m"}
    first = scene.cluster.register(instance="fixed", name="fixed", conf=fixed, wanted={"0": ExecutorWish(count=None)})
    assert scene.where(first) == ["small"]
    # for that many slots 4 MiB are too little
    scene.offers["large"] = {**scene.offers["small"], "cores": 64.0}
    scene.sync()
    assert scene.where(first) == ["small"]
    assert scene.where(scene.register("behind")) == ["large"]


def test_executors_that_fit_nowhere_are_reported_and_keep_no_other_waiting(tmp_path: Path) -> None:
    two = Scene(tmp_path, w1={}, w2={})
    first = two.register("first", priority="high")
    # a resource profile that is asked for at run time, with less off-heap memory than its slots need
    wanted = {"1": ExecutorWish(count=1, cores=1, off_heap_mb=1)}
    two.cluster.driver(first, wanted=wanted)
    for executor in two.state.applications[first].live_executors():
        two.cluster.driver(first, wanted=wanted, killed=(executor.record.executor_id,))
    two.sync()
    assert_names(two.view(first).reason, "spark.memory.offHeap.size", "1 MiB")
    behind = two.register("behind", after="later")
    two.end(two.register("later"))
    two.sync()
    assert len(two.where(behind)) == 1

"""Workers are started for what fits nowhere and given back; providers are asked once, and failures are reported."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from controller.master.core import growing
from controller.master.core.application import Application
from controller.master.core.growing import Growing
from controller.master.core.needs import planned_peak
from controller.master.core.workers import STALE_S, Workers
from controller.master.providers import CommandProvider, agent_words, check_program
from placement.growth import Growth, Limits, WorkerType
from placement.resources import ResourceSet
from stage_model.errors import BadInput, RuntimeFailed
from tests.fakes.placed import Scene


class Provided:
    """A provider in memory: the scene's next report offers the workers that it started."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.asked: list[str] = []
        self.refuses = False
        self.error: Exception = RuntimeFailed("no room")
        self.done = threading.Event()

    def start(self, name: str, kind: WorkerType) -> None:
        self.asked.append(f"start {name} {kind}")
        try:
            if self.refuses:
                raise self.error
            pieces = {resource: units // 10_000 for resource, units in kind.pieces.items()}
            self.scene.offers[name] = {
                "cores": kind.cores, "memory_mb": kind.memory_mb, "host": "127.0.0.1", "resources": pieces,
                "labels": dict(kind.labels),
            }  # fmt: skip
        finally:
            self.done.set()

    def end(self, name: str) -> None:
        self.asked.append(f"end {name}")
        self.scene.offers.pop(name, None)
        self.done.set()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, w1={"memory_mb": 2000})


@pytest.fixture
def provided(scene: Scene) -> Provided:
    provider = Provided(scene)
    limits = Limits(workers=2, cores=4, memory_mb=16_000, pieces=ResourceSet.of(gpu=2), keep_s=5)
    scene.state.grow_by(Growth(limits), provider, scene.cluster.now_s)
    return provider


def turn(scene: Scene, provider: Provided, asks: int) -> None:
    """Let the master look, its provider do what it was asked for `asks` times, and the workers report."""
    for _ in range(asks):
        provider.done.clear()
        scene.state.tick(scene.cluster.now_s)
        assert provider.done.wait(120)
        wait(scene.state.outside.providing.under_way)  # it is set a moment before the call is over
    scene.sync()
    scene.sync(1)


def test_a_job_that_could_not_run_gets_a_worker_which_goes_back_without_work(scene: Scene, provided: Provided) -> None:
    large = scene.register("large", placement_resources="gpu=1", placement_labels="zone=a")
    assert scene.where(large) == []
    turn(scene, provided, 1)
    assert provided.asked == ["start grown-1 1 cores, 1536 MiB, gpu=1, zone=a"]
    assert scene.where(large) == ["grown-1"]
    scene.sync()
    assert len(provided.asked) == 1
    scene.end(large)
    scene.sync(1)
    scene.cluster.now_s += 6
    for name in scene.offers:
        scene.report(name)
    turn(scene, provided, 1)
    assert provided.asked[-1] == "end grown-1"
    assert not scene.state.growing.growth.started
    # its last report may still be on its way
    assert scene.state.workers.by_id["grown-1"].closing
    scene.cluster.now_s += 11
    scene.report("w1")
    scene.state.tick(scene.cluster.now_s)
    assert "grown-1" not in scene.state.workers.by_id


def test_trouble_of_one_application_leaves_the_others_their_workers(
    scene: Scene, provided: Provided, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, want = scene.register("broken", placement_resources="gpu=1"), Growing._want

    def want_of_others(self: Growing, application: Application, *rest: Any) -> None:
        if application.id == broken:
            raise OverflowError("on purpose")
        want(self, application, *rest)

    monkeypatch.setattr(Growing, "_want", want_of_others)
    scene.register("other", placement_resources="gpu=2")
    turn(scene, provided, 1)
    assert provided.asked == ["start grown-1 1 cores, 1536 MiB, gpu=2"]
    assert scene.state.applications[broken].faults


def test_cores_that_cannot_be_counted_are_left_out(scene: Scene, provided: Provided, monkeypatch: pytest.MonkeyPatch) -> None:
    small = scene.register("small")
    assert scene.where(small) == ["w1"]

    def planned_of_others(application: Application, workers: Workers, now_s: float) -> float:
        if application.id == small:
            raise OverflowError("on purpose")
        return planned_peak(application, workers, now_s)

    scene.register("large", placement_resources="gpu=1")
    monkeypatch.setattr(growing, "planned_peak", planned_of_others)
    turn(scene, provided, 1)
    assert provided.asked == ["start grown-1 1 cores, 1536 MiB, gpu=1"]
    assert scene.state.applications[small].faults


def test_what_no_provider_can_start_is_refused_with_the_reason(scene: Scene, provided: Provided) -> None:
    for asked in ("fpga=1", "gpu=1,ssd=1", "gpu=3"):
        with pytest.raises(BadInput, match="4 cores, 16000 MiB, gpu=2"):
            scene.register("a", placement_resources=asked)
    assert not scene.state.applications
    assert provided.asked == []


@pytest.mark.parametrize("error", [RuntimeFailed("no room"), KeyError("no room"), SystemError("no room")])
def test_a_provider_that_fails_is_reported_and_asked_again_later(scene: Scene, provided: Provided, error: Exception) -> None:
    provided.refuses, provided.error = True, error
    large = scene.register("large", placement_resources="gpu=1")
    turn(scene, provided, 2)
    assert provided.asked == ["start grown-1 1 cores, 1536 MiB, gpu=1", "end grown-1"]
    assert any(str(error) in line for line in scene.view(large).notices)
    provided.refuses = False
    scene.cluster.now_s += 31
    scene.report("w1")
    turn(scene, provided, 1)
    assert provided.asked[2] == "start grown-2 1 cores, 1536 MiB, gpu=1"
    assert scene.where(large) == ["grown-2"]


def test_a_restarted_master_gives_back_what_an_earlier_one_started(scene: Scene, provided: Provided) -> None:
    scene.register("large", placement_resources="gpu=1")
    turn(scene, provided, 1)
    scene.cluster.restart()
    scene.state.grow_by(Growth(Limits()), provided, scene.cluster.now_s)
    assert list(scene.state.growing.growth.started) == ["grown-1"]
    for future in scene.state.end_started_workers(scene.cluster.now_s):
        future.result(10)
    assert provided.asked[-1] == "end grown-1"


def test_a_job_too_large_for_all_workers_is_planned_where_one_can_be_started(scene: Scene, provided: Provided) -> None:
    large = {"spark.executor.memory": "4g"}
    assert scene.cluster.plan(conf=large).feasible is None
    scene.state.admission.core.growing = None
    with pytest.raises(BadInput):
        scene.cluster.plan(conf=large)


def test_a_worker_that_is_not_what_it_was_started_as_is_named_and_not_started_again(scene: Scene, provided: Provided) -> None:
    large = scene.register("large", placement_labels="zone=c")
    scene.state.tick(scene.cluster.now_s)
    assert provided.done.wait(120)
    scene.offers["grown-1"]["labels"] = {"zone": "d"}
    for _ in range(3):
        scene.sync()
        scene.cluster.now_s += 1
    assert len(provided.asked) == 1
    assert any("worker grown-1" in line and "1536 MiB, zone=c" in line for line in scene.view(large).notices)


def test_workers_that_never_come_back_after_a_restart_stop_no_refusal(scene: Scene, provided: Provided) -> None:
    scene.offers["ghost"] = {**scene.offers["w1"], "resources": {"fpga": 1}}
    scene.report("ghost")
    del scene.offers["ghost"]
    scene.cluster.restart()
    scene.report("w1")
    limits = Limits(pieces=ResourceSet.of(gpu=2))
    scene.state.grow_by(Growth(limits), provided, scene.cluster.now_s)
    scene.register("early", placement_resources="fpga=1")  # the ghost may still report
    scene.cluster.now_s += STALE_S
    scene.report("w1")
    with pytest.raises(BadInput, match="gpu=2"):
        scene.register("late", placement_resources="fpga=1")
    scene.state.admission.core.growing = None
    with pytest.raises(BadInput, match="fpga"):
        scene.register("later", placement_resources="fpga=1")


def test_after_a_restart_nothing_is_started_before_those_that_were_there_report(scene: Scene, provided: Provided) -> None:
    scene.register("first")
    scene.sync()
    scene.cluster.restart()
    scene.state.grow_by(Growth(Limits(), WorkerType(1, 1024)), provided, scene.cluster.now_s)
    scene.state.tick(scene.cluster.now_s)
    assert provided.asked == []


# ---------------------------------------------------------------- the provider `command`

SCRIPT = """#!/bin/sh
printf '%s\\n' "$SPARKPACE_MASTER" "$SPARKPACE_HOME" "$SPARKPACE_AGENT_OPTIONS" "$@" > "$SPARKPACE_HOME/asked"
if [ "$1" = end ]; then echo "does not know $2" >&2; exit 3; fi
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "workers.sh"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    return path


def test_a_users_program_gets_name_size_pieces_and_labels(script: Path, tmp_path: Path) -> None:
    provider = CommandProvider(script, "https://127.0.0.1:7070", tmp_path, ("--allow-mount", "/a b"))
    provider.start("grown-1", WorkerType(0.5, 1024, ResourceSet.of(gpu=1), (("zone", "a"),)))
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[:3] == ["https://127.0.0.1:7070", str(tmp_path), "--allow-mount '/a b'"]
    assert asked[3:] == ["start", "grown-1", "0.5", "1024", "gpu=1", "zone=a"]


def test_a_program_that_fails_is_reported_with_its_last_line_and_checked_before_a_start(script: Path, tmp_path: Path) -> None:
    provider = CommandProvider(script, "https://127.0.0.1:7070", tmp_path)
    assert check_program(script) == script
    with pytest.raises(RuntimeFailed, match=r"end grown-1 .* 3: does not know grown-1"):
        provider.end("grown-1")
    script.chmod(0o644)
    with pytest.raises(BadInput, match=str(script)):
        check_program(script)
    script.unlink()
    with pytest.raises(RuntimeFailed, match="No such file"):
        provider.end("grown-1")


def test_a_type_as_an_agents_options() -> None:
    assert agent_words(WorkerType(0.5, 1024)) == ["--cores", "0.5", "--memory", "1024"]
    words = agent_words(WorkerType(2, 512, ResourceSet.of(gpu=1), (("disk", "ssd"), ("zone", "a"))))
    assert words[4:] == ["--resources", "gpu=1", "--labels", "disk=ssd,zone=a"]

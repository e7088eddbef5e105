"""Places of executors, the reasons for them, and executors that give way."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.master.core import worker_states
from controller.master.core.application import Application
from controller.master.core.needs import planned_peak
from controller.master.core.workers import Workers
from controller.wire.driver import ExecutorWish
from placement.topology import parse_topology
from stage_model.errors import BadInput
from stage_model.history.profile import profile
from tests.fakes.placed import Scene
from tests.fakes.records import run, stage
from tests.fakes.refusals import assert_names

H = 1024 + 384
"""Heap and overhead of the defaults."""


@pytest.fixture
def two(tmp_path: Path) -> Scene:
    return Scene(tmp_path, w1={}, w2={})


@pytest.mark.parametrize(("conf", "worker"), [({}, "large"), ({"placement_policy": "pack"}, "small")])
def test_the_larger_worker_comes_first_unless_a_job_names_a_policy(tmp_path: Path, conf: dict[str, str], worker: str) -> None:
    scene = Scene(tmp_path, small={"cores": 0.3}, large={"cores": 0.8})
    assert scene.where(scene.register("a", **conf)) == [worker]


def test_an_application_whose_cores_cannot_be_planned_counts_with_its_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, w1={"cores": 4.0})
    broken = scene.register("broken")

    def planned_of_others(application: Application, workers: Workers, now_s: float, slots: int) -> float:
        if application.id == broken:
            raise OverflowError("on purpose")
        return planned_peak(application, workers, now_s, slots)

    monkeypatch.setattr(worker_states, "planned_peak", planned_of_others)
    other = scene.register("other")
    assert scene.where(other) == ["w1"]
    (one,) = [o for o in scene.state.placing.fleet.get("w1").occupants.values() if o.application_id == broken]
    assert one.cores == 4


def test_the_drivers_host_takes_executors_only_as_long_as_the_planned_cores_leave_room(tmp_path: Path) -> None:
    # the driver runs on the host of the worker that has joined first
    scene = Scene(tmp_path, w1={"host": "10.0.0.1"}, w2={"host": "10.0.0.2", "cores": 16.0})
    first, second = scene.register("first"), scene.register("second")
    assert (scene.where(first), scene.where(second)) == (["w1"], ["w2"])
    here, _ = scene.state.core.commands.explain(second, scene.cluster.now_s).workers
    assert (here.local, here.crowded, here.free_cores) == (True, True, 0.0)
    # without a profile an executor demands its slots
    planned = [[one.cores for one in worker.occupants.values()] for worker in scene.state.placing.fleet.ordered]
    assert planned == [[1.0], [16.0]]


def test_the_drivers_own_address_says_which_worker_of_its_machine_is_its_host(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"host": "127.0.0.2"}, w2={"host": "here"})
    # the driver has the address "here"; of two alike, the policy would take the first by name
    assert scene.where(scene.register("a")) == ["w2"]


def test_a_driver_whose_own_host_fits_no_executor_draws_none_to_other_workers_of_its_machine(tmp_path: Path) -> None:
    scene = Scene(
        tmp_path, w1={"host": "127.0.0.2", "cores": 0.5}, w2={"host": "127.0.0.3"}, front={"host": "here", "memory_mb": 512}
    )
    # w1 joined first, but w2 has more cores
    assert scene.where(scene.register("a")) == ["w2"]


def test_a_deadline_that_needs_more_cores_than_the_drivers_host_has_is_kept_elsewhere(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"host": "10.0.0.1"}, w2={"host": "10.0.0.2", "cores": 16.0})
    one_stage = stage("a", tasks=16, work_core_s=160.0, run_s=160.0, task_s=10.0, duration_s=80.0)
    scene.state.profiles.add(profile("app@app.py", [run("r1", 1, one_stage, duration_s=82.5)]))
    assert scene.where(scene.register("paced", profile="app@app.py", deadline="60s")) == ["w2"]


def test_labels_restrict_and_count_at_once_when_they_change(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"labels": {"zone": "a"}}, w2={"labels": {"zone": "b"}})
    b = scene.register("b", None, placement_labels="zone=b")
    assert scene.where(b) == ["w2"]
    c = scene.register("c", placement_labels="zone=c")
    assert scene.where(c) == []
    assert_names(scene.view(c).reason, "w1 and w2", "zone=c")
    assert scene.state.commands.label("w1", {"zone": "c"}, scene.cluster.now_s) == {"zone": "c"}
    assert scene.where(c) == ["w1"]
    scene.restart()
    assert scene.state.workers.by_id["w1"].info.labels == {"zone": "c"}
    assert scene.state.commands.label("w1", {"zone": None}, scene.cluster.now_s) == {}


def test_what_an_application_asks_of_workers_changes_while_it_runs(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"labels": {"zone": "a"}}, w2={"labels": {"zone": "b"}}, w3={"labels": {"zone": "b"}})
    a = scene.register("a", None, placement_labels="zone=a")
    assert scene.where(a) == ["w1"]
    scene.cluster.change(a, labels="zone=b")
    # what runs stays
    assert sorted(scene.where(a)) == ["w1", "w2", "w3"]
    scene.restart()
    assert [str(one) for one in scene.state.applications[a].options.placement.labels] == ["zone=b"]
    assert [changed.labels for changed in scene.state.applications[a].record.changes] == ["zone=b"]
    with pytest.raises(BadInput, match="--labels 'zone=b c'"):
        scene.cluster.change(a, labels="zone=b c")
    scene.cluster.change(a, labels="")
    assert scene.state.applications[a].options.placement.labels == ()


@pytest.mark.parametrize(
    ("worker", "changes"),
    [
        ("w9", {"zone": "a"}),
        *(("w1", one) for one in ({"zo ne": "a"}, {"zone": "a b"}, {"a=b,c": "d"}, {"a": "b,c=d"}, {" a": "b"}, {"": "b"})),
    ],
)
def test_labels_that_cannot_be_are_refused(two: Scene, worker: str, changes: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=r"NAME=VALUE|'w9' .* w[12], w[12]"):
        two.state.commands.label(worker, changes, two.cluster.now_s)


# ---------------------------------------------------------------- pieces


def test_pieces_are_had_once_and_executors_see_their_ids(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"resources": {"gpu": 2}, "memory_mb": 20_000})
    ids = [scene.register(name, placement_resources="gpu=0.5") for name in "abcde"]
    assert [len(scene.where(i)) for i in ids] == [1, 1, 1, 1, 0]
    shown = [
        next(iter(scene.state.applications[i].executors.values())).record.spec.environment["CUDA_VISIBLE_DEVICES"]
        for i in ids[:4]
    ]
    assert shown == ["0", "0", "1", "1"]
    assert_names(scene.view(ids[4]).reason, "w1", "0 gpu")
    scene.end(ids[1])
    assert scene.where(ids[4]) == ["w1"]
    assert scene.state.applications[ids[4]].executors["1"].record.held == {"gpu": {0: 5000}}


def test_sparks_own_resources_are_placed_and_handed_on(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"resources": {"gpu": 2}})
    a = scene.cluster.register(conf={"spark.executor.resource.gpu.amount": "2"}, wanted={"0": ExecutorWish(count=1)})
    spec = scene.state.applications[a].executors["1"].record.spec
    assert spec.resources == {"gpu": ("0", "1")}
    assert "--resourcesFile" in spec.java_args


def test_pieces_are_still_held_after_a_restart_of_the_master(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"resources": {"gpu": 1}})
    a = scene.register("a", placement_resources="gpu=1")
    scene.sync()
    scene.restart()
    b = scene.register("b", placement_resources="gpu=1")
    assert (scene.where(a), scene.where(b)) == (["w1"], [])


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"placement_resources": "fpga=1"}, "fpga.* gpu"),
        ({"placement_resources": "gpu=3"}, "gpu.* 2"),
        ({"placement_resources": "gpu=1.5"}, "gpu=1.5"),
        ({"placement_resources": "gpu=-1"}, "gpu=-1"),
        ({"placement_policy": "best"}, "'best'.* spread, pack, random"),
        ({"placement_labels": "zone=="}, "'zone=='"),
        ({"placement_ports": "80,80"}, "80.* 65535"),
        ({"placement_evict": "yes"}, "'yes'"),
        ({"locality_wait": "soon"}, "'soon'.* forecast, none"),
        ({"after": "a:failed"}, "'a:failed'.* ID:success"),
        ({"placement_prefer": "a b"}, "'a b'"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_left(tmp_path: Path, conf: dict[str, str], words: str) -> None:
    scene = Scene(tmp_path, w1={"resources": {"gpu": 2}})
    with pytest.raises(BadInput, match=words):
        scene.register("a", **conf)
    assert not scene.state.applications


def test_what_no_single_worker_has_is_refused_but_not_before_all_have_reported(tmp_path: Path) -> None:
    scene = Scene(tmp_path, small={"memory_mb": H + 100, "resources": {"gpu": 1}}, large={"memory_mb": 8000})

    asked = {"spark.executor.memory": "4g", "spark.pace.placement.resources": "gpu=1"}
    with pytest.raises(BadInput, match="no single worker"):
        scene.cluster.register(conf=asked)
    scene.cluster.restart()
    scene.report("small")
    # the other one may have what it needs, for all that is known
    assert scene.where(scene.cluster.register(conf=asked)) == []


def test_ports_and_groups_keep_apart(two: Scene) -> None:
    a = two.register("a", placement_ports="9000", placement_group="web")
    b = two.register("b", placement_ports="9000")
    c = two.register("c", placement_apart="web")
    d = two.register("d", placement_ports="9000")
    assert (two.where(a), two.where(b), two.where(c), two.where(d)) == (["w1"], ["w2"], ["w2"], [])
    assert_names(two.view(d).reason, "w1 and w2", "9000")


# ---------------------------------------------------------------- preemption


def test_lower_priority_gives_off_heap_memory_up_instead_of_making_a_higher_one_wait(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"memory_mb": 4 * H})
    low, other = scene.register("low", priority="low"), scene.register("other", priority="low")
    assert scene.where(low) == scene.where(other) == ["w1"]
    waits = scene.register("third", priority="low")
    assert scene.where(waits) == []
    high = scene.register("high", priority="high")
    scene.sync()
    assert scene.where(high) == ["w1"]
    budgets = scene.state.core.agents.desired("w1", scene.cluster.now_s).budgets_mb
    # M - 3 h is one h: with both of lower priority at their floor of 64 MiB the newcomer has less than h and is alone in that
    assert budgets[f"{low}/1"] == budgets[f"{other}/1"] == 64
    assert budgets[f"{high}/1"] == 4 * H - 3 * H - 128


def test_evict_ends_the_fewest_of_lower_priority_with_a_record(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"memory_mb": 2 * H + 100}, w2={"memory_mb": 4 * H})
    one = scene.register("one", 2, priority="low")
    two = scene.register("two", priority="low")
    assert sorted(scene.where(one)) == ["w1", "w2"]
    before = scene.register("before", priority="high", placement_labels="none=here")
    assert scene.where(before) == []
    assert scene.where(two) == ["w2"]
    high = scene.register("high", 2, priority="high", placement_evict="true")
    assert scene.where(high) == ["w2"]  # there no executor has to end
    application = scene.state.applications[one]
    victim = next(e for e in application.executors.values() if e.record.worker_id == "w1")
    assert victim.record.planned_end
    assert victim.record.evicted_for == high
    assert "evicted" in application.notices.lines[-1]
    scene.sync()
    assert sorted(scene.where(high)) == ["w1", "w2"]
    assert scene.where(one) == ["w2"]
    assert application.placement.lost == 0
    explained = scene.state.core.commands.explain(one, scene.cluster.now_s)
    assert explained.evicted == (f"executor {victim.record.executor_id} on worker w1 for {high}",)


def test_a_worker_where_others_were_evicted_is_kept_for_the_application_that_needs_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"memory_mb": 2 * H}, w2={"memory_mb": 2 * H})
    low, also = scene.register("low", None, priority="low"), None
    scene.sync()
    also = scene.register("also", None, priority="low")
    high = scene.register("high", None, priority="high", placement_evict="true")
    for _ in range(8):
        scene.sync(1)
    assert sorted(scene.where(high)) == ["w1", "w2"]
    evicted = [e for i in (low, also) for e in scene.state.applications[i].executors.values() if e.record.evicted_for]
    assert len(evicted) == 2


# ---------------------------------------------------------------- data and topology

TOPOLOGY = parse_topology("10.0.0.0/24 rack=r1\n10.0.1.0/24 rack=r2\n")


def test_the_host_of_the_input_comes_first_then_its_rack(tmp_path: Path) -> None:
    scene = Scene(
        tmp_path, a={"host": "10.0.1.1"}, b={"host": "10.0.0.2", "cores": 0.5}, c={"host": "10.0.0.1", "cores": 0.2}
    )
    asked = {"placement_prefer": "10.0.0.1", "locality_wait": "none"}
    assert scene.where(scene.register("x", **asked)) == ["c"]
    scene.state.commands.locate_by(TOPOLOGY, scene.cluster.now_s)
    del scene.offers["c"]
    scene.sync(60)
    assert scene.where(scene.register("y", **asked)) == ["b"]


@pytest.fixture
def data(tmp_path: Path) -> Scene:
    """Provide two workers of which the one with the data is full."""
    scene = Scene(tmp_path, data={"host": "10.0.0.1", "memory_mb": H + 100}, other={"host": "10.0.0.2"})
    assert scene.where(scene.register("there", placement_prefer="10.0.0.1", deadline="100s")) == ["data"]
    return scene


def test_it_waits_for_a_worker_with_its_input_as_long_as_that_is_said(data: Scene) -> None:
    waits = data.register("waits", placement_prefer="10.0.0.1", locality_wait="5s")
    assert "(data)" in data.view(waits).reason
    goes = data.register("goes", placement_prefer="10.0.0.1", locality_wait="none")
    assert (data.where(waits), data.where(goes)) == ([], ["other"])
    data.sync(3)
    assert data.where(waits) == []
    data.sync(2)
    assert data.where(waits) == ["other"]
    [wait] = data.state.applications[waits].record.data_waits
    assert (wait.local, wait.waited_s >= 5) == (False, True)


def test_a_wait_ends_in_time_though_nothing_is_free_and_outlives_a_restart(tmp_path: Path) -> None:
    small = {"memory_mb": H + 100}
    scene = Scene(tmp_path, data={"host": "10.0.0.1", **small}, other={"host": "10.0.0.2", **small})
    scene.register("there", placement_prefer="10.0.0.1")
    waits = scene.register("waits", placement_prefer="10.0.0.1", locality_wait="5s")
    lower = scene.register("lower", priority="low", locality_wait="none")
    assert (scene.where(waits), scene.where(lower)) == ([], ["other"])
    scene.sync()
    assert "(data)" not in scene.view(waits).reason
    scene.cluster.restart()
    scene.sync(6)
    [wait] = scene.state.applications[waits].record.data_waits
    assert (wait.local, wait.waited_s >= 5) == (False, True)
    scene.end(lower)
    assert scene.where(waits) == ["other"]


def test_it_waits_for_its_input_once_and_never_for_workers_of_its_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path, data={"host": "10.0.0.1"}, b={"host": "10.0.0.2"}, c={"host": "10.0.0.3"})
    a = scene.register("a", 3, placement_prefer="10.0.0.1", locality_wait="30s")
    assert sorted(scene.where(a)) == ["b", "c", "data"]
    assert scene.state.applications[a].record.data_waits == []


def test_the_forecast_decides_whether_waiting_is_worth_it(data: Scene) -> None:
    # E = TT * S * K / t = 3 * 1 * 1 / 100: hopeless; with TT = 200 s it is 2
    at_once = data.register("at-once", placement_prefer="10.0.0.1")
    assert data.where(at_once) == ["other"]
    worth = data.register("worth", placement_prefer="10.0.0.1", locality_move="200s")
    assert data.where(worth) == []
    assert data.state.applications[worth].record.data_waits[0].expected == pytest.approx(2.0)


def test_workers_that_those_ahead_want_are_not_waited_for(data: Scene) -> None:
    data.state.commands.label("other", {"zone": "b"}, data.cluster.now_s)
    # it can only go to the worker with the data, and is ahead of the others
    data.register("ahead", placement_prefer="10.0.0.1", placement_labels="!zone")
    # E = 200 * 1 * (K - R) / 100 with K = R = 1; without those ahead it would be 2
    meant = data.register("meant", placement_prefer="10.0.0.1", locality_move="200s")
    assert data.where(meant) == ["other"]


def test_a_wait_for_data_ends_with_the_workers_that_have_it(data: Scene) -> None:
    waits = data.register("waits", placement_prefer="10.0.0.1", locality_wait="1h")
    assert data.where(waits) == []
    del data.offers["data"]
    data.sync(60)
    assert data.where(waits) == ["other"]
    assert data.state.applications[waits].record.data_waits[0].local is False


# ---------------------------------------------------------------- why


def test_every_worker_is_explained(tmp_path: Path) -> None:
    scene = Scene(tmp_path, w1={"labels": {"zone": "a"}}, w2={"labels": {"zone": "b"}}, w3={"labels": {"zone": "a"}})
    a = scene.register("a", placement_labels="zone=a")
    explained = scene.state.core.commands.explain(a, scene.cluster.now_s)
    assert (explained.policy, explained.wanted) == ("spread", 1)
    by_id = {worker.worker_id: worker for worker in explained.workers}
    assert by_id["w1"].executors == ("1",)
    assert [one.filter for one in by_id["w1"].refused] == ["one-each"]
    assert [one.filter for one in by_id["w2"].refused] == ["labels"]
    assert by_id["w3"].kept

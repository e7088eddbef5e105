"""Further workers for deadlines: the least number that is enough, no worker that would not help, and none for applications
that may not have any.

The profile is that of a run with 4 tasks of 2 core-seconds each, 3 s after its submission: 11 s on one worker of a core, 7 s
on two, 5 s on four. An application registers 2 s after its submission."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from controller.asks.user_limits import UserLimits
from controller.wire.driver import ExecutorWish
from placement.growth import Growth, Limits, StartWorker, WorkerType
from stage_model.errors import InfeasibleDeadline, RuntimeFailed
from tests.controller.master.test_growing import Provided, turn
from tests.fakes.cluster import report, sample
from tests.fakes.placed import Scene
from tests.fakes.refusals import refused

PROFILE = "app@app.py"


@pytest.fixture
def taught(tmp_path: Path) -> Scene:
    """Provide a worker of a core, and the profile."""
    scene = Scene(tmp_path, w1={})
    scene.cluster.finished_run()
    scene.sync()
    return scene


def grown_by(scene: Scene, limits: Limits, start_s: float = 1.0, usual: WorkerType | None = None) -> Provided:
    """Let workers be started, which is expected to take that long."""
    provider, growth = Provided(scene), Growth(limits, usual)
    scene.state.grow_by(growth, provider, scene.cluster.now_s)
    growth.start_s = start_s
    return provider


def late(scene: Scene) -> str:
    """Register an application whose deadline could be kept when it was admitted, and let its forecast be past the deadline
    for 5.5 s, until it is 8 s old; return its id."""
    job = scene.register("app", None, deadline="15s")
    scene.sync()
    assert scene.where(job) == ["w1"]
    forecast = sample(job, "1", 2.5, forecast_end_s=16.5)
    scene.cluster.worker("w1", report(job, "1"), samples=(forecast,))
    scene.sync(3)
    scene.cluster.now_s += 3
    return job


def test_an_application_waits_visibly_for_the_worker_that_its_deadline_needs(taught: Scene) -> None:
    provider = grown_by(taught, Limits())
    job = taught.register("app", None, deadline="9s")
    needs = "its deadline needs 1 further worker (1 cores, 1536 MiB), which takes about 1s to start"
    assert taught.view(job).reason == needs
    assert taught.state.core.commands.explain(job, taught.cluster.now_s).waiting == needs
    assert taught.state.applications[job].placement.waited_for == ""
    assert needs in taught.view(job).notices
    turn(taught, provider, 1)
    assert provider.asked == ["start grown-1 1 cores, 1536 MiB"]
    assert taught.where(job) == ["w1", "grown-1"]
    assert taught.view(job).reason == ""
    taught.sync(1)
    assert len(provider.asked) == 1


def test_as_many_workers_are_started_as_are_needed(taught: Scene) -> None:
    provider = grown_by(taught, Limits())
    job = taught.register("app", None, deadline="7s")
    turn(taught, provider, 3)  # with two of them it takes 7 s, and they start for one
    taught.sync(1)
    assert [asked.split()[1] for asked in provider.asked] == ["grown-1", "grown-2", "grown-3"]
    assert len(taught.where(job)) == 4


def test_a_plan_says_what_would_be_started_and_starts_nothing(taught: Scene) -> None:
    provider = grown_by(taught, Limits())
    plan = taught.cluster.plan(profile=PROFILE, deadline_s=9.0)
    assert (plan.feasible, plan.further_workers, plan.cluster_cores, plan.least_deadline_s) == (True, 1, 2.0, 8.0)
    assert "can be met with 1 further worker (1 cores, 1536 MiB), which takes about 1s to start" in plan.reason
    alone = taught.cluster.plan(profile=PROFILE, deadline_s=12.0)
    assert (alone.feasible, alone.further_workers, alone.cluster_cores) == (True, 0, 1.0)
    taught.sync(1)
    assert provider.asked == []


def test_a_usual_worker_is_asked_for_where_there_is_one(taught: Scene) -> None:
    grown_by(taught, Limits(), usual=WorkerType(2, 4096))
    # two slots on it and one on the other: 4 tasks take 4 s
    plan = taught.cluster.plan(profile=PROFILE, deadline_s=9.0)
    assert "1 further worker (2 cores, 4096 MiB)" in plan.reason


@pytest.mark.parametrize(
    ("limits", "start_s", "said"),
    [
        (Limits(workers=0), 1.0, ("no more workers may be started (--grow 0)", "accepted: 12s")),
        (Limits(cores=0.5), 1.0, ("it would take", "--grow-up-to 0.5 cores")),
        (Limits(workers=1), 1.0, ("with 1 further worker (1 cores, 1536 MiB) it would take 8s", "--grow 1", "accepted: 9s")),
        (Limits(), 30.0, ("with 4 further workers (1 cores, 1536 MiB) it would take 35s", "accepted: 12s")),
    ],
)
def test_what_no_more_workers_keep_is_refused(taught: Scene, limits: Limits, start_s: float, said: tuple[str, ...]) -> None:
    provider = grown_by(taught, limits, start_s)
    with refused(InfeasibleDeadline, "deadline 7s cannot be met", *said, "--force"):
        taught.register("app", None, deadline="7s")
    taught.sync(1)
    assert provider.asked == []


def test_settings_that_allow_no_further_executor_are_named(taught: Scene) -> None:
    grown_by(taught, Limits())
    with refused(InfeasibleDeadline, "its settings allow no executor on more workers", "accepted: 12s"):
        taught.register("app", 1, deadline="9s")
    assert "its settings allow" in taught.cluster.plan(profile=PROFILE, deadline_s=9.0, executors=1).reason


def test_no_worker_is_started_for_a_backfill(taught: Scene) -> None:
    provider = grown_by(taught, Limits())
    with refused(InfeasibleDeadline, "deadline 9s cannot be met"):
        taught.register("app", None, deadline="9s", priority="backfill")
    assert taught.cluster.plan(profile=PROFILE, deadline_s=9.0, priority=-1).feasible is False
    taught.sync(1)
    assert provider.asked == []


def test_no_worker_is_started_for_cores_over_the_share_of_a_user(taught: Scene) -> None:
    """The deadline takes 8 / 6 cores of two workers, and all cores of the present one."""
    taught.cluster.users = (UserLimits("me", os.getuid(), cores=1.2),)
    taught.cluster.restart()
    taught.sync()
    provider = grown_by(taught, Limits())
    with refused(InfeasibleDeadline, "takes 1.33 cores", "user me"):
        taught.register("app", None, deadline="9s")
    taught.sync(1)
    assert provider.asked == []


def test_a_worker_on_its_way_counts_for_the_next_deadline(taught: Scene) -> None:
    provider = grown_by(taught, Limits(workers=1))
    taught.register("app", None, deadline="9s")
    asked: dict[str, Any] = {"profile": PROFILE, "deadline_s": 9.0, "priority": 100}
    assert taught.cluster.plan(**asked).further_workers == 1  # it is wanted
    provider.done.clear()
    taught.state.tick(taught.cluster.now_s)
    assert provider.done.wait(120)
    assert taught.cluster.plan(**asked).further_workers == 1  # it was asked for
    taught.state.tick(taught.cluster.now_s)
    assert len(provider.asked) == 1


def test_a_running_application_whose_forecast_is_past_its_deadline_asks_once(taught: Scene) -> None:
    provider = grown_by(taught, Limits())
    job = late(taught)
    assert provider.asked == []
    turn(taught, provider, 1)
    assert provider.asked == ["start grown-1 1 cores, 1536 MiB"]
    assert any("needs 1 further worker" in line for line in taught.view(job).notices)
    assert taught.where(job) == ["w1", "grown-1"]
    taught.sync(1)
    taught.sync(1)
    assert len(provider.asked) == 1


def test_a_worker_that_would_come_after_the_deadline_is_not_asked_for_again(taught: Scene) -> None:
    provider = grown_by(taught, Limits())
    provider.refuses = True
    job = taught.register("app", None, deadline="9s")
    turn(taught, provider, 2)
    assert [asked.split()[0] for asked in provider.asked] == ["start", "end"]
    assert "its deadline needs" in taught.view(job).reason
    taught.sync(31)
    taught.sync()
    assert (len(provider.asked), taught.view(job).reason) == (2, "")


class TestAWorkerThatHasJoined:
    """The only worker has memory for one application, which runs there; others wait."""

    @pytest.fixture
    def full(self, tmp_path: Path) -> Scene:
        scene = Scene(tmp_path, w1={"memory_mb": 2000})
        scene.cluster.finished_run()
        scene.sync()
        running = scene.register("running")
        assert scene.where(running) == ["w1"]
        return scene

    @pytest.mark.parametrize(("priority", "overtakes"), [("low", False), ("normal", False), ("high", True)])
    def test_it_is_kept_for_the_deadline_that_it_was_started_for(self, full: Scene, priority: str, overtakes: bool) -> None:
        provider = grown_by(full, Limits(workers=1))
        waiting = full.register("waiting", None, priority=priority)
        job = full.register("app", None, deadline="9s")
        turn(full, provider, 1)
        assert full.where(waiting if overtakes else job) == ["grown-1"]
        assert full.where(job if overtakes else waiting) == []
        full.end(waiting if overtakes else job)
        assert full.where(job if overtakes else waiting) == ["grown-1"]

    def test_each_deadline_gets_a_worker_of_its_own(self, full: Scene) -> None:
        provider = grown_by(full, Limits(workers=2))
        full.register("waiting", None)
        first = full.register("app", None, deadline="12s")
        second = full.register("second", None, deadline="12s", profile=PROFILE)
        turn(full, provider, 2)
        assert [full.where(first), full.where(second)] == [["grown-1"], ["grown-2"]]

    def test_a_deadline_does_not_count_on_a_worker_where_it_has_no_room(self, full: Scene) -> None:
        """The job takes 7 s on two workers and 11 s on one."""
        provider = grown_by(full, Limits())
        job = full.register("app", None, deadline="9s")
        turn(full, provider, 2)
        assert full.where(job) == ["grown-1", "grown-2"]
        full.sync(1)
        assert len(provider.asked) == 2

    def test_a_deadline_waits_for_room_where_no_further_worker_would_help(self, full: Scene) -> None:
        provider = grown_by(full, Limits(), start_s=30.0)
        job = full.register("app", None, deadline="12s")
        full.sync(1)
        assert (provider.asked, full.where(job)) == ([], [])
        assert "its deadline needs" not in full.view(job).reason

    @pytest.mark.parametrize("priority", ["normal", "high"])
    def test_a_worker_on_its_way_for_an_executor_that_fits_on_no_other_is_not_counted_on(
        self, full: Scene, priority: str
    ) -> None:
        provider = grown_by(full, Limits(workers=2))
        large = full.register("large", placement_labels="disk=ssd", priority=priority)
        provider.done.clear()
        full.state.tick(full.cluster.now_s)
        assert provider.done.wait(120)
        job = full.register("app", None, deadline="9s")
        provider.done.clear()
        full.state.tick(full.cluster.now_s)
        assert provider.done.wait(120)
        full.sync()
        full.sync(1)
        assert [asked.split()[1] for asked in provider.asked] == ["grown-1", "grown-2"]
        assert [full.where(large), full.where(job)] == [["grown-1"], ["grown-2"]]

    @pytest.mark.parametrize("ends", [True, False])
    def test_others_get_it_once_the_application_has_ended_or_wants_no_executor(self, full: Scene, ends: bool) -> None:
        provider = grown_by(full, Limits(workers=1))
        waiting = full.register("waiting", None)
        job = full.register("app", None, deadline="9s")
        provider.done.clear()
        full.state.tick(full.cluster.now_s)
        assert provider.done.wait(120)
        if ends:
            full.cluster.kill(job)
        else:
            full.cluster.driver(job, wanted={"0": ExecutorWish(count=0)})
        full.sync()
        full.sync(1)
        assert full.where(waiting) == ["grown-1"]


@pytest.mark.parametrize(
    ("limits", "start_s", "why"),
    [
        (
            Limits(),
            10.0,
            "4 further workers (1 cores, 1536 MiB), which take about 10s to start, would not keep it, and no more workers",
        ),
        (Limits(workers=0), 1.0, "no more workers may be started (--grow 0)"),
    ],
)
def test_a_running_application_that_no_further_workers_rescue_asks_for_none_and_learns_why(
    taught: Scene, limits: Limits, start_s: float, why: str
) -> None:
    provider = grown_by(taught, limits, start_s)
    job = late(taught)
    taught.sync()
    assert (provider.asked, taught.view(job).reason) == ([], "")
    [line] = [one for one in taught.view(job).notices if "no further worker is started for its deadline" in one]
    assert why in line
    taught.state.growing.growth.start_s += 5  # the sentence would be another one
    taught.sync(31)
    taught.sync()
    assert [one for one in taught.view(job).notices if "no further worker is started" in one] == [line]


def test_a_deadline_that_is_taken_back_no_longer_wants_a_worker(taught: Scene) -> None:
    provider = grown_by(taught, Limits())
    job = taught.register("app", None, deadline="9s")
    taught.cluster.change(job, no_deadline=True)
    taught.sync()
    taught.sync()
    assert (provider.asked, taught.view(job).reason) == ([], "")


def test_the_time_that_a_worker_took_to_start_survives_a_restart(taught: Scene) -> None:
    provider = grown_by(taught, Limits(cores=1))
    taught.register("app", None, deadline="9s")
    taught.state.tick(taught.cluster.now_s)
    assert provider.done.wait(120)
    taught.sync(7)
    taught.cluster.restart()
    again = Growth(Limits())
    taught.state.grow_by(again, provider, taught.cluster.now_s)
    assert again.start_s == pytest.approx(7)


class TestTheNextDeadline:
    """The first deadline, 9 s, is promised on two workers, of which one is still to come: it takes 1.33 to 1.6 cores, so the
    next job, which takes 11 s with all of the present worker, gets at most two thirds of it until the first has ended."""

    def test_it_gets_no_cores_that_a_deadline_with_a_further_worker_was_promised(self, taught: Scene) -> None:
        grown_by(taught, Limits(workers=1))
        taught.register("app", None, deadline="9s")
        with refused(InfeasibleDeadline, "deadline 12s cannot be met", "alongside 1 promised", "--grow 1"):
            taught.register("second", None, deadline="12s", profile=PROFILE)

    def test_it_asks_for_a_worker_of_its_own(self, taught: Scene) -> None:
        provider = grown_by(taught, Limits())
        taught.register("app", None, deadline="9s")
        second = taught.register("second", None, deadline="12s", profile=PROFILE)
        assert any("its deadline needs 2 further workers" in line for line in taught.view(second).notices)
        turn(taught, provider, 2)
        assert [asked.split()[1] for asked in provider.asked] == ["grown-1", "grown-2"]

    def test_it_counts_on_all_workers_once_they_have_joined(self, taught: Scene) -> None:
        provider = grown_by(taught, Limits(workers=1))
        first = taught.register("app", None, deadline="9s")
        assert taught.cluster.plan(profile=PROFILE, deadline_s=12.0).feasible is False
        turn(taught, provider, 1)
        assert taught.where(first) == ["w1", "grown-1"]
        plan = taught.cluster.plan(profile=PROFILE, deadline_s=12.0)
        assert (plan.feasible, plan.further_workers, plan.cluster_cores) == (True, 0, 2.0)

    def test_it_gets_the_cores_if_the_worker_cannot_be_started(self, taught: Scene) -> None:
        provider = grown_by(taught, Limits(workers=1))
        provider.refuses = True
        first = taught.register("app", None, deadline="9s")
        turn(taught, provider, 2)
        said = "its deadline counts only on the workers that are there, because a further worker could not be started"
        assert said in taught.view(first).notices
        assert taught.cluster.plan(profile=PROFILE, deadline_s=12.0).feasible is True

    def test_an_application_that_has_ended_learns_of_no_worker_that_cannot_be_started(self, taught: Scene) -> None:
        grown_by(taught, Limits(workers=1))
        first = taught.register("app", None, deadline="9s")
        kind = taught.state.applications[first].placement.further.kind
        taught.cluster.kill(first)
        before = taught.view(first).notices
        taught.state.growing.not_started(StartWorker("grown-1", kind), RuntimeFailed("no room"), taught.cluster.now_s)
        assert taught.view(first).notices == before

    @pytest.mark.parametrize(("deadline", "limits"), [("9s", Limits()), ("10s", Limits(join_s=5.0))])
    def test_it_gets_the_cores_if_the_worker_comes_too_late(self, taught: Scene, deadline: str, limits: Limits) -> None:
        """The worker is given up when a worker that takes a second would come after the deadline, or after five seconds."""
        provider = grown_by(taught, limits)
        first = taught.register("app", None, deadline=deadline)
        taught.state.tick(taught.cluster.now_s)
        assert provider.done.wait(120)
        del taught.offers["grown-1"]
        taught.sync(6)
        said = "its deadline counts only on the workers that are there, because a further worker has not joined in time"
        assert said in taught.view(first).notices
        assert taught.cluster.plan(profile=PROFILE, deadline_s=12.0).feasible is True

    def test_it_takes_no_cores_of_its_user_that_were_promised_with_a_further_worker(self, taught: Scene) -> None:
        taught.cluster.users = (UserLimits("me", os.getuid(), cores=1.4),)
        taught.cluster.restart()
        taught.sync()
        grown_by(taught, Limits())
        taught.register("app", None, deadline="9s")
        with refused(InfeasibleDeadline, "1.33 of the 1.40 of user me are promised"):
            taught.register("second", None, deadline="30s", profile=PROFILE)

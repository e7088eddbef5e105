"""Limits of users on a master: what is refused at submission, at `set` and for single jobs, what waits, and what is shown.

The profile of `finished_run` is 8 core-seconds after 3 s of start-up, in tasks that run one after the other; an application
registers 2 s after its submission. So a deadline of D seconds takes 8 / (D - 3) cores."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.asks.user_limits import UserLimits
from controller.master.core.application import Application
from controller.wire.command import UserShare
from controller.wire.driver import DriverSync, ExecutorWish, Sequenced
from stage_model.errors import BadInput, InfeasibleDeadline
from stage_model.history.events import JobStart
from tests.fakes.cluster import FakeCluster, answered, report
from tests.fakes.refusals import refused

ME, OTHER = os.getuid(), 54_321
EXECUTOR_MB = 1408
"""MiB of an executor that asks for nothing: 1024 of heap and 384 of overhead."""


def cluster_with(path: Path, user: str = "me", uid: int | None = ME, **limits: Any) -> FakeCluster:
    return FakeCluster(path, users=(UserLimits(user, uid, **limits),))


def submitted(cluster: FakeCluster, name: str, deadline: str = "", uid: int = ME, **settings: str) -> Application:
    conf = {f"spark.pace.{key}": value for key, value in {"deadline": deadline, **settings}.items() if value}
    application = cluster.registered(conf=conf, instance=name, uid=uid)
    cluster.driver(application.id)
    return application


def started(cluster: FakeCluster, *applications: Application) -> list[bool]:
    cluster.tick()
    return [bool(list(one.live_executors())) for one in applications]


class TestPriority:
    def test_one_over_the_highest_is_refused_at_submission_and_by_set_and_leaves_nothing(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, priority=60)
        with refused(BadInput, "priority 100", "user me", "60"):
            submitted(cluster, "first", priority="high")
        assert not cluster.state.applications
        application = submitted(cluster, "second", priority="60")
        with refused(BadInput, "priority 61", "user me", "60"):
            cluster.change(application.id, priority="61", deadline_s=100.0)
        assert (application.options.priority, application.options.deadline_s, application.record.changes) == (60, None, [])
        cluster.change(application.id, priority="59")
        assert application.options.priority == 59
        assert submitted(cluster, "third", uid=OTHER, priority="high").options.priority == 100

    def test_an_application_that_names_none_has_the_highest_below_normal(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, priority=20)
        assert submitted(cluster, "first").options.priority == 20
        with refused(BadInput, "priority 50", "20"):
            submitted(cluster, "second", priority="normal")

    def test_a_driver_that_names_an_id_is_not_refused_and_has_at_most_the_highest(self, tmp_path: Path) -> None:
        cluster, conf = cluster_with(tmp_path, priority=60), {"spark.pace.priority": "high"}
        outlived = cluster.registered(conf=conf, application_id="pace-20260101-000000-aaaaaa")
        assert outlived.options.priority == 60

    def test_a_plan_refuses_it_where_the_user_is_known(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, priority=20)
        cluster.worker("w1")
        with refused(BadInput, "priority 30", "20"):
            cluster.plan(uid=ME, priority=30)
        assert not cluster.plan(priority=30).known
        assert not cluster.plan(uid=ME).known, "normal priority is also that of a job that names none"


class TestCores:
    def test_a_deadline_over_the_cores_is_refused_at_submission_and_by_set_whatever_is_free(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, cores=0.8)
        cluster.finished_run()
        submitted(cluster, "first", "19s")  # 0.5 cores
        for force in ("", "true"):
            with refused(InfeasibleDeadline, "0.40", "0.50 of the 0.80", "user me", "0.30 are enough"):
                submitted(cluster, "second", "23s", force=force)
        with refused(InfeasibleDeadline, "0.50 of the 0.80"):
            cluster.plan(uid=ME, profile="app@app.py", deadline_s=23.0)
        assert cluster.plan(profile="app@app.py", deadline_s=23.0).feasible, "the cluster has room for it"
        third = submitted(cluster, "third", "43s")  # 0.2 cores
        for by_force in (False, True):
            with refused(InfeasibleDeadline, "0.70 of the 0.80", "0.10 are enough"):
                cluster.change(third.id, deadline_s=23.0, force=by_force)
        assert (third.options.deadline_s, third.record.changes) == (43.0, [])
        cluster.change(third.id, deadline_s=33.0)
        assert third.options.deadline_s == 33.0
        assert submitted(cluster, "fourth").options.deadline_s is None, "nothing is promised without a deadline"

    def test_a_deadline_of_a_watched_application_is_not_refused(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, cores=0.1)
        cluster.finished_run()
        with refused(InfeasibleDeadline, "0.50", "0.10"):
            submitted(cluster, "first", "19s")
        assert cluster.plan(uid=ME, profile="app@app.py", deadline_s=19.0, observe=True).known
        assert submitted(cluster, "second", "19s", observe="true").options.deadline_s == 19.0
        cluster.state.admission.core.observe = True
        assert cluster.plan(uid=ME, profile="app@app.py", deadline_s=19.0, submits="app").feasible is None

    def test_what_others_have_does_not_count(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, cores=0.45)
        cluster.finished_run()
        submitted(cluster, "first", "19s", uid=OTHER)
        assert submitted(cluster, "second", "23s").options.deadline_s == 23.0

    def test_a_lower_limit_leaves_promises_and_refuses_more(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        cluster = cluster_with(tmp_path, cores=0.8)
        cluster.finished_run()
        first = submitted(cluster, "first", "19s").id
        cluster.users = (UserLimits("me", ME, cores=0.3),)
        with caplog.at_level(logging.WARNING, "sparkpace.master"):
            cluster.restart()
        [said] = [record.getMessage() for record in caplog.records if "user me" in record.getMessage()]
        assert "0.50 of 0.30 cores" in said
        cluster.worker("w1", report(first, "1"))
        assert cluster.state.applications[first].options.deadline_s == 19.0
        with refused(InfeasibleDeadline, "0.50 of the 0.30"):
            submitted(cluster, "second", "1000s")
        cluster.change(first, deadline_s=23.0)  # 0.4 cores: fewer than before
        assert cluster.state.applications[first].options.deadline_s == 23.0


class TestSingleJobs:
    JOB = JobStart(job=0, time_ms=1000, properties={"spark.pace.deadline": "60s", "spark.pace.priority": "high"})

    @pytest.mark.parametrize(("highest", "begun"), [(60, []), (100, ["job 0"])])
    def test_one_over_the_highest_priority_has_no_deadline(self, tmp_path: Path, highest: int, begun: list[str]) -> None:
        cluster = cluster_with(tmp_path, priority=highest)
        application = submitted(cluster, "first")
        cluster.driver(application.id, self.JOB)
        assert list(application.actions.by_key) == begun
        said = [line for line in application.notices.lines if line.startswith("job 0 goes on without a deadline")]
        assert [("priority 100" in line, "user me" in line) for line in said] == ([] if begun else [(True, True)])
        cluster.users = ()
        cluster.restart()
        assert list(cluster.state.applications[application.id].actions.by_key) == begun

    def test_one_is_judged_however_its_setting_is_written(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, priority=60)
        application = submitted(cluster, "first")
        raw = msgspec.json.encode(self.JOB).replace(b"spark.pace.deadline", b"spark\\u002epace.deadline")
        sync = DriverSync(instance="driver", events=(Sequenced(seq=1, event=msgspec.Raw(raw)),), wanted={"0": ExecutorWish()})
        answered(cluster.state.drivers.sync(application.id, sync, cluster.clock))
        assert list(application.actions.by_key) == []
        assert [line for line in application.notices.lines if "job 0" in line and "priority 100" in line]

    def test_one_has_no_deadline_while_more_than_the_cores_are_promised(self, cluster: FakeCluster) -> None:
        cluster.finished_run()
        first = submitted(cluster, "first", "19s")
        cluster.users = (UserLimits("me", ME, cores=0.3),)
        cluster.restart()
        cluster.driver(first.id, self.JOB)
        application = cluster.state.applications[first.id]
        assert list(application.actions.by_key) == []
        assert [line for line in application.notices.lines if "job 0" in line and "0.50 of the 0.30" in line]


class TestWaiting:
    def test_an_application_over_the_most_waits_and_keeps_no_one_out(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, applications=1)
        cluster.worker("w1")
        first, second = submitted(cluster, "first"), submitted(cluster, "second", priority="high")
        other = submitted(cluster, "other", uid=OTHER)
        assert started(cluster, first, second, other) == [True, False, True]
        view = cluster.view(second.id)
        assert (view.state, view.queue_position) == ("waiting", 1)
        assert "user me" in view.reason
        assert "(1)" in view.reason
        cluster.kill(first.id)
        assert started(cluster, second) == [True]

    def test_executors_wait_for_the_memory_of_their_user(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, memory_mb=2 * EXECUTOR_MB + 100)
        for worker in ("w1", "w2", "w3"):
            cluster.worker(worker)
        first, second = submitted(cluster, "first"), submitted(cluster, "second", priority="high")
        other = submitted(cluster, "other", uid=OTHER)
        assert started(cluster, first, second, other) == [True, False, True]
        counts = [len(list(one.live_executors())) for one in (first, other)]
        assert counts == [2, 3]
        for waiting in (first, second):
            assert f"{2 * EXECUTOR_MB} of {2 * EXECUTOR_MB + 100} MiB" in cluster.view(waiting.id).reason
        cluster.kill(first.id)
        assert started(cluster, second) == [True]

    def test_one_that_waits_for_its_user_to_have_less_wants_no_further_worker(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, applications=1)
        both = submitted(cluster, "first"), submitted(cluster, "second")
        assert started(cluster, *both) == [False, False]
        assert [one.placement.infeasible is None for one in both] == [False, False]
        cluster.worker("w1")
        assert started(cluster, *both) == [True, False]
        assert [one.placement.infeasible is None for one in both] == [True, True]

    def test_one_over_the_memory_keeps_no_worker_on_which_others_ended_for_it(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, memory_mb=EXECUTOR_MB)
        cluster.worker("w1")
        first, second = submitted(cluster, "first"), submitted(cluster, "second", priority="high")
        assert started(cluster, first, second) == [True, False]
        second.placement.evicting.add("w2")
        cluster.worker("w2")
        other = submitted(cluster, "other", uid=OTHER)
        assert started(cluster, second, other) == [False, True]
        assert "w2" in {executor.record.worker_id for executor in other.live_executors()}

    def test_one_that_ran_and_has_no_memory_left_keeps_no_one_out_either(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, memory_mb=EXECUTOR_MB)
        cluster.worker("w1")
        first = submitted(cluster, "first")
        cluster.worker("w1", report(first.id, "1"))
        cluster.driver(first.id, wanted={"0": ExecutorWish(count=0)}, killed=("1",))
        cluster.worker("w1", report(first.id, "1", "exited", exit_code=0))
        second = submitted(cluster, "second")
        assert started(cluster, second) == [True]
        cluster.driver(first.id, wanted={"0": ExecutorWish(count=1)}, killed=("1",))
        other = submitted(cluster, "other", uid=OTHER)
        assert started(cluster, first, other) == [False, True]
        view = cluster.view(first.id)
        assert view.queue_position == 1
        assert f"{EXECUTOR_MB} of {EXECUTOR_MB} MiB" in view.reason

    def test_an_executor_larger_than_the_memory_of_its_user_is_refused(self, tmp_path: Path) -> None:
        cluster = cluster_with(tmp_path, memory_mb=EXECUTOR_MB - 1)
        cluster.worker("w1")
        with refused(BadInput, f"{EXECUTOR_MB} MiB", f"{EXECUTOR_MB - 1} MiB", "user me"):
            submitted(cluster, "first")
        assert not cluster.state.applications


def test_the_default_counts_for_each_user_without_limits_of_its_own(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, users=(UserLimits("me", ME, priority=100), UserLimits("default", priority=0)))
    assert submitted(cluster, "first", priority="high").options.priority == 100
    for uid in (OTHER, OTHER + 1):
        with refused(BadInput, "priority 1", f"user {uid}"):
            submitted(cluster, f"of {uid}", uid=uid, priority="1")


def test_a_view_shows_the_share_of_its_user_until_it_has_ended(tmp_path: Path) -> None:
    cluster = cluster_with(tmp_path, cores=0.8, applications=3)
    done = cluster.finished_run()
    first, other = submitted(cluster, "first", "19s"), submitted(cluster, "other", uid=OTHER)
    assert cluster.view(first.id).share == UserShare(
        user="me", cores=0.5, most_cores=0.8, memory_mb=EXECUTOR_MB, applications=1, most_applications=3
    )
    assert (cluster.view(other.id).share, cluster.view(done).share) == (None, None)

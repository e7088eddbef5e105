"""Workers that do not report: what people learn and when, what plans count on, which executors are given up, by examples in
virtual time. What must always hold is `tests/properties/test_silence`'s."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

from controller.master.core.application import Application
from controller.master.core.core import ClusterOptions
from controller.master.core.lifecycle import SILENCE_S
from controller.master.core.silence import STOOD_STILL_S
from controller.master.core.workers import STALE_S
from controller.wire.driver import ExecutorWish
from controller.wire.worker import WorkerReply
from tests.controller.master.core import test_attached as attached
from tests.fakes.cluster import FakeCluster, one_stage_run, report, sample, use
from tests.fakes.refusals import assert_names
from tests.properties.test_plan_cache import taught

LOST_S = ClusterOptions().lost_after_s
ELSEWHERE: dict[str, Any] = {"boot_id": "another host", "uid": 1000}


class Hosts:
    """A master with workers, one executor on each, of one application, whose driver reports unless it is `mute`."""

    def __init__(self, cluster: FakeCluster, *workers: str, **registered: Any) -> None:
        self.cluster, self.workers, self.mute = cluster, workers, False
        self.boots: dict[str, str] = {}
        """Boots of workers that are on other hosts than the master."""
        self.replies: dict[str, WorkerReply] = {}
        for worker in workers:
            cluster.worker(worker)
        self.job = cluster.register(wanted={"0": ExecutorWish(count=len(workers))}, **registered)
        cluster.now_s = math.ceil(cluster.now_s)
        self.pass_by(1.0)

    def pass_by(self, seconds: float, *silent: str) -> None:
        """Let time pass, in which all but the `silent` workers report twice a second and do what the master asks."""
        until_s = self.cluster.now_s + seconds
        while self.cluster.now_s < until_s:
            self.cluster.now_s += 0.5
            for worker in set(self.workers) - set(silent):
                self.reports(worker)
            if not self.mute:
                self.cluster.driver(self.job, wanted={"0": ExecutorWish(count=len(self.workers))})
            self.cluster.tick()

    def reports(self, worker: str) -> WorkerReply:
        specs = self.cluster.state.core.agents.desired(worker, self.cluster.now_s).executors
        running = (report(one.application_id, one.executor_id) for one in specs)
        self.replies[worker] = self.cluster.worker(worker, *running, boot=self.boots.get(worker, ""))
        return self.replies[worker]

    def on(self, worker: str) -> str:
        """Return the id of the live executor of the worker."""
        [found] = [e for e in self.application.live_executors() if e.record.worker_id == worker]
        return found.record.executor_id

    def gone(self) -> list[str]:
        """Return the executors that the driver learns are gone."""
        return [gone.executor_id for gone in self.cluster.driver(self.job).gone]

    @property
    def application(self) -> Application:
        return self.cluster.state.applications[self.job]

    @property
    def said(self) -> list[str]:
        """Lines for the terminal about workers and executors."""
        return [line for line in self.application.notices.lines if "worker" in line]

    def silence(self, worker: str) -> str:
        views = self.cluster.state.workers.views(self.cluster.now_s)
        return next(view.silence for view in views if view.worker_id == worker)


@pytest.fixture
def hosts(cluster: FakeCluster) -> Hosts:
    return Hosts(cluster, "w1", "w2")


@pytest.fixture
def elsewhere(cluster: FakeCluster) -> Hosts:
    """Provide hosts whose application has its driver on another one."""
    return Hosts(cluster, "w1", "w2", **ELSEWHERE)


def test_a_cut_of_five_seconds_changes_nothing(hosts: Hosts, cluster: FakeCluster) -> None:
    before = cluster.state.workers.capacity(hosts.application, cluster.now_s)
    hosts.pass_by(5.0, "w2")
    assert cluster.state.workers.capacity(hosts.application, cluster.now_s) == before
    hosts.pass_by(5.0)
    assert (hosts.said, hosts.silence("w2")) == ([], "")
    assert (hosts.on("w1"), hosts.on("w2")) == ("1", "2")


def test_a_cut_of_25_seconds_is_said_and_loses_nothing(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    hosts = Hosts(cluster, "w1", "w2")
    with caplog.at_level(logging.WARNING, "sparkpace.master"):
        hosts.pass_by(25.0, "w2")
    assert_names(hosts.silence("w2"), "worker w2", "25s", "30s")
    [line] = [line for line in caplog.messages if "w2" in line]
    assert_names(line, "worker w2", "10s", "30s")
    [notice] = hosts.said
    assert_names(notice, "worker w2", "10s", "30s", "executor 2")
    hosts.pass_by(1.0)
    assert hosts.silence("w2") == ""
    assert_names(hosts.said[-1], "worker w2", "again", "executor 2")
    assert (hosts.on("w1"), hosts.on("w2")) == ("1", "2")
    assert cluster.driver(hosts.job).gone == ()
    assert hosts.replies["w2"].desired.stopped == ()


def test_each_cut_is_said(hosts: Hosts) -> None:
    for _ in range(3):
        hosts.pass_by(STALE_S + 1, "w2")
        hosts.pass_by(5.0)
    assert len(hosts.said) == 6


def test_a_lost_workers_executors_are_replaced(hosts: Hosts, cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.worker("w3")
    wish = {"0": ExecutorWish(count=2)}
    cluster.driver(hosts.job, wanted=wish)
    for _ in range(70):
        cluster.now_s += 0.5
        for worker in ("w1", "w3"):
            hosts.reports(worker)
        gone = cluster.driver(hosts.job, wanted=wish).gone
        cluster.tick()
        if gone:
            break
    assert cluster.now_s - cluster.state.workers.by_id["w2"].seen_s == pytest.approx(LOST_S, abs=1.0)
    [lost] = gone
    assert (lost.executor_id, lost.exit_code, lost.planned, lost.by_application) == ("2", None, False, False)
    assert_names(lost.reason, "worker w2", "30s")
    assert hosts.on("w3") == "3"
    assert_names(hosts.said[-1], "executor 2", "worker w2")
    assert [line for line in caplog.messages if "worker w2" in line and "it is lost" in line]
    assert (hosts.application.placement.lost, hosts.application.placement.failures_in_a_row) == (1, 0)


def test_a_worker_that_never_reports_to_the_next_master_is_lost_from_its_start_on(hosts: Hosts, cluster: FakeCluster) -> None:
    cluster.state.store.close()
    cluster.restart()
    hosts.pass_by(LOST_S - 1, "w2")
    assert hosts.on("w2") == "2"
    hosts.pass_by(2.0, "w2")
    assert hosts.gone() == ["2"]


def test_a_master_that_stood_still_gives_no_one_up(hosts: Hosts, cluster: FakeCluster) -> None:
    cluster.tick(LOST_S + STOOD_STILL_S)
    hosts.pass_by(STALE_S - 1, "w1", "w2")
    assert hosts.said == []
    hosts.pass_by(1.0)
    assert (hosts.on("w1"), hosts.on("w2")) == ("1", "2")


def test_where_no_worker_reports_none_is_lost(hosts: Hosts, cluster: FakeCluster) -> None:
    before = cluster.state.workers.capacity(hosts.application, cluster.now_s)
    hosts.pass_by(10 * LOST_S, "w1", "w2")
    assert_names(hosts.silence("w2"), "worker w2", "5m", "any other")
    assert cluster.state.workers.capacity(hosts.application, cluster.now_s) == before
    assert (hosts.on("w1"), hosts.on("w2")) == ("1", "2")
    hosts.pass_by(1.0, "w2")
    assert [e.record.executor_id for e in hosts.application.live_executors()] == ["1"]


def test_executors_of_a_silent_driver_are_not_given_up_because_others_would_not_reach_it(elsewhere: Hosts) -> None:
    elsewhere.mute = True
    elsewhere.pass_by(LOST_S + 5, "w2")
    assert elsewhere.on("w2") == "2"
    elsewhere.pass_by(1.0)
    assert elsewhere.on("w2") == "2", "both are back"
    elsewhere.pass_by(LOST_S, "w2")
    elsewhere.mute = False
    elsewhere.pass_by(1.0, "w2")
    assert elsewhere.gone() == ["2"]


def test_a_driver_on_a_lost_host_is_gone_when_the_last_word_of_its_executors_is_old(cluster: FakeCluster) -> None:
    hosts = Hosts(cluster, "w1", **ELSEWHERE)
    cluster.worker("w2")
    hosts.workers, hosts.mute = ("w1", "w2"), True
    hosts.pass_by(SILENCE_S - 1, "w1")
    assert not hosts.application.ended
    hosts.pass_by(2.0, "w1")
    assert cluster.view(hosts.job).outcome == "driver_died"
    assert cluster.worker("w1", report(hosts.job, "1")).desired.stopped == (f"{hosts.job}/1",)


def test_a_driver_on_a_lost_host_is_gone_although_an_executor_elsewhere_still_waits_for_it(elsewhere: Hosts) -> None:
    elsewhere.boots["w2"] = ELSEWHERE["boot_id"]
    elsewhere.pass_by(1.0)
    elsewhere.mute = True
    elsewhere.pass_by(SILENCE_S - 1, "w2")
    assert not elsewhere.application.ended
    elsewhere.pass_by(2.0, "w2")
    assert elsewhere.cluster.view(elsewhere.job).outcome == "driver_died"


def test_a_driver_lives_as_long_as_one_of_its_executors_is_reported(elsewhere: Hosts) -> None:
    elsewhere.mute = True
    elsewhere.pass_by(2 * SILENCE_S, "w2")
    assert not elsewhere.application.ended


def test_plans_count_only_on_workers_that_report(cluster: FakeCluster) -> None:
    cluster.state.profiles.add(taught())
    hosts = Hosts(cluster, "w1", "w2", conf={"spark.pace.deadline": "10min"})
    cluster.driver(hosts.job, *one_stage_run(1000)[:2], wanted={"0": ExecutorWish(count=2)})
    seen = use(0, 3.0, done=2, running=1, records=25.0, records_running=5.0, cpu_running_core_s=1.0, speed=0.5)
    late = sample(hosts.job, "2", 3.0, forecast_end_s=500.0)
    cluster.worker("w2", report(hosts.job, "2", stages=(seen,), quota_cores=0.7), samples=(late,))
    [plan] = hosts.reports("w1").desired.applications
    assert (plan.cores, plan.slots, plan.stages[0].elsewhere_running) == (2.0, 2, 1)
    assert (cluster.view(hosts.job).executors, cluster.view(hosts.job).forecast_end_s) == (2, 500.0)
    hosts.pass_by(STALE_S + 1, "w2")
    [plan] = hosts.replies["w1"].desired.applications
    assert (plan.cores, plan.slots, plan.executors) == (1.0, 1, 1)
    assert (plan.stages[0].elsewhere_running, plan.stages[0].elsewhere_done) == (0, 2)
    view = cluster.view(hosts.job)
    assert (view.executors, view.forecast_end_s, view.granted_cores) == (1, None, 0.0)
    hosts.pass_by(1.0)
    [plan] = hosts.replies["w1"].desired.applications
    assert (plan.cores, plan.slots) == (2.0, 2)


def test_executors_of_another_manager_are_its_own_to_give_up(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    attached.desired(cluster, "w1")
    job = attached.attach(cluster)
    for _ in range(int(LOST_S) + 5):
        cluster.now_s += 1
        cluster.worker("w2")
        attached.tell(cluster, job, attached.executor("0"))
        cluster.tick()
    executor = cluster.state.applications[job].executors["0"]
    assert (executor.live, executor.present) == (True, False)
    silent = cluster.state.workers.by_id["w1"]
    assert_names(silent.silence, "worker w1", "go on")
    assert silent.lost
    assert len([line for line in caplog.messages if "worker w1 has not reported" in line]) == 1


def test_a_worker_gone_before_the_masters_start_gets_no_line(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.worker("old")
    cluster.state.store.close()
    cluster.restart()
    Hosts(cluster, "w1").pass_by(LOST_S + 5)
    assert [line for line in caplog.messages if "has not reported" in line] == []


def test_executors_of_a_worker_that_dies_while_it_leaves_are_given_up(hosts: Hosts, cluster: FakeCluster) -> None:
    cluster.state.commands.end_worker("w2", cluster.now_s)
    hosts.pass_by(STALE_S + 1, "w2")
    assert hosts.application.executors["2"].silent
    hosts.pass_by(LOST_S, "w2")
    assert hosts.gone() == ["2"]


def test_a_worker_that_has_left_is_forgotten_once_nothing_lives_there(cluster: FakeCluster) -> None:
    boot = "of the second machine"
    cluster.worker("m2", boot=boot)
    cluster.state.commands.label("m2", {"zone": "a"}, cluster.now_s)
    cluster.state.commands.end_worker("m2", cluster.now_s)
    cluster.worker("m2", boot=boot, leaves=True)
    cluster.tick(1.0)
    assert "m2" in cluster.state.workers.by_id, "a farewell may come twice"
    cluster.tick(STALE_S)
    for _ in range(2):
        assert not cluster.state.workers.by_id
        assert not cluster.state.workers.labels
        cluster.state.store.close()
        cluster.restart()


def test_a_worker_that_left_with_executors_is_forgotten_when_they_are_given_up(hosts: Hosts, cluster: FakeCluster) -> None:
    cluster.state.commands.end_worker("w2", cluster.now_s)
    cluster.worker("w2", report(hosts.job, "2"), leaves=True)
    hosts.pass_by(LOST_S - 1, "w2")
    assert hosts.on("w2") == "2"
    hosts.pass_by(2.0, "w2")
    assert hosts.gone() == ["2"]
    assert "w2" not in cluster.state.workers.by_id


def test_a_driver_elsewhere_that_waits_is_not_gone_because_the_master_stood_still(cluster: FakeCluster) -> None:
    waiting = cluster.registered(**ELSEWHERE)
    cluster.tick(2 * SILENCE_S)
    assert not waiting.ended
    for _ in range(int(SILENCE_S) - 1):
        cluster.tick(1.0)
    assert not waiting.ended, "it had no time to report"
    for _ in range(2):
        cluster.tick(1.0)
    assert waiting.ended

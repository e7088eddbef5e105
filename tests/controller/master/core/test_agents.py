"""Reports of agents and the answers to them: executors that end, samples, debt."""

from __future__ import annotations

import logging

import pytest

from controller.agent.executors.local_use import OVER_CODE
from controller.master.core.executors import MOST_FAILURES
from controller.master.core.workers import STALE_S
from controller.runs.run_folder import read_samples
from controller.wire.driver import ExecutorWish
from stage_model.errors import BadInput
from tests.fakes.cluster import FakeCluster, one_stage_run, report, sample, use
from tests.fakes.refusals import assert_names

ONE = {"0": ExecutorWish(count=1)}
HALF_DONE = use(0, 3.0, done=2, running=1, records=25.0, records_running=5.0, cpu_running_core_s=1.0, speed=0.5)


def test_a_killed_executor_is_reported_to_the_driver_and_replaced(cluster: FakeCluster, application_id: str) -> None:
    cluster.worker("w1", report(application_id, "1"))
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=137))
    [gone] = cluster.driver(application_id).gone
    assert (gone.executor_id, gone.exit_code, gone.planned, gone.by_application) == ("1", 137, False, False)
    desired = cluster.worker("w1").desired  # the agent no longer shows it: cleaned up
    assert desired.stopped == ()
    cluster.tick()
    [spec] = cluster.worker("w1").desired.executors
    assert spec.executor_id == "2"


class TestLeaving:
    @pytest.fixture(autouse=True)
    def _is_to_end(self, cluster: FakeCluster) -> None:
        assert not cluster.worker("m2").desired.leave
        cluster.state.commands.end_worker("m2", cluster.now_s)

    def starting(self, cluster: FakeCluster) -> list[str]:
        return list(cluster.state.workers.starting(cluster.now_s))

    def test_a_worker_that_is_to_end_gets_nothing_new_and_is_gone_once_its_agent_says_so(self, cluster: FakeCluster) -> None:
        cluster.worker("w1")
        application_id = cluster.register(wanted={"0": ExecutorWish(count=2)})
        assert (cluster.worker("m2").desired.leave, cluster.worker("w1").desired.leave) == (True, False)
        assert cluster.where(application_id) == ["w1"]
        cluster.worker("m2", leaves=True)
        assert [view.worker_id for view in cluster.state.workers.views(cluster.now_s)] == ["w1"]
        with pytest.raises(BadInput, match="m3"):
            cluster.state.commands.end_worker("m3", cluster.now_s)

    def test_an_agent_that_says_farewell_twice_has_left(self, cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
        cluster.worker("w1")
        for _ in range(2):
            cluster.worker("m2", leaves=True)
            cluster.now_s += 1.0
            assert self.starting(cluster) == ["w1"]
        for _ in range(int(STALE_S) + 1):
            cluster.pass_by(1.0)
        assert [line for line in caplog.messages if "has not reported" in line] == []

    def test_a_farewell_to_a_restarted_master_is_one(self, cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
        cluster.state.store.close()
        cluster.restart()
        caplog.clear()
        with caplog.at_level(logging.INFO, "sparkpace.master"):
            cluster.worker("m2", leaves=True)
        assert self.starting(cluster) == []
        assert [line for line in caplog.messages if "joined" in line] == []

    def test_another_agent_of_a_worker_that_has_left_is_welcome(self, cluster: FakeCluster) -> None:
        assert self.starting(cluster) == []
        cluster.worker("m2", leaves=True)
        assert not cluster.worker("m2", instance="another").desired.leave
        assert self.starting(cluster) == ["m2"]
        application_id = cluster.register()
        [spec] = cluster.worker("m2", instance="another").desired.executors
        assert spec.application_id == application_id


def test_an_executor_that_kept_too_much_on_disk_is_the_applications_fault(cluster: FakeCluster, application_id: str) -> None:
    """Spark counts such an end among its tasks' failures, of which an application may have few."""
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=OVER_CODE, reason="too much"))
    [gone] = cluster.driver(application_id).gone
    assert (gone.by_application, gone.planned, gone.reason) == (True, False, "too much")


def test_executors_that_made_room_on_a_machine_under_pressure_are_no_fault_of_the_applications(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application = cluster.registered()
    for number in range(1, MOST_FAILURES + 3):
        cluster.exits(application.id, str(number), made_room=True, reason="it makes room")
    assert not application.ended
    assert (application.placement.lost, application.placement.failures_in_a_row) == (MOST_FAILURES + 2, 0)
    gone = cluster.driver(application.id).gone[-1]
    assert (gone.by_application, gone.planned, gone.reason) == (False, False, "it makes room")


def test_a_worker_under_pressure_gets_an_executor_only_if_no_other_would_do(cluster: FakeCluster) -> None:
    cluster.worker("w1", relief_steps=1)
    assert cluster.where(cluster.register(wanted=ONE)) == ["w1"]
    cluster.worker("w2")
    assert cluster.where(cluster.register(wanted=ONE)) == ["w2"]
    cluster.worker("w1", relief_steps=0)
    cluster.worker("w2", relief_steps=1)
    assert cluster.where(cluster.register(wanted=ONE)) == ["w1"]


def test_a_plan_says_if_executors_of_lower_priority_may_end_for_its_job(cluster: FakeCluster, application_id: str) -> None:
    evicts = cluster.register(name="evicts", conf={"spark.pace.placement.evict": "true"})
    plans = cluster.worker("w1").desired.applications
    assert {plan.application_id: plan.evict for plan in plans} == {evicts: True, application_id: False}


def test_executors_spark_no_longer_wants_are_stopped_as_planned(cluster: FakeCluster, application_id: str) -> None:
    none = {"0": ExecutorWish(count=0)}
    cluster.worker("w1", report(application_id, "1"))
    cluster.driver(application_id, wanted=none, killed=("1",))
    assert cluster.worker("w1", report(application_id, "1")).desired.stopped == (f"{application_id}/1",)
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=143))
    [gone] = cluster.driver(application_id, wanted=none, killed=("1",)).gone
    assert gone.planned


def test_an_executor_that_exits_wakes_the_agents_of_its_application_and_of_who_gets_its_place(cluster: FakeCluster) -> None:
    for worker in ("w1", "w2"):
        cluster.worker(worker, memory_mb=2000)
    first = cluster.register(wanted={"0": ExecutorWish(count=2)})
    waiting = cluster.register(instance="second", wanted=ONE)
    cluster.driver(first, wanted=ONE, killed=("2",))
    cluster.woken.clear()
    cluster.worker("w2", report(first, "2", "exited", exit_code=143), memory_mb=2000)
    assert cluster.woken == {"w1", "w2"}
    assert cluster.where(waiting) == ["w2"]


def test_a_worker_that_is_back_after_a_silence_gets_executors_at_once(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.now_s += STALE_S
    application_id = cluster.register()
    assert not cluster.state.applications[application_id].executors
    [spec] = cluster.worker("w1").desired.executors
    assert spec.application_id == application_id


def test_an_executor_that_shows_itself_after_its_stop_is_stopped_again(cluster: FakeCluster, application_id: str) -> None:
    cluster.worker("w1", report(application_id, "1"))
    cluster.kill(application_id)
    cluster.worker("w1")  # not shown: thought removed
    assert cluster.worker("w1").desired.stopped == ()
    assert cluster.worker("w1", report(application_id, "1")).desired.stopped == (f"{application_id}/1",)


def test_samples_are_written_once(cluster: FakeCluster, application_id: str) -> None:
    rows = tuple(sample(application_id, "1", float(t)) for t in range(3))
    for _ in range(2):
        assert cluster.worker("w1", samples=rows).samples_acknowledged == 3
    later = (*rows[1:], sample(application_id, "1", 3.0))
    assert cluster.worker("w1", samples=later, sample_seq=1).samples_acknowledged == 4
    assert [row.time_s for row in read_samples(cluster.path / "runs" / application_id)] == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("ended_before", [False, True])
def test_a_refused_executor_ends_a_running_application(cluster: FakeCluster, application_id: str, ended_before: bool) -> None:
    if ended_before:
        cluster.driver(application_id, *one_stage_run(1000), ended=True)
    cluster.worker("w1", report(application_id, "1", "refused", reason="mount '/secret' is outside"))
    if ended_before:
        assert cluster.view(application_id).reason == ""
        cluster.tick()
        assert cluster.state.registry.tally.ended == {"succeeded": 1}
    else:
        assert_names(cluster.driver(application_id).stop, "worker w1", "mount '/secret' is outside")


def test_a_lost_executors_ended_tasks_count_and_its_running_ones_do_not(cluster: FakeCluster, application_id: str) -> None:
    cluster.driver(application_id, *one_stage_run(1000)[:2])
    cluster.worker("w1", report(application_id, "1", stages=(HALF_DONE,)))
    cluster.exits(application_id, exit_code=137, stages=(HALF_DONE,))
    [plan] = cluster.worker("w1", report(application_id, "2")).desired.applications
    [stage] = plan.stages
    assert (stage.elsewhere_done, stage.elsewhere_running, stage.elsewhere_speed) == (2, 0, 0.0)
    assert (stage.elsewhere_records, stage.elsewhere_records_running) == (20.0, 0.0)
    assert (stage.elsewhere_cpu_core_s, stage.elsewhere_cpu_running_core_s) == (2.0, 0.0)


def test_an_agent_that_restarts_gets_the_cpu_that_its_executors_tasks_used(cluster: FakeCluster, application_id: str) -> None:
    """The agent reads from the executors' tasks how many have ended, and counts CPU from its own start on."""
    cluster.driver(application_id, *one_stage_run(1000)[:2])
    before = report(application_id, "1", stages=(HALF_DONE,))
    [plan] = cluster.worker("w1", before, instance="one").desired.applications
    assert plan.stages[0].elsewhere_cpu_core_s == 0.0
    after = use(0, 0.5, done=2, running=1, records=25.0, records_running=5.0, cpu_running_core_s=0.5, speed=0.5)
    [plan] = cluster.worker("w1", report(application_id, "1", stages=(after,)), instance="two").desired.applications
    [stage] = plan.stages
    assert (stage.elsewhere_cpu_core_s, stage.elsewhere_cpu_running_core_s) == (3.0, 0.0)
    assert (stage.elsewhere_done, stage.elsewhere_running, stage.elsewhere_records) == (0, 0, 0.0)


SQUEEZED = {"demand": 0.8, "grant": 0.3, "squeezed": True}


def test_what_a_squeeze_withholds_is_owed_planned_recorded_and_stored(cluster: FakeCluster, application_id: str) -> None:
    rows = tuple(sample(application_id, "1", float(t), **SQUEEZED) for t in range(5))
    cluster.worker("w1", report(application_id, "1"), samples=rows)
    # four seconds of half a core; how long the last sample holds is not known yet
    assert cluster.view(application_id).debt_core_s == pytest.approx(2.0)
    cluster.tick(20)
    cluster.restart()
    [plan] = cluster.worker("w1", report(application_id, "1")).desired.applications
    assert plan.debt_core_s == pytest.approx(2.0)
    repaid = tuple(sample(application_id, "1", 10.0 + t, demand=1.0, grant=1.0) for t in range(6))
    cluster.worker("w1", report(application_id, "1"), samples=repaid, sample_seq=5)
    assert cluster.view(application_id).debt_core_s == pytest.approx(1.0)
    rows_read = read_samples(cluster.path / "runs" / application_id)
    assert [row.debt_core_s for row in rows_read[:5]] == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0])


def test_a_lost_executor_takes_its_debt_along(cluster: FakeCluster, application_id: str) -> None:
    rows = tuple(sample(application_id, "1", float(t), **SQUEEZED) for t in range(3))
    cluster.worker("w1", report(application_id, "1"), samples=rows)
    cluster.worker("w1", report(application_id, "1", "exited", exit_code=137))
    application = cluster.state.applications[application_id]
    assert application.debt_core_s() == 0.0
    assert application.totals.withheld_core_s() == pytest.approx(1.0)


def test_an_agent_ends_no_application_whose_driver_is_on_another_host(cluster: FakeCluster) -> None:
    here = cluster.registered()
    elsewhere = cluster.registered(boot_id="of another host", uid=1, instance="second", pid=7)
    cluster.worker("w1", drivers_gone=(here.id, elsewhere.id))
    assert (here.ended, elsewhere.ended) == (True, False)


def test_an_agent_tells_nothing_of_an_executor_on_another_worker(cluster: FakeCluster, application_id: str) -> None:
    cluster.worker("w2")
    executor = cluster.state.applications[application_id].executors["1"]
    for worker, taken in (("w2", False), ("w1", True)):
        cluster.worker(worker, samples=(sample(application_id, "1", 1.0),))
        assert (executor.sample is not None) is taken

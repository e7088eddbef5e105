"""The agent's periods on a machine in memory: starts, executors that go on, ends and reports."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from msgspec import structs

from controller.agent.executors.known import COMPLAINT_S
from controller.agent.executors.starting import LaunchingStarter
from controller.agent.loop import FIRST_WORD_S
from controller.agent.report import SAMPLES_KEPT
from controller.machine.process import Process, find_process
from controller.runtime.base import ExecutorKey, Launch
from controller.wire.worker import Sample
from stage_model.errors import RuntimeFailed
from stage_model.progress import StageProgress
from tests.fakes.plans import plan
from tests.fakes.runtime import FakeRuntime
from tests.fakes.worker import CLUSTER, FakeWorker, report_of, spec

KEY = ExecutorKey("app", "1")
OTHER = ExecutorKey("other", "1")


def running(tasks: int = 2, done: int = 0) -> StageProgress:
    return StageProgress(stage=1, attempt=0, running=tasks, done=done)


@pytest.fixture
def busy(worker: FakeWorker) -> FakeWorker:
    """Provide an executor with two tasks under way, paced for half a core."""
    worker.want([spec()], [plan()])
    worker.tick()
    worker.progress(KEY, running())
    worker.tick()
    return worker


@pytest.fixture
def driver() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that lives until the test ends it."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.communicate()


def identity(pid: int) -> Process:
    found = find_process(pid)
    assert found is not None
    return found


class TestStarting:
    def test_what_is_desired_is_started_once(self, worker: FakeWorker) -> None:
        worker.want([spec()], [plan()])
        for _ in range(3):
            worker.tick(work=False)
        assert worker.launcher._starts.qsize() == 1
        worker.work()
        worker.pass_time(3)
        assert worker.running() == {KEY}
        assert len(worker.host.executors) == 1

    def test_it_reports_how_it_goes(self, worker: FakeWorker) -> None:
        worker.want([spec()], [plan()])
        assert report_of(worker.tick(), KEY).state == "starting"
        assert report_of(worker.tick(), KEY).state == "running"
        worker.host.exit(KEY, 137, "out of memory")
        ended = report_of(worker.tick(), KEY)
        assert (ended.state, ended.exit_code, ended.reason) == ("exited", 137, "out of memory")

    def test_an_executor_that_ended_is_not_started_again(self, worker: FakeWorker) -> None:
        worker.want([spec()], [plan()])
        worker.tick()
        worker.host.exit(KEY, 1)
        worker.pass_time(3)
        assert worker.running() == set()

    def test_a_refused_executor_holds_no_cores(self, worker: FakeWorker) -> None:
        worker.host.refused_images.add("gone:1")
        worker.want([spec(image="gone:1"), spec("other")], [plan(left_s=10.0), plan("other", left_s=None)])
        report = worker.pass_time(2)
        assert report_of(report, KEY).state == "refused"
        assert "gone:1" in report_of(report, KEY).reason
        # all of the worker, although the refused one has the earlier deadline
        assert worker.quotas() == {OTHER: 2.0}

    def test_what_is_both_desired_and_stopped_does_not_start(self, worker: FakeWorker) -> None:
        worker.want([spec()], [plan()], stopped=["app/1"])
        worker.tick()
        assert worker.running() == set()


class _SlowStart(FakeRuntime):
    """A runtime in which something happens while an executor starts, after its cores were chosen."""

    def __init__(self, worker: FakeWorker, meanwhile: Callable[[], object]) -> None:
        super().__init__(worker.host, CLUSTER, worker.worker_id)
        self._meanwhile = meanwhile

    def start(self, launch: Launch) -> None:
        self._meanwhile()
        super().start(launch)


def test_quotas_stay_within_the_worker_while_an_executor_starts(worker: FakeWorker) -> None:
    first, second = plan(left_s=None, priority=2, stages=()), plan("other", left_s=None, priority=1)
    worker.want([spec()], [first])
    worker.tick()
    worker.progress(KEY, running())
    worker.tick()
    worker.progress(KEY)
    worker.pass_time(3)  # idle for more than two periods

    def first_goes_on() -> None:
        worker.progress(KEY, running())
        worker.tick(work=False)

    worker.launcher._starter = LaunchingStarter(_SlowStart(worker, first_goes_on), worker.site)
    worker.want([spec(), spec("other")], [first, second])
    worker.tick()
    # the second started with the cores that the first did not need before, so the first waits until the second is seen
    assert worker.quotas() == {KEY: 0.1, OTHER: 1.9}
    worker.tick()
    assert worker.quotas() == {KEY: 1.9, OTHER: 0.1}


def test_an_executor_starts_with_what_one_that_is_not_seen_yet_leaves(worker: FakeWorker) -> None:
    plans = [plan(left_s=None), plan("other", left_s=None)]

    def another_comes() -> None:
        worker.want([spec(), spec("other")], plans)
        worker.tick(work=False)

    worker.launcher._starter = LaunchingStarter(_SlowStart(worker, another_comes), worker.site)
    worker.want([spec()], plans[:1])
    worker.tick()
    # the first took all cores before the second came, so nothing is left for the second
    assert worker.quotas() == {KEY: 2.0}
    worker.launcher._starter = LaunchingStarter(worker.runtime, worker.site)
    worker.tick()
    assert worker.quotas() == {KEY: 1.0, OTHER: 1.0}


class TestControl:
    def test_an_unchanged_quota_is_not_written(self, busy: FakeWorker) -> None:
        busy.host.faults["set_quota", KEY] = RuntimeFailed("the engine is busy; try again")
        report = busy.tick(0.0)
        # a write would have been refused, and a refused write is reported
        assert report.notes == ()

    def test_it_goes_on_without_new_orders(self, busy: FakeWorker) -> None:
        """The master is away: the time left goes down, no work is seen to be done, so more cores are asked for."""
        busy.host.set_demand(KEY, 0.0)
        quotas: list[float] = []
        for _ in range(5):
            busy.tick(15.0)
            quotas += busy.quotas().values()
        assert quotas == sorted(quotas)
        # 99 - 75 = 24 s left for 50 core-seconds
        assert quotas[-1] == pytest.approx(2.0)

    def test_a_quota_that_cannot_be_lowered_keeps_others_from_being_raised(self, worker: FakeWorker) -> None:
        worker.want([spec(), spec("other")], [plan(left_s=None, priority=100), plan("other", left_s=None)])
        worker.pass_time(2)
        assert worker.quotas() == {KEY: 1.9, OTHER: 0.1}
        worker.host.faults["set_quota", KEY] = RuntimeFailed("the engine is busy; try again")
        worker.want([spec(), spec("other")], [plan(left_s=None), plan("other", left_s=None, priority=100)])
        report = worker.tick()
        assert worker.quotas() == {KEY: 1.9, OTHER: 0.1}
        assert any("quota of executor 1" in note for note in report.notes)
        worker.host.faults.clear()
        worker.tick()
        assert worker.quotas() == {KEY: 0.1, OTHER: 1.9}


class TestEnding:
    def test_absence_is_never_an_order(self, busy: FakeWorker) -> None:
        busy.want()
        for _ in range(5):
            busy.tick(100.0)
        assert busy.running() == {KEY}

    def test_it_is_stopped_and_removed_on_order(self, busy: FakeWorker) -> None:
        busy.want(stopped=["app/1"])
        busy.tick()
        assert busy.running() == set()
        assert report_of(busy.tick(), KEY).state == "exited"
        busy.tick()
        assert busy.host.executors == {}
        assert busy.tick().executors == ()
        assert list((busy.folder / "records").iterdir()) == []

    def test_scratch_files_go_with_the_application_not_with_one_executor(self, busy: FakeWorker) -> None:
        local = busy.site.local_dir(KEY)
        for ended in ((), ("app",)):
            busy.want([spec()], [plan()])
            busy.tick()
            assert local.is_dir()
            busy.want(stopped=["app/1"], ended=ended)
            busy.pass_time(4)
            assert local.is_dir() == (not ended)

    def test_an_ended_executor_stays_until_the_master_knows(self, busy: FakeWorker) -> None:
        busy.host.exit(KEY, 3)
        for _ in range(3):
            assert report_of(busy.tick(), KEY).exit_code == 3
        busy.want(stopped=["app/1"])
        busy.tick()
        assert busy.host.executors == {}

    def test_one_whose_application_keeps_too_much_on_the_disk_ends_with_that_reason(self, worker: FakeWorker) -> None:
        both = [spec(), spec("other")]
        worker.want(both)
        worker.tick()
        worker.over_limit = {"app": "too much"}
        sent = worker.tick()
        assert "too much" in sent.notes[-1]
        assert report_of(sent, KEY).state == "running"
        sent = worker.tick(4.0)
        sent = worker.tick()
        seen = report_of(sent, KEY)
        # a signal's code would say that the application is not to blame
        assert (seen.state, seen.exit_code, seen.reason) == ("exited", errno.EDQUOT, "too much")
        assert worker.running() == {OTHER}
        assert report_of(sent, OTHER).reason == ""
        places = worker.agent.executors.places()
        assert places["app"] == [worker.site.local_dir(KEY), worker.site.log_dir(KEY)]

    def test_an_executor_of_a_dead_driver_ends(self, worker: FakeWorker, driver: subprocess.Popen[bytes]) -> None:
        wanted = spec(driver=identity(driver.pid))
        worker.want([wanted], [plan()])
        worker.tick()
        for _ in range(3):
            assert worker.tick().drivers_gone == ()
        assert worker.running() == {KEY}
        driver.communicate()
        assert worker.tick().drivers_gone == ("app",)
        assert worker.running() == set()

    def test_so_it_does_after_a_restart_without_a_master(self, worker: FakeWorker, driver: subprocess.Popen[bytes]) -> None:
        worker.want([spec(driver=identity(driver.pid))], [plan()])
        worker.tick()
        driver.communicate()
        worker.restart()
        worker.tick()
        assert worker.running() == set()

    @pytest.mark.parametrize("where", [{"boot_id": "another boot"}, {"pid_namespace": "pid:[1]"}])
    def test_a_driver_that_is_not_numbered_here_is_not_judged(self, worker: FakeWorker, where: dict[str, str]) -> None:
        me = identity(os.getpid())
        worker.want([spec(driver=structs.replace(me, pid=1 << 22, start_ticks=5, **where))], [plan()])
        worker.tick()
        assert worker.tick().drivers_gone == ()
        assert worker.running() == {KEY}

    def test_a_pid_that_was_given_to_another_process_is_not_the_driver(self, worker: FakeWorker) -> None:
        me = identity(os.getpid())
        worker.want([spec(driver=structs.replace(me, start_ticks=me.start_ticks - 1))], [plan()])
        worker.tick()
        assert worker.tick().drivers_gone == ("app",)


class TestRestart:
    def test_running_executors_are_adopted_with_their_slots(self, busy: FakeWorker) -> None:
        busy.restart()
        report = busy.tick()
        assert report.instance == "life-2"
        assert report_of(report, KEY).state == "running"
        assert any("executor 1 of app" in note for note in report.notes)
        assert busy.agent.state.executors[KEY].account.slots == 2
        assert busy.running() == {KEY}

    def test_an_adopted_executor_has_all_it_can_use_until_the_master_speaks(self, busy: FakeWorker) -> None:
        busy.restart()
        busy.tick(FIRST_WORD_S)
        assert busy.quotas() == {KEY: 2.0}
        busy.want([spec()], [plan()])
        busy.tick()
        # two core-seconds of 50 were done in the second of full speed: 48 in 99 s
        assert busy.quotas() == {KEY: 0.5}
        assert len(busy.host.executors) == 1

    def test_quotas_stay_until_the_masters_first_word(self, busy: FakeWorker) -> None:
        """An agent without plans would give all equal shares for a moment."""
        before = busy.quotas()
        busy.restart()
        busy.tick(FIRST_WORD_S - 1.0)
        assert busy.quotas() == before
        busy.want([spec()], [plan(left_s=25.0)])
        busy.tick(0.1)
        # from the first word on the law counts: about 50 core-seconds in 25 s
        assert busy.quotas()[KEY] > 1.5

    def test_without_a_record_it_is_adopted_all_the_same(self, busy: FakeWorker) -> None:
        for record in (busy.folder / "records").iterdir():
            record.unlink()
        busy.restart()
        busy.tick()
        assert busy.running() == {KEY}
        # as many slots as the worker has cores, until the master says otherwise
        assert busy.agent.state.executors[KEY].account.slots == 2


class TestTroubleOfOne:
    """Trouble of one executor stays with that executor."""

    @pytest.fixture
    def two(self, busy: FakeWorker) -> FakeWorker:
        busy.want([spec(), spec("other")], [plan(), plan("other")])
        busy.tick()
        busy.progress(OTHER, running())
        busy.tick()
        assert all(0.5 <= cores < 0.6 for cores in busy.quotas().values())
        return busy

    def test_an_unusable_plan_opens_only_its_own_executor(self, two: FakeWorker) -> None:
        two.want([spec(), spec("other")], [plan(law="of a later release"), plan("other")])
        report = two.tick(0.0)
        # it asks for both of its slots, and gets what the other, which has a deadline, leaves
        cores = two.quotas()
        assert cores[OTHER] < 0.6
        assert cores[KEY] == pytest.approx(2.0 - cores[OTHER])
        assert ["executor 1 of app" in note for note in report.notes] == [True]
        assert two.tick(0.0).notes == report.notes

    def test_an_unforeseen_error_leaves_the_others_their_quotas(self, two: FakeWorker) -> None:
        two.host.faults["set_quota", KEY], before = ValueError("what is this?"), two.quotas()[KEY]
        two.want([spec(), spec("other")], [plan(left_s=50.0), plan("other", left_s=50.0)])
        report = two.tick(0.0)
        assert any("what is this?" in note for note in report.notes)
        cores = two.quotas()
        assert (cores[KEY], cores[OTHER] > 0.9) == (before, True)


class TestSamples:
    def test_they_are_numbered_and_repeated_until_acknowledged(self, busy: FakeWorker) -> None:
        busy.tick()
        first = busy.tick()
        assert first.sample_seq == 0
        assert len(first.samples) >= 2
        again = busy.tick()
        assert again.samples[: len(first.samples)] == first.samples
        busy.agent.outbox.acknowledge(len(first.samples), (), 0.0)
        after = busy.tick()
        assert after.sample_seq == len(first.samples)
        assert after.samples[0] == again.samples[len(first.samples)]

    def test_old_or_impossible_acknowledgements_do_no_harm(self, busy: FakeWorker) -> None:
        busy.tick()
        count = len(busy.tick().samples)
        busy.agent.outbox.acknowledge(2, (), 0.0)
        busy.agent.outbox.acknowledge(1, (), 0.0)
        assert (busy.agent.outbox.first, len(busy.agent.outbox.samples)) == (2, count - 2)
        busy.agent.outbox.acknowledge(1_000_000, (), 0.0)
        assert (busy.agent.outbox.first, busy.agent.outbox.samples) == (count, [])

    def test_the_oldest_are_dropped_while_the_master_is_away_for_long(self, busy: FakeWorker) -> None:
        sample: Sample = busy.tick().samples[0]
        busy.agent.outbox.samples = [sample] * SAMPLES_KEPT
        report = busy.tick()
        assert len(busy.agent.outbox.samples) == SAMPLES_KEPT
        assert report.sample_seq == 1
        assert any("1 oldest" in note for note in report.notes)


class TestHostileProgress:
    def test_negative_numbers_are_noted_and_control_goes_on_by_container_cpu(self, busy: FakeWorker) -> None:
        before = busy.agent.state.executors[KEY].account.stages[1, 0].cpu_core_s
        busy.progress(KEY, running(-1))
        report = busy.tick()
        assert busy.agent.state.executors[KEY].account.stages[1, 0].cpu_core_s > before
        assert busy.agent.state.executors[KEY].decision is not None
        assert 0.1 <= busy.quotas()[KEY] <= 2.0
        assert ["impossible" in note for note in report.notes if "container CPU" in note] == [True]

    def test_a_file_that_is_wrong_in_another_way_each_time_does_not_fill_the_log(self, busy: FakeWorker) -> None:
        for number in range(10):
            busy.progress_file(KEY).write_text(f'{{"schema": {number + 7}, "executor": "1", "sequence": 1}}')
            report = busy.tick()
        assert ["schema 7" in note for note in report.notes if "schema" in note] == [True]
        busy.tick(COMPLAINT_S)
        assert sum("schema 16" in note for note in busy.tick().notes) == 1, "the note is repeated a minute later"

    def test_claims_that_fit_the_schema_but_not_the_stage(self, busy: FakeWorker) -> None:
        busy.progress(KEY, running(tasks=1 << 40, done=1 << 50))
        busy.tick()
        decision = busy.agent.state.executors[KEY].decision
        assert decision is not None
        assert 0.0 <= decision.demand <= 2.0
        assert decision.progress == 1.0
        assert report_of(busy.tick(), KEY).stages[0].running == 2

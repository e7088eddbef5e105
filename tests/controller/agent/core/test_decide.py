"""Demands where a law is not asked, and how an application's demand is divided."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.agent.core.decide import ObservedExecutor, OwnStage, aged, decide_demand, live_stages
from controller.agent.core.step import request
from controller.runtime.base import ExecutorKey
from stage_model.laws.base import Decision, LawState
from stage_model.plan import Aim, ApplicationPlan, StagePlan
from stage_model.settings import QuotaSettings

STAGE = StagePlan(stage=3, attempt=0, tasks=20, work_core_s=40.0)
PLAN = ApplicationPlan(
    application_id="a", name="a", deadline_s=100.0, left_s=50.0, elapsed_s=50.0, stages=(STAGE,), slots=4, cores=4.0
)
EXACTLY = {"forecast.alpha": 1.0, "forecast.surety": 0.0, "forecast.lead": 0.0}


def executor(
    running: int = 0, done: int = 0, slots: int = 4, idle_s: float | None = 0.0, *, up: bool = True
) -> ObservedExecutor:
    return ObservedExecutor(slots, {(3, 0): OwnStage(running, done)}, idle_s, up)


def decided(plan: ApplicationPlan, seen: ObservedExecutor, state: LawState = LawState()) -> Decision:  # noqa: B008
    return decide_demand(plan, seen, state, dt_s=1.0, quota=QuotaSettings())


def test_before_its_first_task_an_executor_asks_for_all_its_slots_when_tasks_wait_and_else_for_a_core_to_start_with() -> None:
    nothing_to_do = replace(PLAN, stages=())
    assert [decided(PLAN, executor(idle_s=None, up=up)).demand for up in (False, True)] == [4.0, 4.0]
    # a session that waits for its user takes no cores from others
    assert [decided(nothing_to_do, executor(idle_s=None, up=up)).demand for up in (False, True)] == [1.0, 0.0]


def test_without_a_deadline_it_asks_for_what_its_tasks_can_use() -> None:
    free = replace(PLAN, deadline_s=None, left_s=None)
    assert decided(free, executor(running=4)).demand == 4.0
    last = replace(free, stages=(replace(STAGE, tasks=2),))
    assert decided(last, executor(running=2)).demand == 2.0


def test_without_a_profile_it_does_so_in_spite_of_the_deadline() -> None:
    assert decided(replace(PLAN, known=False), executor(running=4)).reason == "no profile"


def test_the_least_cores_that_end_in_time() -> None:
    # 40 core-seconds, 50 s: 0.8 cores
    exact = replace(PLAN, settings=EXACTLY)
    got = decided(exact, executor(running=4))
    assert got.demand == pytest.approx(0.8)
    assert got.forecast_end_s == pytest.approx(100.0)
    assert not got.beyond_saving


@pytest.mark.parametrize(("left_s", "end_s"), [(50.0, 99.5), (12.0, 68.0)])
@pytest.mark.parametrize("idle_s", [None, 0.0, 300.0])
def test_the_end_is_forecast_also_while_no_task_can_run(idle_s: float | None, left_s: float, end_s: float) -> None:
    """18 seconds that no core shortens are to come. Where the deadline can be kept, the forecast is the end aimed at."""
    waits = replace(PLAN, stages=(), left_s=left_s, future_fixed_s=18.0)
    got = decided(waits, executor(idle_s=idle_s))
    assert got.forecast_end_s == pytest.approx(end_s)
    assert (got.planned, got.beyond_saving) == ((True, left_s < 18) if idle_s == 0.0 else (False, False))
    assert decided(replace(waits, known=False), executor(idle_s=idle_s)).forecast_end_s is None
    assert decided(replace(waits, deadline_s=None, left_s=None), executor(idle_s=idle_s)).forecast_end_s is None


@pytest.mark.parametrize("left_s", [-1.0, 0.0, 5.0])
def test_late_means_open_also_where_no_work_is_known(left_s: float) -> None:
    """Ten seconds that no core shortens are still to come."""
    unknown = replace(STAGE, work_core_s=0.0)
    late = replace(PLAN, stages=(unknown,), left_s=left_s, future_fixed_s=10.0)
    assert (decided(late, executor(running=4)).demand, decided(late, executor(running=2, done=18)).demand) == (4.0, 2.0)
    assert decided(late, executor(running=4)).beyond_saving


def test_late_means_open_where_the_others_have_more_to_run() -> None:
    """The law's cores are divided by runnable tasks. What is late takes all it can use: here two cores of two."""
    stage = replace(STAGE, tasks=20, work_core_s=400.0)
    plan = replace(PLAN, stages=(stage,), slots=8, executors=2, cores=2.0)
    assert decided(plan, executor(running=4)).demand == 2.0


def test_the_aim_is_a_little_before_the_deadline() -> None:
    # alpha 0.995: 0.5 s of 100 are kept, and a tenth of the rest is kept ahead
    assert decided(PLAN, executor(running=4)).demand == pytest.approx(40 / (0.9 * 49.5))


def test_the_more_the_last_tasks_differ_the_more_is_kept() -> None:
    # tasks of 2 s with a standard deviation of 1 s, of which 3 are kept: what a stage to come will need is what counts
    unlike = replace(PLAN, stages=(replace(STAGE, task_cv=0.5),))
    assert decided(unlike, executor(running=4)).forecast_end_s == pytest.approx(100 - 0.5 - 3)
    to_come = replace(unlike, future_task_sd_s=4.0)
    assert decided(to_come, executor(running=4)).forecast_end_s == pytest.approx(100 - 0.5 - 12)
    # one of the twenty took 5 times the mean, 8 s more than it: as much is kept
    long = replace(PLAN, stages=(replace(STAGE, task_cv=0.5, skew=5.0),))
    assert decided(long, executor(running=4)).forecast_end_s == pytest.approx(100 - 0.5 - 8)


@pytest.mark.parametrize(("read", "kept"), [(0, 1.0), (100, 1.0), (200, 1.0), (300, 0.5), (400, 0.0)])
def test_what_is_kept_melts_as_the_last_tasks_run(read: int, kept: float) -> None:
    """Four tasks of 100 records each run and none waits. Until half of that is read, the last one may have just begun."""
    stage = replace(STAGE, tasks=4, work_core_s=8.0, task_cv=0.5, records=400.0)
    plan = replace(PLAN, stages=(stage,))
    seen = ObservedExecutor(4, {(3, 0): OwnStage(4, 0, records=read, records_running=read)}, 0.0)
    assert decided(plan, seen).forecast_end_s == pytest.approx(100 - 0.5 - kept * 3)


def test_nothing_is_kept_for_a_stage_whose_tasks_have_all_ended() -> None:
    over = replace(STAGE, tasks=4, work_core_s=8.0, task_cv=2.0, elsewhere_done=4)
    last = replace(STAGE, stage=4, tasks=4, work_core_s=8.0)
    plan = replace(PLAN, stages=(over, last))
    seen = ObservedExecutor(4, {(4, 0): OwnStage(4, 0)}, 0.0)
    assert decided(plan, seen).forecast_end_s == pytest.approx(100 - 0.5)


def test_a_slow_run_is_paced_up() -> None:
    slow = replace(PLAN, settings=EXACTLY, pace=1.25)
    assert decided(slow, executor(running=4)).demand == pytest.approx(0.8 * 1.25)


def test_beyond_saving_asks_for_everything() -> None:
    late = replace(PLAN, left_s=9.0)
    got = decided(late, executor(running=4))
    # 40 core-seconds on 4 cores are 10 s
    assert (got.demand, got.beyond_saving) == (4.0, True)
    assert got.forecast_end_s == pytest.approx(60.0)


def test_executors_share_by_their_runnable_tasks() -> None:
    # two executors of 4 slots; the last 3 tasks run, 2 of them here
    stage = replace(STAGE, tasks=3, work_core_s=6.0, elsewhere_running=1)
    plan = replace(PLAN, stages=(stage,), slots=8, executors=2, left_s=6.0, settings=EXACTLY)
    # 1 core for all of it
    assert decided(plan, executor(running=2)).demand == pytest.approx(2 / 3)


@pytest.mark.parametrize(("speed_limit", "most", "share"), [(0.25, 0.25, 0.125), (1.0, 1.0, 0.5)])
def test_on_unlike_workers_an_executor_asks_for_what_its_own_worker_can_use(
    speed_limit: float, most: float, share: float
) -> None:
    """Four executors have a quarter of a core each, one has a whole core: together 2 cores, on the mean 0.4 for a task."""
    plan = replace(PLAN, slots=5, executors=5, cores=2.0, speed_limit=0.4, settings=EXACTLY)
    here = replace(executor(running=1, slots=1), speed_limit=speed_limit)
    assert decided(replace(plan, deadline_s=None, left_s=None), here).demand == most
    assert decided(replace(plan, known=False), here).demand == most
    # 40 core-seconds are left: one core, of which each executor has the share that its worker has of the two
    assert decided(replace(plan, left_s=40.0), here).demand == pytest.approx(share)
    assert decided(replace(plan, left_s=5.0), here).demand == most


@pytest.mark.parametrize(("speed_limit", "demand"), [(0.25, 0.2), (1.0, 0.2)])
def test_the_only_task_gets_what_the_application_needs_wherever_it_runs(speed_limit: float, demand: float) -> None:
    """The last task of a stage has 4 core-seconds and 20 s."""
    stage = replace(STAGE, tasks=1, work_core_s=4.0)
    plan = replace(PLAN, slots=5, executors=5, cores=2.0, speed_limit=0.4, stages=(stage,), left_s=20.0, settings=EXACTLY)
    here = replace(executor(running=1, slots=1), speed_limit=speed_limit)
    assert decided(plan, here).demand == pytest.approx(demand)


def test_few_waiting_tasks_starve_no_executor_and_are_not_paid_for_twice() -> None:
    """One task is not yet handed out."""
    stage = replace(STAGE, tasks=1, work_core_s=4.0)
    plan = replace(PLAN, stages=(stage,), slots=8, executors=2, left_s=5.0, settings=EXACTLY)
    # either may get it, so each asks for half of the 0.8 cores; the one that has it for all of them, also before the master
    # has informed the other
    assert decided(plan, executor()).demand == pytest.approx(0.4)
    assert decided(plan, executor(running=1)).demand == pytest.approx(0.8)


def test_a_flicker_around_a_quantum_is_not_followed() -> None:
    plan = replace(PLAN, settings=EXACTLY)
    assert decided(plan, executor(running=4), LawState(0.86)).demand == 0.86
    # a quantum and a half above is too much, and too little is raised at once
    assert decided(plan, executor(running=4), LawState(0.88)).demand == pytest.approx(0.8)
    assert decided(plan, executor(running=4), LawState(0.79)).demand == pytest.approx(0.8)


def test_a_small_demand_is_not_held_for_a_quantum() -> None:
    plan = replace(PLAN, left_s=400.0, settings=EXACTLY)
    assert decided(plan, executor(running=4), LawState(0.119)).demand == 0.119
    assert decided(plan, executor(running=4), LawState(0.121)).demand == pytest.approx(0.1)


def test_between_stages_the_demand_is_held_for_two_periods() -> None:
    nothing = replace(PLAN, stages=(), law="paper")
    assert decided(nothing, ObservedExecutor(4, {}, 1.9), LawState(1.3)).demand == 1.3
    assert decided(nothing, ObservedExecutor(4, {}, 2.0), LawState(1.3)).demand == 0.0


def test_between_stages_the_forecast_law_asks_for_its_part_of_what_is_to_come() -> None:
    """5 s with four tasks at once, 8 s away: 2.5 cores for the application, half of them on each of two executors."""
    plan = replace(PLAN, stages=(), future_busy=(0.0, 0.0, 0.0, 5.0), left_s=8.0, slots=8, executors=2, settings=EXACTLY)
    assert decided(plan, ObservedExecutor(4, {}, 1.9), LawState(2.0)).demand == pytest.approx(1.25)
    assert decided(plan, ObservedExecutor(4, {}, 2.0), LawState(2.0)).demand == 0.0
    # also an executor that had nothing to do in the last stage
    assert decided(plan, ObservedExecutor(4, {}, 1.9), LawState(0.0)).demand == pytest.approx(1.25)
    # and nothing is held when nothing is to come
    over = replace(plan, future_busy=())
    assert decided(over, ObservedExecutor(4, {}, 0.1), LawState(2.0)).demand == 0.0


def test_while_others_run_the_last_tasks_nothing_is_held() -> None:
    """The next stage cannot follow before they end, and its start is reported at once."""
    last = replace(STAGE, tasks=8, elsewhere_done=6, elsewhere_running=2)
    tail = replace(PLAN, stages=(last,), slots=8, executors=2)
    assert decided(tail, executor(running=0), LawState(1.3)).demand == 0.0
    ended = replace(last, elsewhere_done=8, elsewhere_running=0)
    over = replace(tail, law="paper", stages=(ended,))
    assert decided(over, executor(running=0), LawState(1.3)).demand == 1.3


class TestSeveralAims:
    """Stages 3 and 4 of two tasks each, on one executor with four slots of a core; 3 is due in 10 s, 4 in 100 s."""

    FIRST = StagePlan(stage=3, attempt=0, tasks=2, work_core_s=8.0)
    SECOND = StagePlan(stage=4, attempt=0, tasks=2, work_core_s=80.0)
    AIMS = (Aim(left_s=10.0, deadline_s=20.0, stages=((3, 0),)), Aim(left_s=100.0, deadline_s=110.0, stages=((4, 0),)))
    FIFO = replace(PLAN, stages=(FIRST, SECOND), aims=AIMS, left_s=10.0, deadline_s=20.0, settings=EXACTLY)
    FAIR = replace(FIFO, fair=True)

    def demand(self, plan: ApplicationPlan, *running: int) -> float:
        own = {(number, 0): OwnStage(count, 0) for number, count in enumerate(running, 3)}
        return decided(plan, ObservedExecutor(4, own, 0.0)).demand

    def test_in_a_fair_pool_an_aim_has_a_part_of_the_cores_only(self) -> None:
        # by itself 8 core-seconds in 10 s, but half of the cores go to the other stage, which is far from needing them
        assert self.demand(self.FAIR, 2, 2) == pytest.approx(2 * 0.8)
        # and a third where a job without a deadline runs next to them
        third = StagePlan(stage=5, attempt=0, tasks=9, work_core_s=900.0)
        three = replace(self.FAIR, stages=(*self.FAIR.stages, third))
        assert self.demand(three, 2, 1, 1) == pytest.approx(3 * 0.8)

    def test_the_aim_that_asks_for_most_counts(self) -> None:
        # 8 core-seconds in 50 s for the first; the other 80 in 100 s, of half of the cores 1.6, but both together 88 in 100 s
        aims = (replace(self.AIMS[0], left_s=50.0), self.AIMS[1])
        assert self.demand(replace(self.FAIR, aims=aims), 2, 2) == pytest.approx(0.88)

    def test_without_pools_the_first_action_has_its_end_by_itself_and_the_later_one_waits(self) -> None:
        # the first is what is due first: 8 core-seconds in 10 s, whatever else there is
        assert self.demand(self.FIFO, 2, 0) == pytest.approx(0.88)
        assert self.demand(replace(self.FIFO, aims=self.AIMS[:1]), 2, 0) == pytest.approx(0.8)
        # the second is due first: 88 core-seconds in 50 s, two tasks of 40 and two of 4 at once
        aims = (replace(self.AIMS[1], left_s=50.0), replace(self.AIMS[0], left_s=90.0))
        assert self.demand(replace(self.FIFO, aims=aims), 2, 2) == pytest.approx(88 / 50)

    def test_what_the_actions_have_to_come_counts_for_each(self) -> None:
        # after stage 3 five seconds with two tasks: 18 core-seconds in 20 s, of half of the cores
        aims = (replace(self.AIMS[0], left_s=20.0, future_busy=(0.0, 5.0), future_doubt=0.0), self.AIMS[1])
        assert self.demand(replace(self.FAIR, aims=aims), 2, 2) == pytest.approx(2 * 0.9)

    def test_the_applications_own_deadline_is_for_all_that_it_has_to_do(self) -> None:
        # the two actions ask for 0.88; the application has 88 core-seconds and 20 with two tasks to come, in 100 s
        first, second = replace(self.AIMS[0], left_s=50.0), self.AIMS[1]
        to_come: Any = {"left_s": 100.0, "deadline_s": 200.0, "future_busy": (0.0, 10.0), "future_doubt": 0.0}
        whole = Aim(stages=((3, 0), (4, 0)), whole=True, **to_come)
        for plan in (self.FIFO, self.FAIR):
            several = replace(plan, aims=(first, whole, second))
            alone = replace(plan, aims=(), **to_come)
            assert self.demand(several, 2, 2) == pytest.approx(self.demand(alone, 2, 2)) == pytest.approx(1.08)
        # and what it has to come is no further action's work
        relaxed = replace(self.FIFO, aims=(first, second, replace(whole, left_s=900.0)))
        assert self.demand(relaxed, 2, 0) == pytest.approx(0.88)

    def test_time_that_the_application_keeps_for_further_work_is_kept_by_its_own_aim_only(self) -> None:
        # 88 core-seconds in 80 s, as 70 of 150 are kept; the actions, in 50 and 100 s, ask for 0.88 as without it
        first, second = replace(self.AIMS[0], left_s=50.0), self.AIMS[1]
        whole = Aim(left_s=150.0, deadline_s=200.0, stages=((3, 0), (4, 0)), further_s=70.0, whole=True)
        several = replace(self.FIFO, aims=(first, second, whole))
        assert self.demand(several, 2, 2) == pytest.approx(88 / 80)
        kept = replace(self.FIFO, aims=(first, second), further_s=70.0)
        assert self.demand(kept, 2, 2) == pytest.approx(0.88)

    def test_another_actions_last_stage_does_not_say_how_much_is_kept_for_the_last_task_of_this_one(self) -> None:
        """Two tasks of 4 s with a standard deviation of 1 s; the other's last stage has tasks that are all alike, nearly."""
        unlike = replace(self.FIRST, task_cv=0.25)
        surely = EXACTLY | {"forecast.surety": 3.0}
        plan = replace(self.FIFO, stages=(unlike, self.SECOND), settings=surely)
        between = Aim(left_s=100.0, deadline_s=110.0, future_busy=(0.0, 0.1), future_doubt=0.0, future_task_sd_s=0.01)
        alone = self.demand(replace(plan, aims=self.AIMS[:1]), 2, 0)
        assert self.demand(replace(plan, aims=(self.AIMS[0], between)), 2, 0) > alone

    def test_an_application_is_ranked_by_the_first_of_its_aims_that_can_be_kept(self) -> None:
        hopeless = replace(self.AIMS[0], left_s=0.1)
        over = replace(self.AIMS[0], left_s=-5.0)
        for aims, kept in (
            ((over, hopeless, self.AIMS[1]), self.AIMS[1].left_s),
            (self.AIMS, self.AIMS[0].left_s),
            ((over, hopeless), None),
        ):
            plan = replace(self.FIFO, aims=aims, left_s=aims[0].left_s)
            own = {(3, 0): OwnStage(2, 0)}
            decision = decided(plan, ObservedExecutor(4, own, 0.0))
            asked = request(ExecutorKey("a", "1"), decision, plan, 0.0)
            assert (asked.beyond_saving, asked.left_s) == (kept is None, aims[0].left_s if kept is None else kept)

    def test_the_paper_law_goes_by_the_stages_deadlines(self) -> None:
        first = replace(self.FIRST, left_s=10.0, length_s=10.0, initial_cores=0.5)
        second = replace(self.SECOND, left_s=100.0, length_s=100.0, initial_cores=0.75)
        plan = replace(self.FIFO, law="paper", stages=(first, second))
        assert self.demand(plan, 2, 2) == pytest.approx(1.25)


def test_the_constant_law_asks_for_the_same_always() -> None:
    plan = replace(PLAN, law="constant", settings={"constant.cores": 3.0}, executors=2)
    assert decided(plan, executor(running=4)).demand == 1.5
    assert decided(plan, ObservedExecutor(4, {}, 60.0)).demand == 1.5


def test_the_paper_law_goes_after_the_set_point() -> None:
    stage = replace(STAGE, left_s=30.0, length_s=40.0, initial_cores=1.0)
    plan = replace(PLAN, law="paper", stages=(stage,))
    got = decided(plan, executor(running=4, done=5))
    # a quarter of the time is over and 5 of 20 tasks are done: error 0, hence the initial cores
    assert (got.set_point, got.progress, got.demand) == pytest.approx((0.25, 0.25, 1.0))
    behind = decided(plan, executor(running=4, done=2))
    # error 0.15: 50 * 0.15 + ... > coreMax = 2 * initial
    assert behind.demand == 2.0


def test_the_shown_stage_is_the_one_that_runs_here() -> None:
    other = StagePlan(stage=4, attempt=0, tasks=5, work_core_s=5.0)
    got = decided(replace(PLAN, stages=(STAGE, other)), executor(running=1, done=4))
    assert (got.stage, got.progress) == (3, 0.2)


class TestAging:
    def test_time_goes_on_and_so_do_the_others(self) -> None:
        stage = replace(STAGE, left_s=20.0, elsewhere_cpu_core_s=3.0, elsewhere_speed=0.5)
        older = aged(replace(PLAN, stages=(stage,)), 4.0)
        assert (older.left_s, older.elapsed_s) == (46.0, 54.0)
        assert older.stages[0].left_s == 16.0
        assert older.stages[0].elsewhere_cpu_core_s == pytest.approx(5.0)

    def test_no_deadline_stays_none(self) -> None:
        free = replace(PLAN, deadline_s=None, left_s=None)
        assert aged(free, 9.0).left_s is None
        assert aged(PLAN, 0.0) is PLAN


def test_a_live_stage_is_the_others_part_and_the_own_one() -> None:
    stage = replace(STAGE, elsewhere_running=1, elsewhere_done=2, elsewhere_records=30.0, elsewhere_cpu_core_s=4.0)
    (live,) = live_stages(replace(PLAN, stages=(stage,)), ObservedExecutor(4, {(3, 0): OwnStage(3, 4, 50.0, 5.0, 6.0)}, 0.0))
    assert (live.running, live.done, live.records, live.records_running, live.cpu_core_s) == (4, 6, 80.0, 5.0, 10.0)
    assert live.own_running == 3

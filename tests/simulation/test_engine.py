"""The virtual cluster does exactly the work there is, in the time it must take."""

from __future__ import annotations

import random

import pytest

from experiments.simulator.engine import Engine
from experiments.simulator.fixed import Fixed, everything
from experiments.simulator.jobs import Shape, SimJob, SimStage
from experiments.simulator.learn import pre_run
from experiments.simulator.state import IDEAL, App, Effects, SimExecutor, SimSubmission, Task, workers
from tests.fakes.jobs import log_normal_job


def ran(job: SimJob, *, count: int = 1, cores: float = 2.0, slots: int = 2, effects: Effects = IDEAL) -> App:
    """Run a job with no others, on all cores."""
    return Engine(workers(count, cores, slots), [SimSubmission(job)], everything(), effects=effects).run()[0]


def stages(*works: tuple[float, ...], **changes: float) -> SimJob:
    return SimJob(tuple(SimStage(each, **changes) for each in works))  # type: ignore[arg-type]


def test_tasks_share_an_executors_quota_and_a_task_has_a_core_at_most() -> None:
    # 3 tasks of 1 on 2 slots and 1 core: two at half speed until 2, then a single one at full speed until 3
    app = ran(stages((1.0, 1.0, 1.0)), cores=1.0)
    assert app.end_s == pytest.approx(3.0)
    # on 2 cores: two until 1, one until 2, during which half of what is allocated goes unused
    app = ran(stages((1.0, 1.0, 1.0)))
    assert app.end_s == pytest.approx(2.0)
    assert app.used_core_s == pytest.approx(3.0)
    assert app.allocated_core_s == pytest.approx(4.0)


def test_a_wait_holds_the_slot_and_uses_no_cpu() -> None:
    # two tasks of 1 and 1 s of waiting on one core: both wait at once, then share: 1 + 2
    app = ran(stages((1.0, 1.0), wait_s=1.0), cores=1.0)
    assert app.end_s == pytest.approx(3.0)
    assert app.used_core_s == pytest.approx(2.0)


def test_a_stage_waits_for_its_parents_and_its_gap() -> None:
    # two branches at once on 2 slots, 1 and 2 long; the third follows the longer one after half a second
    job = SimJob(
        (SimStage((1.0,), parents=()), SimStage((2.0,), parents=()), SimStage((1.0,), parents=(0, 1), gap_s=0.5)),
        startup_s=3.0,
        tail_s=0.25,
    )
    app = ran(job)
    assert app.stage_ends_s == pytest.approx({0: 4.0, 1: 5.0, 2: 6.5})
    assert app.end_s == pytest.approx(6.75)
    # allocation counts from the first to the last task
    assert app.allocated_core_s == pytest.approx(2 * 3.5)


def test_something_else_takes_half_of_a_workers_cores_at_times() -> None:
    # two tasks of 50 on two cores: at half speed while half is taken
    effects, cluster = Effects(burst_gap_s=10.0, burst_s=5.0), workers(1, 2.0, 2)
    draws, end_s, left, speed = random.Random("0 bursts"), 0.0, 50.0, 1.0
    while left > (lasts_s := draws.expovariate(1 / (10.0 if speed == 1 else 5.0))) * speed:
        end_s, left, speed = end_s + lasts_s, left - lasts_s * speed, 1.5 - speed
    app = Engine(cluster, [SimSubmission(stages((50.0, 50.0)))], everything(), effects=effects).run()[0]
    assert app.end_s == pytest.approx(end_s + left / speed)
    assert end_s + left / speed > 51, "no burst with this seed"
    # a quota of half leaves nothing to take
    half = Engine(cluster, [SimSubmission(stages((50.0, 50.0)))], Fixed(lambda _: 1.0), effects=effects).run()[0]
    assert half.end_s == pytest.approx(100.0)


def test_the_first_waves_of_an_executor_cost_more() -> None:
    # one slot: the first task costs 1 + 0.5, the second 1 + 0.25, the others 1
    app = ran(stages((1.0, 1.0, 1.0)), cores=1.0, slots=1, effects=Effects(warm_up=0.5))
    assert app.end_s == pytest.approx(3.75)


def test_executors_take_tasks_once_they_are_launched() -> None:
    assert ran(stages((1.0,)), effects=Effects(launch_s=2.0)).end_s == pytest.approx(3.0)


def test_stranded_quota_slows_only_a_throttled_executor() -> None:
    effects = Effects(stranded_cores=0.1)
    assert ran(stages((1.0,)), effects=effects).end_s == pytest.approx(1.0)
    # two tasks on 1 core: 0.9 cores are left for 2 core-seconds
    assert ran(stages((1.0, 1.0)), cores=1.0, effects=effects).end_s == pytest.approx(2 / 0.9)


class KillsOnce(Fixed):
    """A scheduler that kills the executor after 1.5 s and starts another at once."""

    def arrived(self, app: App) -> None:
        super().arrived(app)
        assert self.engine
        self.engine.at(1.5, self._kill, app)

    def _kill(self, app: App) -> None:
        assert self.engine
        executor = app.live[0]
        self.engine.stop(executor)
        self.engine.start(app, executor.worker, executor.quota)


def test_a_killed_executor_loses_what_its_running_tasks_have_done() -> None:
    # one slot, tasks of 1: at 1.5 one is done and half of the second is lost
    control = KillsOnce(lambda worker: worker.cores)
    app = Engine(workers(1, 1.0), [SimSubmission(stages((1.0, 1.0, 1.0)))], control).run()[0]
    assert app.lost_core_s == pytest.approx(0.5)
    assert app.end_s == pytest.approx(3.5)
    assert app.used_core_s == pytest.approx(3.5)


class Slows(Fixed):
    """A scheduler that leaves a quarter of the cores after the first task."""

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        assert self.engine
        self.engine.set_quota(executor, 0.25)


def test_a_quota_changes_the_speed_from_its_moment_on() -> None:
    app = Engine(workers(1, 1.0), [SimSubmission(stages((1.0, 1.0)))], Slows(lambda _: 1.0)).run()[0]
    assert app.end_s == pytest.approx(1 + 4)
    assert app.allocated_core_s == pytest.approx(1 + 0.25 * 4)


def test_the_same_seed_gives_the_same_run() -> None:
    job = log_normal_job(random.Random(1), [20, 10], [1.0, 2.0], cv=0.5)
    assert ran(job, count=3).stage_ends_s == ran(job, count=3).stage_ends_s


def test_a_job_of_another_size_has_as_many_tasks_of_so_much_more_work() -> None:
    shape = Shape((8, 4), (1.0, 2.0), cv=0.3)
    small, large = shape.draw(random.Random(1)), shape.draw(random.Random(1), 2.0)
    assert large.work_core_s == pytest.approx(2 * small.work_core_s)
    assert [len(s.works) for s in large.stages] == [8, 4]
    assert large.stages[0].records == 2 * (small.stages[0].records or 0)


def chain(count: int, **changes: float) -> SimJob:
    """Make stages of one task of one core-second, one after the other."""
    return stages(*(((1.0,),) * count), **changes)


def tasks_by_executor(seed: int, count: int = 12) -> list[str]:
    """Return the executor, of two, that ran each stage of a chain."""
    engine = Engine(workers(2, 1.0), [SimSubmission(chain(count))], everything(), seed=seed)
    (app,) = engine.run()
    ran_it = {place: e.name for e in app.executors for place in e.counters}
    return [ran_it[place] for place in range(count)]


def test_any_free_executor_may_get_a_task_and_the_seed_draws_which() -> None:
    first = tasks_by_executor(seed=1)
    assert set(first) == {"1", "2"}
    assert first == tasks_by_executor(seed=1)
    assert first != tasks_by_executor(seed=2)


def test_tasks_are_handed_out_round_by_round() -> None:
    # two tasks on two executors of two slots: one each, in any order of drawing
    app = ran(stages((1.0, 1.0)), count=2, cores=1.0, slots=2)
    assert [e.counters[0].done for e in app.executors] == [1, 1]


@pytest.mark.parametrize(("cores", "end_s"), [(1.0, 2.0), (0.5, 2.0), (0.25, 4.0)])
def test_a_hidden_wait_passes_while_the_quota_holds_the_task_back(cores: float, end_s: float) -> None:
    # 1 core-second and 1 s of waiting between its pieces: 2 s with half a core or more
    control = Fixed(lambda _: cores)
    app = Engine(workers(1, 1.0), [SimSubmission(stages((1.0,), hidden_wait_s=1.0))], control).run()[0]
    assert app.end_s == pytest.approx(end_s)
    assert app.used_core_s == pytest.approx(1.0)


def test_what_a_waiting_task_cannot_use_the_others_have() -> None:
    # 0.75 cores for a task that can use 0.25 and a task that can use 0.5 of the core that it would have
    job = SimJob((SimStage((1.0,), hidden_wait_s=3.0, parents=()), SimStage((1.0,), parents=())))
    app = Engine(workers(1, 1.0, 2), [SimSubmission(job)], Fixed(lambda _: 0.75)).run()[0]
    assert app.stage_ends_s == pytest.approx({0: 4.0, 1: 2.0})


def test_the_background_of_an_executor_uses_its_quota_with_tasks_or_without() -> None:
    # two stages of 1 core-second with 2 s of the driver's time between them, of half a core a tenth is not the tasks'
    effects = Effects(background_cores=0.1)
    app = Engine(workers(1, 1.0), [SimSubmission(chain(2, gap_s=2.0))], Fixed(lambda _: 0.5), effects=effects).run()[0]
    assert app.end_s == pytest.approx(2.5 + 2 + 2.5)
    assert app.used_core_s == pytest.approx(2.0 + 0.1 * 7)
    record = pre_run(chain(2, gap_s=2.0), workers(1, 1.0), effects=effects)[1]
    # a container's CPU while a task runs is the stage's, whichever process used it
    assert [stage.work_core_s for stage in record.stages] == pytest.approx([1 / 0.9] * 2, rel=1e-3)


def test_code_is_cold_on_each_executor_once() -> None:
    # the first task of a kind of code costs 0.5 more on each executor; three stages run the same, the last another
    effects = Effects(cold_core_s=0.5)
    job = SimJob((*(SimStage((1.0,), code=0) for _ in range(3)), SimStage((1.0,), code=1)))
    assert ran(job, cores=1.0, slots=1, effects=effects).end_s == pytest.approx(4 + 2 * 0.5)
    # on two executors the extra work moves between the stages from run to run
    longest = set()
    for seed in range(8):
        app = Engine(workers(2, 1.0), [SimSubmission(job)], everything(), effects=effects, seed=seed).run()[0]
        lasted = [app.stage_ends_s[place] - app.stage_starts_s[place] for place in range(4)]
        assert lasted[0] == lasted[3] == pytest.approx(1.5)
        longest.add(tuple(round(seconds, 3) for seconds in lasted[1:3]))
    assert longest == {(1.0, 1.0), (1.5, 1.0), (1.0, 1.5)}


@pytest.mark.parametrize(("cores", "held_back_s"), [(1.0, 0.0), (0.8, 0.0), (0.25, 2.0)])
def test_throttled_time_is_how_long_a_task_that_could_compute_may_not(cores: float, held_back_s: float) -> None:
    # it would use half a core for 2 s; of the 4 s that it takes with a quarter, its own waits take half
    app = Engine(workers(1, 1.0), [SimSubmission(stages((1.0,), hidden_wait_s=1.0))], Fixed(lambda _: cores)).run()[0]
    assert app.executors[0].throttled_s == pytest.approx(held_back_s)
    # a worker of 0.8 cores is a quota, too: what computes all the time is held back for a fifth of the time
    record = pre_run(stages((1.0,)), workers(1, 0.8), effects=IDEAL)[1]
    assert record.stages[0].throttled_s == pytest.approx(0.2 / 0.8)

"""The pure parts of what measures control: shares of a profile, percentiles, made-up applications and their profile."""

from __future__ import annotations

import pytest

from controller.agent.core.step import LoopState, step
from experiments.bench.overhead import decisions, executor
from experiments.bench.overhead.made_up import WORK_CORES, MadeUpDriver, made_up_profile
from experiments.bench.overhead.where import shares
from experiments.harness.machine import PROJECT
from stage_model.forecast.estimate import estimate
from stage_model.history.events import JobStart, StageCompleted, StageSubmitted, TaskEnd


def test_time_is_summed_by_module_and_waiting_does_not_count() -> None:
    spent = {
        (str(PROJECT / "controller/agent/loop.py"), 1, "run_once"): 2.0,
        (str(PROJECT / "controller/agent/loop.py"), 9, "_decide"): 1.0,
        ("/x/lib/python3.11/site-packages/urllib3/connection.py", 1, "request"): 0.5,
        ("~", 0, "<built-in method posix.open>"): 0.25,
        ("/x/lib/python3.11/json/decoder.py", 1, "decode"): 0.25,
        ("~", 0, "<method 'acquire' of '_thread.lock' objects>"): 100.0,
    }
    assert shares(spent) == {
        "controller/agent/loop.py": 0.75,
        "urllib3": 0.125,
        "reading and writing files, built in": 0.0625,
        "Python and its library": 0.0625,
    }
    assert shares({}) == {}


def test_a_made_up_profile_expects_the_work_that_its_applications_need() -> None:
    what = estimate(made_up_profile(3, 20.0))
    assert [stage.tasks for stage in what.stages] == [executor.TASKS] * 3
    assert [stage.work_core_s for stage in what.stages] == pytest.approx([WORK_CORES * 20.0] * 3)
    assert [stage.parents for stage in what.stages] == [(), (0,), (1,)]


def test_a_made_up_driver_tells_of_every_stage_and_task_once_however_often_it_is_asked() -> None:
    seldom, often = (MadeUpDriver("application-1", "token", stages=9, stage_s=20.0) for _ in range(2))
    coarse = [seldom.news(1000.0, 1000.0 + 20 * n) for n in range(5)]
    fine = [often.news(1000.0, 1000.0 + n) for n in range(81)]
    for found in ([event for events in each for event in events] for each in (coarse, fine)):
        assert [e.info.stage for e in found if isinstance(e, StageSubmitted)] == [0, 1, 2, 3, 4]
        assert [e.stage for e in found if isinstance(e, StageCompleted)] == [0, 1, 2, 3]
        ended = [(e.stage, e.index) for e in found if isinstance(e, TaskEnd) and e.stage < 4]
        assert sorted(ended) == [(stage, index) for stage in range(4) for index in range(executor.TASKS)]
        assert sum(isinstance(e, JobStart) for e in found) == 1


def test_stages_of_different_applications_begin_at_different_moments() -> None:
    offsets = [executor.offset_s(f"application-{n}", 20.0) for n in range(50)]
    assert offsets == [executor.offset_s(f"application-{n}", 20.0) for n in range(50)]
    assert len(set(offsets)) == 50
    assert all(0 <= offset < 20 for offset in offsets)


def test_a_decide_step_grants_cores_to_every_executor_within_the_worker() -> None:
    here = decisions.executors(5, seed=1)
    orders, state = step(decisions.snapshot(here, 10.0, 1.0), LoopState(), 1.0)
    assert len(orders.grants) == 5
    assert all(cores >= decisions.QUOTA.floor for cores in orders.grants.values())
    assert sum(orders.grants.values()) <= 10.0 + 1e-9
    # a law decided, so that what is measured is not a special case
    assert all(one.decision and one.decision.planned for one in state.executors.values())

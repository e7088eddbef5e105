"""Container CPU and quota attributed to stages; claims are bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from controller.agent.core.accounting import STAGES_KEPT, Account
from controller.wire.worker import StageUse
from stage_model.progress import SCHEMA, Progress, StageProgress


def progress(*stages: StageProgress) -> Progress:
    return Progress(schema=SCHEMA, executor="1", sequence=1, stages=stages)


def claim(stage: int, running: int, done: int = 0, records_done: int = 0, records_running: int = 0) -> StageProgress:
    return StageProgress(
        stage=stage, attempt=0, running=running, done=done, records_done=records_done, records_running=records_running
    )


def after(slots: int, *looks: Sequence[Any]) -> Account:
    """Return the account after looks: the time, the CPU so far, the claims (None: no report), and the time that the quota has
    held threads back, where it is known."""
    account = Account(slots)
    for now_s, cpu_s, claims, *throttled_s in looks:
        account = account.observed(now_s, cpu_s, 1.0, None if claims is None else progress(*claims), *throttled_s)
    return account


def uses(account: Account) -> dict[int, StageUse]:
    return {use.stage: use for use in account.uses()}


def test_cpu_and_quota_go_to_the_stage_that_runs() -> None:
    account = Account(slots=2).observed(10.0, 5.0, 1.0, progress(claim(1, 2)))
    # 2 core-seconds in 4 s under a quota of 1.5
    use = uses(account.observed(14.0, 7.0, 1.5, progress(claim(1, 1, done=1))))[1]
    assert (use.cpu_core_s, use.allocated_core_s, use.speed) == pytest.approx((2.0, 6.0, 0.5))


def test_the_cpu_of_running_tasks_begins_again_with_each_task() -> None:
    looks: list[Sequence[Any]] = [(float(second), float(second), [claim(1, 1)]) for second in range(4)]
    assert uses(after(1, *looks))[1].cpu_running_core_s == pytest.approx(3.0)
    # one ends and another begins in the middle of a second
    looks.append((4.0, 4.0, [claim(1, 1, done=1)]))
    assert uses(after(1, *looks))[1].cpu_running_core_s == pytest.approx(0.5)
    use = uses(after(1, *looks, (5.0, 4.0, [claim(1, 0, done=2)])))[1]
    assert use.cpu_running_core_s == 0.0
    assert use.cpu_core_s == pytest.approx(4.0)


def test_of_several_running_tasks_the_oldest_is_taken_to_end_first() -> None:
    # a second task joins: both use half a core from then on, it began half-way
    looks = ((0.0, 0.0, [claim(1, 1)]), (2.0, 2.0, [claim(1, 1)]), (4.0, 4.0, [claim(1, 2)]))
    assert uses(after(2, *looks))[1].cpu_running_core_s == pytest.approx(2 + 1 + 0.5)
    ended = after(2, *looks, (6.0, 6.0, [claim(1, 1, done=1)]))
    assert uses(ended)[1].cpu_running_core_s == pytest.approx(0.5 + 1)


def test_stages_at_the_same_time_share_by_running_tasks() -> None:
    both = [claim(1, 3), claim(2, 1)]
    account = after(4, (0.0, 0.0, both), (1.0, 4.0, both))
    assert (uses(account)[1].cpu_core_s, uses(account)[2].cpu_core_s) == pytest.approx((3.0, 1.0))


def test_a_task_that_began_and_ended_between_two_looks_counts_half() -> None:
    # stage 1 ran one task, stage 2 ended two in between: 1 to 1
    account = after(4, (0.0, 0.0, [claim(1, 1)]), (1.0, 4.0, [claim(1, 1), claim(2, 0, done=2)]))
    assert uses(account)[2].cpu_core_s == pytest.approx(2.0)


def test_without_progress_cpu_goes_on_to_what_ran_last() -> None:
    account = after(2, (0.0, 0.0, [claim(1, 2)]), (1.0, 1.0, None), (2.0, 2.0, None))
    assert uses(account)[1].cpu_core_s == pytest.approx(2.0)
    assert account.executor(2.0, 1.0).idle_s == 0.0


def test_counters_never_go_backwards() -> None:
    more, fewer = claim(1, 1, done=5, records_done=500), claim(1, 1, done=2, records_done=100)
    use = uses(after(2, (0.0, 3.0, [more]), (1.0, 1.0, [fewer])))[1]
    assert (use.done, use.records, use.cpu_core_s) == (5, 500.0, 0.0)


def test_at_most_as_many_tasks_run_as_there_are_slots() -> None:
    account = after(2, (0.0, 0.0, [claim(1, 1_000_000), claim(2, 1)]))
    # the newest stage, the last in the file, is believed first
    assert (uses(account)[2].running, uses(account)[1].running) == (1, 1)


def test_a_stage_no_longer_in_the_file_does_not_run() -> None:
    use = uses(after(2, (0.0, 0.0, [claim(1, 2, records_running=7)]), (1.0, 1.0, [claim(2, 1)])))[1]
    assert (use.running, use.records_running, use.speed) == (0, 0.0, 0.0)


def test_records_of_running_tasks_need_running_tasks() -> None:
    assert uses(after(2, (0.0, 0.0, [claim(1, 0, records_running=99)])))[1].records_running == 0.0


def test_stages_that_ended_a_while_ago_are_no_longer_reported() -> None:
    looks = ((0.0, 0.0, [claim(1, 2)]), (1.0, 1.0, [claim(2, 2)]))
    assert set(uses(after(2, *looks))) == {1, 2}
    assert {use.stage for use in after(2, *looks, (62.0, 1.0, [claim(2, 2)])).uses(since_s=2.0)} == {2}


def test_an_executor_is_up_once_it_has_reported() -> None:
    looks: list[Sequence[Any]] = [(0.0, 0.0, None), (1.0, 0.0, []), (2.0, 0.0, None)]
    assert [after(2, *looks[:count]).executor(0.0, 1.0).up for count in (1, 2, 3)] == [False, True, True]


def test_what_running_tasks_had_read_and_used_is_summed_over_the_looks() -> None:
    account = after(1, *((float(second), float(second), [claim(1, 1, records_running=10 * second)]) for second in range(4)))
    stage = account.executor(3.0, 1.0).stages[(1, 0)]
    # a task that is new at a look has begun at it here, as nothing was used before; it used a core since
    assert stage.seen_records == 60.0
    assert stage.seen_core_s == pytest.approx(6.0)


def test_idle_time_counts_from_the_last_task() -> None:
    assert after(2, (0.0, 0.0, None)).executor(0.0, 1.0).idle_s is None
    ended = [claim(1, 0, done=1)]
    account = after(2, (0.0, 0.0, None), (1.0, 0.0, [claim(1, 1)]), (2.0, 0.5, ended), (5.0, 0.5, ended))
    assert account.executor(5.0, 1.0).idle_s == pytest.approx(3.0)


def test_a_file_that_names_new_stages_all_the_time_does_not_fill_the_memory() -> None:
    account = after(2, *((float(tick), 0.0, [claim(1000 * tick + n, 0) for n in range(100)]) for tick in range(20)))
    assert len(account.stages) == STAGES_KEPT
    # the last touched ones are kept
    assert {(1000 * 19 + n, 0) for n in range(100)} <= set(account.stages)


def test_the_time_that_a_quota_held_an_executor_back_goes_to_stages_as_its_cpu_does() -> None:
    both = [claim(1, 3), claim(2, 1)]
    # what the counters showed before the first look belongs to no stage: an agent that begins again loses only that
    looks: list[Sequence[Any]] = [(0.0, 7.0, both, 40.0)]
    for look, held_back in (
        ((1.0, 8.0, both, 42.0), (1.5, 0.5)),
        ((2.0, 0.5, both, 0.25), (1.5, 0.5)),  # the executor's process began again, and its counter with it
        ((3.0, 1.0, [claim(1, 4)], 1.25), (1.5 + 1.0, 0.5)),
    ):
        looks.append(look)
        account = after(4, *looks)
        assert (uses(account)[1].throttled_s, uses(account)[2].throttled_s) == pytest.approx(held_back)


def test_a_stage_of_which_a_part_of_the_throttled_time_is_not_known_has_none() -> None:
    account = after(
        2,
        (0.0, 0.0, [claim(1, 2)], 0.0),
        (1.0, 1.0, [claim(1, 2)], None),
        (2.0, 2.0, [claim(1, 0, done=2), claim(2, 2)], 1.0),
        (3.0, 3.0, [claim(2, 2)], 1.5),
        (4.0, 4.0, [claim(3, 2)], 2.0),
    )
    assert (uses(account)[1].throttled_s, uses(account)[2].throttled_s) == (None, None)
    assert uses(account)[3].throttled_s == pytest.approx(0.5)

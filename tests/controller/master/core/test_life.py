"""The states of an application's life, and the moves between them."""

from __future__ import annotations

import pytest

from controller.master.core.life import MOVES, SHOWN, ImpossibleMove, Life, LifeState
from controller.wire.states import ApplicationState, Outcome
from tests.fakes.cluster import FakeCluster, Later, one_stage_run, report

PATHS: dict[LifeState, tuple[LifeState, ...]] = {
    LifeState.WAITING: (),
    LifeState.HELD_BACK: (LifeState.HELD_BACK,),
    LifeState.RUNNING: (LifeState.RUNNING,),
    LifeState.ENDED: (LifeState.ENDED,),
    LifeState.JUDGED: (LifeState.ENDED, LifeState.JUDGED),
    LifeState.RECORDING: (LifeState.ENDED, LifeState.JUDGED, LifeState.RECORDING),
    LifeState.FINISHED: (LifeState.ENDED, LifeState.JUDGED, LifeState.RECORDING, LifeState.FINISHED),
}
"""A way to each state from the first one."""


@pytest.mark.parametrize("to", LifeState)
@pytest.mark.parametrize("before", LifeState)
def test_a_move_that_is_not_in_the_table_is_refused_and_changes_nothing(before: LifeState, to: LifeState) -> None:
    life = Life()
    for state in PATHS[before]:
        life.move(state)
    if (before, to) in MOVES:
        life.move(to)
        assert life.state is to
    else:
        with pytest.raises(ImpossibleMove, match=f"{before} cannot become {to}"):
            life.move(to)
        assert life.state is before


@pytest.mark.parametrize("state", LifeState)
def test_a_life_begins_only_in_a_state_that_a_record_can_show(state: LifeState) -> None:
    possible = {
        Life.of_record(ended=ended, judged=ended and judged).state for ended in (True, False) for judged in (True, False)
    }
    assert possible == {to for before, to in MOVES if before is None}
    if state in possible:
        assert Life(state).state is state
    else:
        with pytest.raises(ImpossibleMove):
            Life(state)


def test_an_application_that_has_ended_never_runs_again() -> None:
    over = {state for state in LifeState if SHOWN[state] is ApplicationState.ENDED}
    assert {to for before, to in MOVES if before in over} <= over
    for state in over - {LifeState.FINISHED}:
        assert any(before is state for before, _ in MOVES), "each of them goes on to the last one"


@pytest.mark.parametrize("state", LifeState)
def test_an_executor_that_runs_late_or_once_more_moves_nothing(state: LifeState) -> None:
    life = Life()
    for one in PATHS[state]:
        life.move(one)
    life.run()
    assert life.state is (LifeState.RUNNING if state in (LifeState.WAITING, LifeState.HELD_BACK) else state)


def test_an_application_passes_all_states_of_its_life(cluster: FakeCluster) -> None:
    later = Later()
    cluster.pool = later
    cluster.restart()
    cluster.worker("w1")
    first = cluster.register(name="first", instance="first")
    application_id = cluster.register(conf={"spark.pace.after": "first"})
    application = cluster.state.applications[application_id]
    seen = [application.life.state]

    def look() -> None:
        seen.append(application.life.state)
        shown = cluster.state.core.commands.view(application_id, cluster.now_s)
        assert (shown.state, shown.finished) == (SHOWN[seen[-1]], seen[-1] is LifeState.FINISHED)

    def record() -> None:
        cluster.now_s += 20
        cluster.worker("w1")
        cluster.state.tick(cluster.now_s)
        later.work()

    cluster.state.commands.kill(first, cluster.now_s)
    record()
    cluster.state.tick(cluster.now_s)
    look()
    cluster.worker("w1", report(application_id, "1"))
    look()
    events = one_stage_run(1000)
    cluster.driver(application_id, *events, driver_end="to_come")
    look()
    cluster.worker("w1", report(application_id, "1"))
    cluster.driver(application_id, first=len(events) + 1, driver_end="well", ended=True)
    cluster.state.tick(cluster.now_s)
    look()
    cluster.worker("w1")
    cluster.state.tick(cluster.now_s)
    look()
    later.work()
    cluster.state.tick(cluster.now_s)
    look()
    assert seen == list(LifeState)
    assert application.record.outcome is Outcome.SUCCEEDED


def test_a_driver_that_outlived_the_memory_of_the_master_may_be_held_back_before_its_executors_show(
    cluster: FakeCluster,
) -> None:
    first = cluster.register(name="first", instance="first", application_id="pace-20260101-000000-aaaaaa")
    conf = {"spark.pace.after": "first"}
    second = cluster.register(instance="second", application_id="pace-20260101-000000-bbbbbb", conf=conf)
    states = [cluster.state.applications[second].life.state]
    cluster.worker("w1", report(second, "7"))
    states.append(cluster.state.applications[second].life.state)
    assert states == [LifeState.HELD_BACK, LifeState.RUNNING]
    assert cluster.state.applications[first].life.state is LifeState.WAITING


@pytest.mark.parametrize("runs", [True, False])
def test_a_restart_derives_the_state_from_what_is_stored(cluster: FakeCluster, runs: bool) -> None:
    cluster.pool = Later()
    cluster.restart()
    if runs:
        cluster.worker("w1")
    application_id = cluster.register()
    for ends, after in (
        (lambda: None, LifeState.RUNNING if runs else LifeState.WAITING),
        (lambda: cluster.driver(application_id, ended=True, driver_end="to_come"), LifeState.ENDED),
        (lambda: cluster.driver(application_id, ended=True, driver_end="well"), LifeState.ENDED),
        (lambda: cluster.state.tick(cluster.now_s), LifeState.JUDGED),
    ):
        ends()
        cluster.state.store.close()
        cluster.restart()
        assert cluster.state.applications[application_id].life.state is after

"""The state of each application goes only by moves that are in the table, and says what the facts say, whatever happens."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from controller.master.core.application import Application
from controller.master.core.life import MOVES, LifeState
from tests.properties.test_incremental import World, each_time, histories, world

TO_RUN = {LifeState.WAITING, LifeState.HELD_BACK}


def reachable(before: LifeState) -> set[LifeState]:
    """Return the states that moves of the table lead to, the one before included."""
    found, left = {before}, [before]
    while left:
        state = left.pop()
        further = {to for old, to in MOVES if old is state} - found
        found |= further
        left += further
    return found


def possible(world: World, application: Application) -> set[LifeState]:
    """Return the states that fit the application's record, its executors and its row in the store."""
    record = application.record
    if record.ended_s is None:
        return {LifeState.RUNNING} if any(e.ran for e in application.executors.values()) else TO_RUN
    if record.outcome is None:
        return {LifeState.ENDED}
    live = {application_id: live for application_id, live, _ in world.state.store.applications()}
    return {LifeState.JUDGED, LifeState.RECORDING} if live[application.id] else {LifeState.FINISHED}


@settings(deadline=None, max_examples=40)
@each_time
@given(histories)
def test_a_life_goes_by_the_table_and_says_what_the_facts_say(history: list[tuple[Any, ...]]) -> None:
    with world() as one:
        for kind, *how in history:
            before = {name: known.life.state for name, known in one.state.applications.items()}
            getattr(one, kind)(*how)
            for name, known in one.state.applications.items():
                assert known.life.state in possible(one, known), (kind, how)
                if kind != "restarts":  # then a life begins once more
                    assert known.life.state in reachable(before.get(name, LifeState.WAITING)), (kind, how)
                assert not known.faults

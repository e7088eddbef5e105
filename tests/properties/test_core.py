"""The core of a period is a function: the same look in the same state gives the same orders, and changes neither."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.agent.core.step import ExecutorInput, LoopState, Snapshot, TimedPlan, step
from controller.runtime.base import ExecutorKey, Observed
from stage_model.progress import SCHEMA, Progress
from stage_model.settings import QuotaSettings
from tests.properties.test_quota_bounds import plans, progress


@st.composite
def looks(draw: st.DrawFn, number: int, now_s: float) -> Snapshot:
    executors, timed = {}, {}
    for name in (f"app-{n}" for n in range(number)):
        key = ExecutorKey(name, "1")
        observed = Observed(key, draw(st.booleans()), draw(st.none() | st.floats(0.1, 4)), draw(st.floats(0, 50)), 0)
        told = Progress(schema=SCHEMA, executor="1", sequence=1, stages=tuple(draw(st.lists(progress, max_size=3))))
        executors[key] = ExecutorInput(
            draw(st.integers(1, 4)),
            draw(st.none() | st.just(observed)),
            draw(st.none() | st.just(told)),
            draw(st.sampled_from([0.1, 0.5])),
            draw(st.booleans()),
        )
        if draw(st.booleans()):
            timed[name] = TimedPlan(draw(plans(name)), now_s - draw(st.floats(0, 5)))
    return Snapshot(draw(st.floats(0.5, 8)), QuotaSettings(), executors, timed)


@settings(max_examples=60)
@given(st.data(), st.integers(1, 4))
def test_a_step_changes_nothing_and_repeats_itself(data: st.DataObject, number: int) -> None:
    state, now_s = LoopState(), 0.0
    for _ in range(data.draw(st.integers(1, 5))):
        now_s += data.draw(st.floats(0.05, 5))
        look = data.draw(looks(number, now_s))
        before = deepcopy((look, state))
        first = step(look, state, now_s)
        assert (look, state) == before
        assert step(look, state, now_s) == first
        assert first[0].troubles == {}
        state = first[1]

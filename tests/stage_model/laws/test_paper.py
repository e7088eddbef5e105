"""The paper's PI law. K = 50, Ti = 12 s, a period of 1 s; expected numbers are computed by hand from the formulas in
docs/design.md, next to each assert."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.agent.core.decide import ObservedExecutor, OwnStage, decide_demand
from stage_model.deadlines import set_point
from stage_model.history.stage_run import StageKey
from stage_model.laws.base import Decision, LawState
from stage_model.laws.paper import PaperLimits, PaperSettings, control_step
from stage_model.plan import ApplicationPlan, StagePlan
from stage_model.settings import QuotaSettings

SETTINGS = PaperSettings()
WIDE = PaperLimits(core_min=0.1, core_max=16, tasks_left=100)
unit = st.floats(min_value=0, max_value=1)
pairs = st.tuples(unit, unit).map(sorted)


def test_on_the_line_the_law_keeps_what_it_has() -> None:
    # e = 0: cs = csi = 2.4, csi' = 2.4 - 0
    assert control_step(2.4, 0.3, 0.3, WIDE, 1, SETTINGS) == (2.4, 2.4)


def test_behind_the_line_it_asks_for_more_and_integrates() -> None:
    # e = 0.02: K*e = 1; integral = 50 * 1/12 * 0.02 = 0.08333; cs = 1 + 2 + 0.08333 = 3.08333 -> 62 quanta = 3.1
    # csi' = 3.1 - 1 = 2.1
    cores, csi = control_step(2.0, 0.32, 0.30, WIDE, 1, SETTINGS)
    assert cores == pytest.approx(3.1)
    assert csi == pytest.approx(2.1)
    fine = PaperLimits(core_min=0.1, core_max=16, tasks_left=100, quantum=1e-6)
    assert control_step(2.0, 0.32, 0.30, fine, 1, SETTINGS)[0] == pytest.approx(37 / 12, abs=1e-5)


def test_saturation_is_fed_back_so_nothing_winds_up() -> None:
    # e = 0.5: K*e = 25, far above coreMax 4: cs = 4, csi' = 4 - 25 = -21, however long it lasts.
    limits = PaperLimits(core_min=0.1, core_max=4, tasks_left=100)
    csi = 2.0
    for _ in range(100):
        cores, csi = control_step(csi, 0.6, 0.1, limits, 1, SETTINGS)
        assert cores == 4
    assert csi == pytest.approx(-21)
    # Back on the line the error term is gone: cs = -21 < least, so 0.1; no long tail of past errors.
    cores, csi = control_step(csi, 0.6, 0.6, limits, 1, SETTINGS)
    assert cores == pytest.approx(0.1)
    assert csi == pytest.approx(0.1)


def test_tasks_left_cap_the_cores() -> None:
    limits = PaperLimits(core_min=0.1, core_max=8, tasks_left=3)
    assert control_step(6, 0.9, 0.5, limits, 1, SETTINGS)[0] == 3
    assert control_step(6, 0.9, 0.5, PaperLimits(0.1, 8, 0), 1, SETTINGS)[0] == 0


def test_after_the_set_point_has_reached_1_everything_is_asked_for() -> None:
    assert control_step(1.0, 1.0, 0.95, PaperLimits(0.1, 8, 5), 1, SETTINGS) == (5, 1.0)
    # Also when it is nearly there: the paper has no exception.
    assert control_step(1.0, 1.0, 1.0, PaperLimits(0.1, 8, 5), 1, SETTINGS)[0] == 5


def test_a_ceiling_that_is_no_multiple_of_the_quantum_still_holds() -> None:
    assert control_step(9, 0.5, 0.5, PaperLimits(0.1, 1.03, 9), 1, SETTINGS)[0] == 1.03


def test_the_set_point_rises_linearly_to_1() -> None:
    assert [set_point(t, 20) for t in (-1, 0, 5, 20, 30)] == [0, 0, 0.25, 1, 1]
    assert set_point(0, 0) == 1


limits = st.builds(
    PaperLimits, core_min=st.floats(0.01, 0.5), core_max=st.floats(0.5, 32), tasks_left=st.integers(0, 200).map(float)
)
integrals = st.floats(-100, 100)
settings = st.builds(PaperSettings, k=st.floats(0.1, 100), ti_s=st.floats(0.5, 60))
periods = st.floats(0.1, 5)


@given(integrals, unit, unit, limits, periods, settings)
def test_cores_stay_within_their_bounds(
    csi: float, planned: float, progress: float, bounds: PaperLimits, dt_s: float, constants: PaperSettings
) -> None:
    cores, after = control_step(csi, planned, progress, bounds, dt_s, constants)
    # rounding up to whole quanta takes 0.1 + 2e-17 for 0.1
    assert min(bounds.core_min, bounds.ceiling) - 1e-9 <= cores <= bounds.ceiling
    assert math.isfinite(after)


@given(integrals, pairs, pairs, limits, periods, settings)
def test_less_progress_or_a_steeper_plan_never_means_fewer_cores(
    csi: float, planned: list[float], progress: list[float], bounds: PaperLimits, dt_s: float, constants: PaperSettings
) -> None:
    def cores(at: float, done: float) -> float:
        return control_step(csi, at, done, bounds, dt_s, constants)[0]

    (flat, steep), (behind, ahead) = planned, progress
    assert cores(steep, behind) >= cores(steep, ahead) - 1e-9
    assert cores(steep, ahead) >= cores(flat, ahead) - 1e-9


# ---------------------------------------------------------------- control groups


def stage(number: int, *, planned: float = 0.0, **fields: object) -> StagePlan:
    """Make a stage of 20 tasks with `planned` of its 40 s gone; coreMax is twice the initial core."""
    known = StagePlan(stage=number, attempt=0, tasks=20, left_s=40 * (1 - planned), length_s=40.0, initial_cores=1.0)
    return msgspec.structs.replace(known, **fields)


def decided(
    *stages: StagePlan, done: Mapping[int, int] | None = None, running: int = 0, csi: Mapping[StageKey, float] | None = None
) -> Decision:
    """Decide with `done` here, by stage; `running` of the first stage here; `csi` by control group."""
    plan = ApplicationPlan(
        application_id="a", name="a", law="paper", deadline_s=100.0, left_s=50.0, elapsed_s=50.0, stages=stages, slots=4
    )
    own = {(number, 0): OwnStage(0, count) for number, count in (done or {}).items()}
    if running:
        own[(stages[0].stage, 0)] = OwnStage(running)
    state = LawState(None, dict(csi or {}))
    return decide_demand(plan, ObservedExecutor(4, own, 0.0), state, dt_s=1.0, quota=QuotaSettings())


def test_a_stage_that_begins_when_no_time_is_left_gets_all_slots() -> None:
    # alpha * deadline had passed when it began: a deadline of 0 s, infinite cores, so 4 slots; 5 s later as well
    late = stage(3, left_s=0.0, length_s=0.0, initial_cores=4.0)
    got = decided(late)
    assert (got.set_point, got.demand) == (1.0, 4.0)
    later = decided(msgspec.structs.replace(late, left_s=-5.0))
    assert (later.set_point, later.demand) == (1.0, 4.0)
    # of its last 3 tasks 2 run elsewhere: there is one to run here
    last = decided(msgspec.structs.replace(late, tasks=3, elsewhere_running=2), running=1)
    assert (last.set_point, last.demand) == (1.0, 1.0)


@pytest.mark.parametrize(("initial", "cores"), [(0.6, 1.2), (3.0, 4.0), (math.inf, 4.0)])
def test_a_late_stage_gets_twice_its_initial_cores_but_never_more_than_the_slots(initial: float, cores: float) -> None:
    assert decided(stage(3, planned=1.0, initial_cores=initial)).demand == pytest.approx(cores)


def test_a_stage_without_a_deadline_has_no_set_point_and_asks_for_nothing() -> None:
    unknown = decided(stage(3, left_s=None, length_s=None, initial_cores=None))
    assert (unknown.set_point, unknown.demand) == (None, 0.0)


def test_a_later_stage_goes_on_with_the_integrator_of_its_own_group() -> None:
    # both are on their line (a quarter; half of the group): each keeps its csi, 0.3 + 1.2
    other = stage(3, planned=0.25)
    second = stage(6, planned=0.5, group=(5, 0), group_base=0.5, group_share=0.5)
    got = decided(other, second, done={3: 5}, csi={(3, 0): 0.3, (5, 0): 1.2})
    assert got.demand == pytest.approx(1.5)
    assert got.state.kept == pytest.approx({(3, 0): 0.3, (5, 0): 1.2})


def test_a_stage_with_nothing_to_run_here_for_a_period_keeps_its_integrator() -> None:
    # all tasks of stage 3 run elsewhere
    busy = decided(stage(3, tasks=5, elsewhere_running=5), stage(4), csi={(3, 0): 0.8, (4, 0): 0.4})
    assert busy.demand == pytest.approx(0.4)
    # one has failed and may come here: 0.8 + 0.4, not the initial core + 0.4
    got = decided(stage(3, tasks=5, elsewhere_running=4), stage(4), csi=busy.state.kept)
    assert got.demand == pytest.approx(1.2)


def test_between_two_stages_of_a_group_its_integrator_is_kept_although_another_stage_runs() -> None:
    alone = decided(stage(1), csi={(1, 0): 0.2, (5, 0): 1.2})
    second = stage(6, planned=0.5, group=(5, 0), group_base=0.5, group_share=0.5)
    assert decided(stage(1), second, csi=alone.state.kept).demand == pytest.approx(0.2 + 1.2)


def test_an_ended_stage_is_forgotten_once_another_has_begun() -> None:
    got = decided(stage(4), csi={(3, 0): 0.8, (4, 0): 0.4})
    assert set(got.state.kept) == {(4, 0)}


def test_stages_of_a_group_under_way_at_once_are_controlled_as_one() -> None:
    # half of the first half and no part of the second are done: a quarter, as planned, so the group keeps its csi
    first = stage(5, planned=0.25, group=(5, 0), group_share=0.5)
    second = stage(6, planned=0.25, group=(5, 0), group_base=0.5, group_share=0.5)
    got = decided(first, second, done={5: 10}, csi={(5, 0): 1.2})
    assert (got.set_point, got.progress, got.demand) == pytest.approx((0.25, 0.25, 1.2))


def test_a_plan_that_names_no_group_is_one_of_its_own() -> None:
    old = msgspec.json.decode(b'{"stage": 3, "attempt": 1, "tasks": 20}', type=StagePlan)
    assert old.control_group == (3, 1)


@given(st.data(), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=4))
def test_the_order_of_stages_does_not_matter(data: st.DataObject, done: list[tuple[int, int]]) -> None:
    """Groups of two stages each: first all firsts are under way, then all seconds."""

    def run(order: list[int]) -> tuple[float, Mapping[StageKey, float]]:
        csi: dict[StageKey, float] = {}
        for turn in (0, 1):
            now = turn / 2
            begun = [2 * number for number in order]
            stages = [stage(n + turn, planned=0.4 + now, group=(n, 0), group_base=now, group_share=0.5) for n in begun]
            got = decided(*stages, done={n + turn: done[n // 2][turn] for n in begun}, csi=csi)
            csi = got.state.kept
        return got.demand, got.state.kept

    places = list(range(len(done)))
    assert run(data.draw(st.permutations(places))) == run(places)

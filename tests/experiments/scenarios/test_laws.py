"""Conclusions of the simulated comparison of laws from its rows; the comparison really simulates."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from experiments.harness.recorded import Data, RowStep
from experiments.scenarios.laws import LawLimits, Laws
from experiments.simulator.compare import YARDSTICKS, Case, LawRow, variants

CASE = "hard"


def scenario(**changed: Any) -> Laws:
    return Laws(cases=(Case(name=CASE, wrong=0.3),), goal_case=CASE, repetitions=1, seeds=1, **changed)


def row(law: str, error_pct: float, allocated: float = 102.0, seed: int = 1) -> dict[str, Any]:
    made = LawRow(
        case=CASE,
        law=law,
        seed=seed,
        base_s=50.0,
        deadline_s=100.0,
        end_s=100.0 + error_pct,
        error_pct=error_pct,
        allocated_core_s=allocated,
        used_core_s=100.0,
        writes=10,
    )
    return dict(msgspec.to_builtins(made))


def data(*rows: dict[str, Any]) -> Data:
    return Data(rows={"block-0": RowStep(step="block-0", session=1, took_s=1.0, rows=rows)})


def failed(found: Data) -> list[str]:
    return [condition.name for condition in scenario().conditions(found) if not condition.holds]


def test_all_hold_where_forecast_is_within_its_limits_and_the_best() -> None:
    good = data(row("forecast", -0.5), row("paper", -3.0, 110.0), row("paper, alpha 1", 2.0, 104.0))
    conditions = scenario().conditions(good)
    assert len(conditions) == 1 + 2 * 3
    assert all(condition.holds for condition in conditions)
    assert all("simulated" in condition.name for condition in conditions[1:])


def test_each_limit_and_each_comparison_can_fail() -> None:
    # one of two is late: 50% violations; errors of 1.5 on average; 6% more allocated than used, the paper's law less
    bad = data(row("forecast", 1.0, 106.0), row("forecast", -2.0, 106.0, 2), row("paper", -1.0, 104.0))
    assert len(failed(bad)) == 6


def test_a_missing_block_is_reported() -> None:
    assert failed(Data()) == ["every step was run"]


def test_the_table_names_case_law_and_n() -> None:
    table = scenario().tables(data(row("forecast", -0.5), row("forecast", 0.5, 104.0, 2)))
    assert "| hard | forecast | 2 | 50.0 | 0.50 | 0.50 | +0.00 | 0.50 | -0.50 | +0.50 | 1.030 | 103 | 10 |" in table


def test_a_block_runs_every_law_and_yardstick_on_the_same_job() -> None:
    rows = [msgspec.convert(one, type=LawRow) for one in scenario(seed=3).simulate("block-0")]
    assert [one.law for one in rows] == [*variants(4), *YARDSTICKS]
    assert len({(one.seed, one.base_s, one.deadline_s) for one in rows}) == 1
    by_law = {one.law: one for one in rows}
    # its end is not quite monotonous in cores, as they decide which task warms which executor up
    assert by_law["oracle constant"].error_pct == pytest.approx(0.0, abs=0.5)
    assert by_law["all cores"].end_s == pytest.approx(by_law["all cores"].base_s, abs=0.01)
    # the job's needs do not depend on its control, except for the order in which its tasks warm executors up
    assert max(o.used_core_s for o in rows) < 1.02 * min(o.used_core_s for o in rows)


def test_goals_tell_measured_and_limit_and_the_paper_at_its_best() -> None:
    mixed = data(
        row("forecast", -0.5), row("forecast", 0.5, seed=2), row("paper", -3.0, 104.0), row("paper, alpha 1", 0.2, 101.0)
    )
    found = [(goal.measured, goal.limit, goal.met) for goal in scenario().goals(mixed)]
    # half are late, and no paper variant in all is the best: each measure has its own
    assert found == [
        (50, 1, False),
        (50, 0, False),
        (0.5, 0.75, True),
        (0.5, 0.2, False),
        (1.02, 1.03, True),
        (1.02, 1.01, False),
    ]
    assert scenario().goals(Data()) == []


def test_a_case_may_have_limits_of_its_own_and_is_compared_where_it_is_named_only() -> None:
    wide = scenario(limits={CASE: LawLimits(violations_pct=60.0)})
    other = Laws(cases=wide.cases, goal_case="another", limits=wide.limits)
    found = [(goal.measured, goal.limit, goal.met) for goal in other.goals(data(row("forecast", -0.5), row("forecast", 0.5)))]
    assert found == [(50, 60, True), (0.5, 0.75, True), (1.02, 1.03, True)]

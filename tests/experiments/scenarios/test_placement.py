"""The experiments of placement: their specs can be read, and their conditions say what the rows say."""

from __future__ import annotations

from pathlib import Path

from experiments.harness.experiment import read_spec
from experiments.harness.recorded import Data, RowStep
from experiments.scenarios import make_scenario
from experiments.scenarios.placement import Placement
from experiments.scenarios.placing import PlacingSpeed
from experiments.scenarios.spillover import Spillover
from experiments.scenarios.waiting import Waiting


def rows(step: str, *found: dict[str, object]) -> RowStep:
    return RowStep(step=step, session=1, took_s=1.0, rows=found)


def spilled(policy: str, seed: int, throughput: float) -> dict[str, object]:
    return {
        "policy": policy, "load": 0.5, "seed": seed, "tasks": 9, "throughput": throughput,
        "spread": 0.1, "slowdown": 1.0, "waited": 0.0,
    }  # fmt: skip


def test_throughput_is_compared_seed_by_seed() -> None:
    scenario = Spillover(nodes=(), kinds=(), loads=(0.5,), policies=("random", "resource-pick-kx", "smooth-wrr"), seconds=1.0)
    found = [
        *(spilled("random", seed, 0.5) for seed in (1, 2)),
        *(spilled("resource-pick-kx", seed, 0.575) for seed in (1, 2)),
        *(spilled("smooth-wrr", seed, 0.55) for seed in (1, 2)),
    ]
    data = Data(rows={"load-0.5": rows("load-0.5", *found)})
    conditions = scenario.conditions(data)
    assert [c.holds for c in conditions] == [True, True, True]
    assert "+15.0%" in conditions[1].detail
    assert "+5.0 points" in conditions[2].detail


def test_the_forecast_of_waiting_is_judged_against_fifo_and_its_variants_against_each_other() -> None:
    scenario = Waiting(maps=(4, 12), repetitions=2)

    def row(scheduler: str, maps: int, seed: int, mean_s: float, local: float) -> dict[str, object]:
        return {
            "scheduler": scheduler, "maps": maps, "seed": seed, "mean_s": mean_s, "local": local,
            "forecasts": 10, "right": 2, "near": 5, "waits_right": 9,
        }  # fmt: skip

    # mean time and share of local maps of the jobs of 4 and of 12 maps
    runs = {
        "fifo": ((20.0, 0.5), (100.0, 0.75)),
        "fair": ((10.0, 1.0), (160.0, 1.0)),
        "rfd-intended": ((12.0, 1.0), (96.0, 0.75)),
        "rfd-printed": ((30.0, 0.75), (102.0, 0.5)),
    }
    found = {}
    for seed in (0, 1):
        small = [row(name, 4, seed, *of) for name, (of, _) in runs.items()]
        large = [row(name, 12, seed, *of) for name, (_, of) in runs.items()]
        found[f"mix-{seed}"] = rows(f"mix-{seed}", *small, *large)
    data = Data(rows=found)
    by_name = {c.name: (c.holds, c.detail) for c in scenario.conditions(data)}
    assert {name: holds for name, (holds, _) in by_name.items()} == {
        "every step was run": True,
        "rfd-intended: jobs take less time than under FIFO": True,
        "rfd-intended: more maps are local than under FIFO": True,
        "rfd-printed: jobs take less time than under FIFO": False,
        "rfd-printed: more maps are local than under FIFO": False,
        "rfd-intended: jobs take no longer than under rfd-printed": True,
    }
    # 54 s of 60 s; 13 of 16 maps, where 11 were
    assert by_name["rfd-intended: jobs take less time than under FIFO"][1].startswith("-10.0%")
    assert by_name["rfd-intended: more maps are local than under FIFO"][1].startswith("+12.5 points")
    assert "| 4 | rfd-intended | 2 | 12.0 | +20.0 | 0.0 | -40.0 | 0.0 | 100 | 20 | 20 | 50 | 90 |" in scenario.tables(data)


def test_waiting_mixes_all_sizes_in_each_step() -> None:
    found = Waiting(maps=(2, 4), repetitions=3).simulate("mix-2")
    assert [row["maps"] for row in found] == [2, 4] * 4
    assert {row["seed"] for row in found} == {1002}


def test_every_policy_meets_the_same_jobs_and_each_begins_once() -> None:
    _, spec = read_spec("placement")
    scenario = make_scenario("placement", spec.settings, 1, Path("x"))
    assert isinstance(scenario, Placement)
    steps = [step for step in scenario.steps() if not step.startswith("base-")]
    assert len(steps) == len(scenario.policies) * scenario.repetitions
    firsts = steps[:: len(scenario.policies)]
    assert [step.rpartition("-")[0] for step in firsts] == list(scenario.policies[: scenario.repetitions])


def test_speed_is_measured_and_judged(tmp_path: Path) -> None:
    _, spec = read_spec("placing")
    small = {"workers": 20, "each": 3, "decisions": 3}
    settings = {**spec.settings, "large": small, "small": small, "prefixes": 50, "lookups": 1000}
    scenario = make_scenario("placing", settings, 1, Path("x"))
    assert isinstance(scenario, PlacingSpeed)
    found = {
        step: RowStep(step=step, session=1, took_s=0.1, rows=tuple(scenario.measure(step, tmp_path)))
        for step in scenario.steps()
    }
    goals = scenario.goals(Data(rows=found))
    # one for the slowest of the large, and of each repetition one for each policy of the small and one for lookups
    assert [goal.unit for goal in goals] == ["ms", *["ms"] * 9, *["us"] * 3]
    assert "among 20 workers" in scenario.conditions(Data(rows=found))[1].name

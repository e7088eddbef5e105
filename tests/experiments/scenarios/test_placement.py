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


def test_waiting_is_judged_by_size_of_the_jobs() -> None:
    scenario = Waiting(maps=(4, 32))

    def row(scheduler: str, maps: int, mean_s: float) -> dict[str, object]:
        made = 10 if scheduler.startswith("rfd") else 0
        return {
            "scheduler": scheduler, "maps": maps, "seed": 1, "mean_s": mean_s, "local": 0.5,
            "forecasts": made, "right": made * 9 // 10, "near": made, "waits_right": made,
        }  # fmt: skip

    found = {
        f"maps-{maps}": rows(f"maps-{maps}", *(row(name, maps, mean) for name, mean in means.items()))
        for maps, means in {
            4: {"fair": 10.0, "rfd-intended": 11.0, "rfd-printed": 9.0},
            32: {"fair": 100.0, "rfd-intended": 70.0, "rfd-printed": 80.0},
        }.items()
    }
    by_name = {c.name: c.holds for c in scenario.conditions(Data(rows=found))}
    assert by_name == {
        "every step was run": True,
        "rfd-intended: jobs of 16 to 64 maps take 28.8% less time than under Fair": True,
        "rfd-intended: jobs of 2 to 8 maps take longer than under Fair": True,
        "rfd-intended: the forecast, rounded, is right in 90% of the cases": True,
        "rfd-printed: jobs of 16 to 64 maps take 28.8% less time than under Fair": False,
        "rfd-printed: jobs of 2 to 8 maps take longer than under Fair": False,
        "rfd-printed: the forecast, rounded, is right in 90% of the cases": True,
    }


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

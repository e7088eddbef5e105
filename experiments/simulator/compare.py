"""The same random jobs under every law and yardstick: rows of errors and costs, one per job and law.

A *case* says what is hard about the jobs (wrong profiles, stragglers, another input size). Every seed gives one job, one
profile and one deadline, which all laws of the case share. Not covered: limits for the rows (the scenario).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from experiments.simulator.jobs import RECORDS_PER_TASK, Shape, SimJob, random_shape
from experiments.simulator.learn import learned, pre_run
from experiments.simulator.state import REAL, Effects
from experiments.simulator.trials import SimCluster, TrialResult, all_cores, oracle, run, static
from stage_model.history.profile import Profile

SLOTS_OF_K = 16
"""The paper's gain of 50 in proportion to an executor's slots: 50 cores at 16 of them."""


@dataclass(frozen=True, slots=True)
class Variant:
    law: str
    settings: Mapping[str, float] = field(default_factory=dict)


def variants(slots: int) -> dict[str, Variant]:
    """Return the production laws that are compared, by the name that tables show."""
    scaled = 50 * slots / SLOTS_OF_K
    return {
        "forecast": Variant("forecast"),
        "paper": Variant("paper"),
        "paper, alpha 1": Variant("paper", {"paper.alpha": 1.0}),
        "paper, no quota cap": Variant("paper", {"paper.quotaCap": 0.0}),
        "paper, alpha 1, no quota cap": Variant("paper", {"paper.alpha": 1.0, "paper.quotaCap": 0.0}),
        "paper, K scaled": Variant("paper", {"paper.k": scaled}),
        "paper, alpha 1, K scaled": Variant("paper", {"paper.alpha": 1.0, "paper.k": scaled}),
    }


YARDSTICKS = ("static from the profile", "oracle constant", "all cores")


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The special features of its jobs. `wrong`: each stage's profile is off by this much, up or down at random; `factor`:
    the whole profile is; `size`: the run's input, in sizes of the profile's. `straggler_share`, `skew`: see `jobs.Shape`. Not
    `records`: tasks read none, so running ones only show by their CPU how far they are. `read_by`: share of their work after
    which tasks have read all records. `doubled`: the profile of that share of the jobs is off by 2, up or down at random.
    `burst_gap_s`: see `engine.Effects`; the profile's run and the one on all cores have no bursts. `base_s` (else the
    setting's), `stages`, `waves`: least and most. `seeds`: their number in each block of the scenario (else as the scenario
    says)."""

    name: str
    wrong: float = 0.0
    factor: float = 1.0
    size: float = 1.0
    straggler_share: float = 0.0
    skew: float = 1.0
    records: bool = True
    read_by: float = 1.0
    doubled: float = 0.0
    burst_gap_s: float = 0.0
    base_s: tuple[float, float] | None = None
    stages: tuple[int, int] = (4, 8)
    waves: tuple[int, int] = (4, 12)
    seeds: int | None = None


class LawRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Seconds, core-seconds; `error_pct` negative: early."""

    case: str
    law: str
    seed: int
    base_s: float
    deadline_s: float
    end_s: float
    error_pct: float
    allocated_core_s: float
    used_core_s: float
    writes: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """The draws of a seed: the job, its profile, its time on all cores, its deadline."""

    job: SimJob
    profile: Profile
    base_s: float
    deadline_s: float


FOUR_BY_FOUR = SimCluster(executors=4, slots=4, cores=4.0)
"""The paper's cluster without its master: 16 cores on four workers."""


@dataclass(frozen=True, slots=True)
class Setting:
    """`base_s`, `stretch`: least and most of the jobs' time on all cores and of deadline / base."""

    cluster: SimCluster = FOUR_BY_FOUR
    base_s: tuple[float, float] = (60.0, 120.0)
    stretch: tuple[float, float] = (1.1, 2.5)
    effects: Effects = REAL


def draw(case: Case, seed: int, setting: Setting) -> Drawn:
    """Draw the seed's job: profiled in one run, to be paced in another, with other tasks of the same distribution."""
    rng = random.Random(seed)
    slots = setting.cluster.executors * setting.cluster.slots
    shape: Shape = random_shape(
        rng,
        slots,
        rng.uniform(*(case.base_s or setting.base_s)),
        stages=case.stages,
        waves=case.waves,
        straggler_share=case.straggler_share,
        skew=case.skew,
        records_per_task=RECORDS_PER_TASK if case.records else None,
        read_by=case.read_by,
        wait_share=rng.uniform(0.0, 0.1),
    )
    before, job = shape.draw(rng), shape.draw(rng, case.size)
    factors = [case.factor * (1 + rng.choice((-1, 1)) * case.wrong) for _ in shape.tasks]
    if case.doubled and rng.random() < case.doubled:  # other cases draw nothing, so their jobs stay as they were
        off = rng.choice((0.5, 2.0))
        factors = [factor * off for factor in factors]
    record = pre_run(before, setting.cluster.workers, effects=setting.effects, seed=seed)[1]
    base_s = all_cores(job, setting.cluster, effects=setting.effects, seed=seed).end_s
    return Drawn(job, learned(record, before.wrong(factors)), base_s, base_s * rng.uniform(*setting.stretch))


def rows(case: Case, seeds: Sequence[int], setting: Setting, laws: Mapping[str, Variant]) -> Iterator[LawRow]:
    """Yield the rows of all laws and yardsticks on each seed's job."""
    effects = replace(setting.effects, burst_gap_s=case.burst_gap_s)
    for seed in seeds:
        drawn = draw(case, seed, setting)
        for name, variant in laws.items():
            out = run(
                drawn.job,
                setting.cluster,
                drawn.deadline_s,
                law=variant.law,
                settings=variant.settings,
                profile=drawn.profile,
                effects=effects,
                seed=seed,
            )
            yield _row(case, name, seed, drawn, out)
        sized = static(drawn.job, setting.cluster, drawn.deadline_s, drawn.profile, effects=effects, seed=seed)
        yield _row(case, YARDSTICKS[0], seed, drawn, sized)
        best = oracle(drawn.job, setting.cluster, drawn.deadline_s, effects=effects, seed=seed)
        yield _row(case, YARDSTICKS[1], seed, drawn, best)
        yield _row(case, YARDSTICKS[2], seed, drawn, all_cores(drawn.job, setting.cluster, effects=effects, seed=seed))


def _row(case: Case, law: str, seed: int, drawn: Drawn, out: TrialResult) -> LawRow:
    return LawRow(
        case=case.name,
        law=law,
        seed=seed,
        base_s=round(drawn.base_s, 3),
        deadline_s=round(drawn.deadline_s, 3),
        end_s=round(out.end_s, 3),
        error_pct=round(out.error_pct(drawn.deadline_s), 4),
        allocated_core_s=round(out.allocated_core_s, 3),
        used_core_s=round(out.used_core_s, 3),
        writes=out.writes,
    )

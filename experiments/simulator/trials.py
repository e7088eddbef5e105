"""One application on a virtual cluster with one rule for its cores, and the outcome.

Besides the production laws there are yardsticks: all cores, a constant number that an oracle finds, a static size from the
profile. Not covered: several applications (`schedulers`, `pacing`), drawing jobs (`jobs`), sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from controller.master.core.capacity import capacity
from controller.master.core.feasibility import feasibility
from experiments.simulator.engine import Engine
from experiments.simulator.fixed import Fixed
from experiments.simulator.jobs import SimJob
from experiments.simulator.learn import learned, pre_run
from experiments.simulator.pacing import Pacing, worker_info
from experiments.simulator.state import IDEAL, App, Effects, SimSubmission, SimWorker, workers
from stage_model.forecast.estimate import estimate
from stage_model.history.profile import Profile

HALVINGS = 12
"""Steps of the oracle's bisection: to a 4000th of the cluster."""


@dataclass(frozen=True, slots=True)
class SimCluster:
    """Workers of one executor each: `slots` and `cores` per executor."""

    executors: int
    slots: int
    cores: float

    @property
    def workers(self) -> list[SimWorker]:
        return workers(self.executors, self.cores, self.slots)

    @property
    def all_cores(self) -> float:
        return self.executors * min(self.cores, float(self.slots))


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Seconds after submission and core-seconds, the latter from the first to the last task. `writes`: quota changes;
    `turns`: how often a quota's direction turned. `trace`: seconds, cores granted."""

    end_s: float
    allocated_core_s: float
    used_core_s: float
    stage_ends_s: tuple[float, ...]
    writes: int = 0
    turns: int = 0
    debt_core_s: float = 0.0
    withheld_core_s: float = 0.0
    trace: tuple[tuple[float, float], ...] = ()

    def error_pct(self, deadline_s: float) -> float:
        return 100 * (self.end_s - deadline_s) / deadline_s

    @property
    def allocated_to_used(self) -> float:
        return self.allocated_core_s / self.used_core_s


def outcome(app: App, pacing: Pacing | None = None) -> TrialResult:
    """Return the outcome of an application that has ended."""
    assert app.end_s is not None
    since_s = app.asked.at_s
    plain = TrialResult(
        app.end_s - since_s,
        app.allocated_core_s,
        app.used_core_s,
        tuple(end_s - since_s for _, end_s in sorted(app.stage_ends_s.items())),
    )
    if pacing is None:
        return plain
    paced = pacing.paced[app.number]
    return TrialResult(
        plain.end_s,
        plain.allocated_core_s,
        plain.used_core_s,
        plain.stage_ends_s,
        paced.writes,
        paced.turns,
        paced.application.debt_core_s(),
        paced.application.totals.withheld_core_s(),
        tuple(paced.trace),
    )


def all_cores(job: SimJob, cluster: SimCluster, *, effects: Effects = IDEAL, seed: int = 0) -> TrialResult:
    """Run the base, like stock Spark by itself: every core of the cluster from the start to the end."""
    return outcome(pre_run(job, cluster.workers, effects=effects, seed=seed)[0])


def constant(job: SimJob, cluster: SimCluster, cores: float, *, effects: Effects = IDEAL, seed: int = 0) -> TrialResult:
    """Run with the same number of cores from the start to the end, tasks or not, shared equally; any fraction of a core."""
    each = cores / cluster.executors
    control = Fixed(lambda worker: min(worker.cores, each))
    return outcome(Engine(cluster.workers, [SimSubmission(job)], control, effects=effects, seed=seed).run()[0])


def oracle(job: SimJob, cluster: SimCluster, deadline_s: float, *, effects: Effects = IDEAL, seed: int = 0) -> TrialResult:
    """Run with the least constant cores that keep the deadline of this very run; all cores where no number does."""
    low, high = 0.0, cluster.all_cores
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        late = constant(job, cluster, middle, effects=effects, seed=seed).end_s > deadline_s
        low, high = (middle, high) if late else (low, middle)
    return constant(job, cluster, high, effects=effects, seed=seed)


def static(
    job: SimJob, cluster: SimCluster, deadline_s: float, profile: Profile, *, effects: Effects = IDEAL, seed: int = 0
) -> TrialResult:
    """Run with the size that the profile asks for (as `sparkpace plan` says), never changed; all cores where no size is
    enough."""
    infos = [worker_info(worker) for worker in cluster.workers]
    most = capacity(infos, lambda _: cluster.slots, None)
    cores = feasibility(estimate(profile), deadline_s, most).cores
    return constant(job, cluster, cluster.all_cores if cores is None else cores, effects=effects, seed=seed)


def known(job: SimJob, cluster: SimCluster, *, effects: Effects = IDEAL, seed: int = 0) -> Profile:
    """Return the profile that a pre-run of this job teaches, wrong as the job says."""
    return learned(pre_run(job, cluster.workers, effects=effects, seed=seed)[1], job)


def run(
    job: SimJob,
    cluster: SimCluster,
    deadline_s: float | None = None,
    *,
    law: str = "forecast",
    settings: Mapping[str, float] | None = None,
    conf: Mapping[str, str] | None = None,
    arguments: tuple[str, ...] | None = None,
    profile: Profile | None = None,
    period_s: float = 1.0,
    effects: Effects = IDEAL,
    seed: int = 0,
    traced: bool = False,
) -> TrialResult:
    """Run a job under a production law. `settings` are as in `ApplicationPlan`, `conf` and `arguments` as in `SimSubmission`;
    without `profile` a pre-run of the very same job teaches one."""
    if profile is None:
        profile = known(job, cluster, effects=effects, seed=seed)
    pacing = Pacing({job.name: profile}, period_s=period_s, traced=traced)
    asked = SimSubmission(
        job, deadline_s=deadline_s, law=law, settings=dict(settings or {}), conf=dict(conf or {}), arguments=arguments
    )
    app = Engine(cluster.workers, [asked], pacing, effects=effects, seed=seed).run()[0]
    result = outcome(app, pacing)
    assert math.isfinite(result.end_s)
    return result

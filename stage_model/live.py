"""A stage as it runs: its plan, and the part of it that all executors together have done.

Each stage uses the best progress signal it has (docs/control.md, What is controlled): records read by running tasks, else CPU
time, else finished tasks.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from msgspec import Struct
from msgspec.structs import force_setattr

from stage_model.forecast.doubt import PROFILE_DOUBT
from stage_model.plan import StagePlan

LEAST_CV = 0.3
"""Least coefficient of variation assumed for the tasks of a stage: the tasks that end first are the short ones."""
LEAST_CORE_S = 1e-9
"""Core-seconds of the running tasks below which a profile's work counts as none."""
LEAST_REMAINDER = 0.05
"""Least share of a task's mean work that a running task is taken to need still."""
ALIKE_CV = 0.1
"""Least coefficient of variation of tasks where one task has used more than the mean."""

_NORMAL = NormalDist()


def tasks_worth(plan: StagePlan) -> float:
    """Return the number of tasks whose work, once seen, says as much of a stage's work as its profile."""
    return (max(plan.task_cv, LEAST_CV) / PROFILE_DOUBT) ** 2


def residual(used: float, cv: float) -> float:
    """Return what a task that has used `used` still needs, both as shares of the mean work. Tasks that are not over yet are
    the long ones: the mean of a log-normal distribution beyond that point, less what was used."""
    if used <= 0:
        return 1.0
    sigma = math.sqrt(math.log1p(max(cv, ALIKE_CV) ** 2))
    place = -math.log(used) / sigma - sigma / 2
    beyond = _NORMAL.cdf(place)
    # where floats are too coarse for the tail, the mean is the limit that the tail of the distribution tends to
    left = used * sigma / -place if beyond < 1e-9 else _NORMAL.cdf(place + sigma) / beyond - used
    return max(LEAST_REMAINDER, left)


class StageLive(Struct, frozen=True):
    """Sums over the application's executors; `own_running` is this executor's part of `running`.

    `records` are those of ended and running tasks, `records_running` of running ones only; `cpu_core_s` is container CPU, of
    which the running tasks have used `cpu_running_core_s`.
    `seen_records` and `seen_core_s` are what this executor's running tasks had read and used, summed over its observations.
    The counts come from containers, so they may claim anything: `ended` and `started` never pass the stage's tasks.
    """

    plan: StagePlan
    running: int
    done: int
    records: float
    records_running: float
    cpu_core_s: float
    own_running: int = 0
    cpu_running_core_s: float = 0.0
    seen_records: float = 0.0
    seen_core_s: float = 0.0
    ended: int = 0
    """Tasks done, of the stage's tasks."""
    started: int = 0
    """Tasks running, of those not yet done."""
    waiting: int = 0

    def __post_init__(self) -> None:
        # worked out once: a decision asks for them two dozen times
        ended = min(self.done, self.plan.tasks)
        started = min(self.running, self.plan.tasks - ended)
        force_setattr(self, "ended", ended)
        force_setattr(self, "started", started)
        force_setattr(self, "waiting", self.plan.tasks - ended - started)

    @property
    def signal(self) -> str:
        """The progress signal that counts: "records", "cpu" or "tasks"."""
        if self.plan.records and self.records_running > 0:
            return "records"
        return "cpu" if self.plan.work_core_s > 0 and self.cpu_core_s > 0 else "tasks"

    @property
    def task_core_s(self) -> float:
        """Mean work of a task: the profile's, moved towards that of the ended tasks by how sure these are."""
        profiled, of = self.plan.work_core_s / self.plan.tasks, tasks_worth(self.plan)
        ended_core_s = max(0.0, self.cpu_core_s - self.cpu_running_core_s)
        return (of * profiled + ended_core_s) / (of + self.ended)

    @property
    def doubtful_cv(self) -> float:
        """The share of `task_core_s` by which a running task's work may differ from it: tasks differ from their mean, and as
        long as few tasks have ended, their mean may differ from the profile's. In a stage of one task no task has ended."""
        return math.hypot(self.plan.task_cv, PROFILE_DOUBT / math.sqrt(1 + self.ended / tasks_worth(self.plan)))

    @property
    def reads_ahead(self) -> float:
        """The share of a task's work that comes after it has read all its records, 0 to 1, as the stage has shown so far:
        where tasks compute as they read, the running tasks have on average read the same part of all as they have used."""
        if not self.plan.records or not self.ended or min(self.seen_core_s, self.task_core_s) <= LEAST_CORE_S:
            return 0.0
        read = self.seen_records * self.plan.tasks / self.plan.records
        used = self.seen_core_s / self.task_core_s
        sure = self.ended / (self.ended + tasks_worth(self.plan))
        return sure * min(1.0, max(0.0, read / used - 1))

    def running_parts(self) -> tuple[float, float]:
        """Return two averages over the running tasks: the share of their work that is done, 0 to 1, and what each task still
        needs as a share of a task's mean work."""
        if not self.started or self.signal == "tasks":
            return 0.0, 1.0
        if self.signal == "cpu":
            return self._parts_by_cpu()
        assert self.plan.records
        ahead = self.reads_ahead
        read = (1 - ahead) * min(1.0, self.records_running * self.plan.tasks / (self.started * self.plan.records))
        by_records = read, max(LEAST_REMAINDER, 1 - read)
        if not ahead:
            return by_records
        # the further reading runs ahead, the less records say; the more alike tasks are, the more CPU does
        cpu_evidence = self.started * ahead**2
        sure = cpu_evidence / (cpu_evidence + max(self.plan.task_cv, ALIKE_CV) ** 2)
        by_cpu = self._parts_by_cpu()
        return sure * by_cpu[0] + (1 - sure) * by_records[0], sure * by_cpu[1] + (1 - sure) * by_records[1]

    def _parts_by_cpu(self) -> tuple[float, float]:
        whole_core_s = self.started * self.task_core_s
        if whole_core_s <= LEAST_CORE_S:
            return 0.0, 1.0
        used = self.cpu_running_core_s / whole_core_s
        left = residual(used, self.doubtful_cv)
        return used / (used + left), left

    def progress(self) -> float:
        """Return done work / assigned work, 0 to 1."""
        if not self.plan.tasks:
            return 1.0
        return min(1.0, (self.ended + self.started * self.running_parts()[0]) / self.plan.tasks)

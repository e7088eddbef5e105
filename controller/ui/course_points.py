"""One application's course for all its viewers: points of a curve, ordered quotas, stages. Pure.

Samples of all executors become one point per step. The last points may still change, because executors' samples come one
after the other: a viewer gets the number of the first point to draw again. Not covered: the source of the samples (`poller`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from controller.wire.course import Course, StageCourse
from controller.wire.worker import OrderedQuota, Sample

LOST_S = 5.0
"""Time after which an executor without a sample no longer counts; a sample that comes this late is left out."""
MOST_POINTS = 3600
"""Most points; with more, the step doubles."""
MOST_QUOTAS = 1000
MOST_SHOWN = 1000
"""Most stages, the last ones."""


class CoursePoint(msgspec.Struct, frozen=True, array_like=True):
    """One point. Cores and debt are sums over executors; `stage` is the last stage with known progress."""

    time_s: float
    stage: int | None
    set_point: float | None
    progress: float | None
    demand: float
    granted: float
    used: float | None
    debt_core_s: float


class CourseNews(msgspec.Struct, frozen=True):
    """News for a viewer: its points from number `first` on are replaced; its quotas are added, and its stages replace the
    viewer's earlier facts about them. `loading`: more of the past is to come."""

    application_id: str
    first: int
    points: Sequence[CoursePoint]
    quotas: Sequence[OrderedQuota]
    stages: Sequence[StageCourse]
    loading: bool
    problem: str


@dataclass(slots=True)
class CoursePoints:
    """A course as it grows. `samples_next`, `quotas_next`, `since_s`: the next place to ask from; `loading`: a part of the
    past is missing; `problem`: the reason if nothing new comes."""

    application_id: str
    samples_next: int = 0
    quotas_next: int = 0
    since_s: float = 0.0
    loading: bool = True
    problem: str = ""
    _step_s: float = 1.0
    _points: list[CoursePoint] = field(default_factory=list)
    _settled: int = 0
    """Number of points, the first ones, that never change again."""
    _pending: dict[int, dict[str, Sample]] = field(default_factory=dict)
    """The last sample of each executor, by step."""
    _latest: dict[str, Sample] = field(default_factory=dict)
    """The last samples before the pending steps."""
    _quotas: list[OrderedQuota] = field(default_factory=list)
    _quotas_seen: int = 0
    """Number of all quotas that ever came."""
    _stages: dict[tuple[int, int], tuple[int, StageCourse]] = field(default_factory=dict)
    """Stages with the number of the change that brought each."""
    _changes: int = 0

    def take(self, course: Course) -> None:
        """Take the answer to a question from the next place."""
        self._take_samples(course.samples)
        self._quotas = [*self._quotas, *course.quotas][-MOST_QUOTAS:]
        self._quotas_seen += len(course.quotas)
        self._take_stages(course.stages)
        self.samples_next, self.quotas_next = course.samples_next, course.quotas_next
        self.loading = course.more

    def news(self) -> Iterator[CourseNews]:
        """Yield the news for one viewer: at first all that is here, then what has come since the time before."""
        step_s, points, quotas, changes = 0.0, 0, 0, 0
        while True:
            first = points if step_s == self._step_s else 0
            new = min(self._quotas_seen - quotas, len(self._quotas))
            stages = [stage for number, stage in self._stages.values() if number > changes]
            step_s, points, quotas, changes = self._step_s, self._settled, self._quotas_seen, self._changes
            yield CourseNews(
                application_id=self.application_id,
                first=first,
                points=self._points[first:],
                quotas=self._quotas[len(self._quotas) - new :],
                stages=stages,
                loading=self.loading,
                problem=self.problem,
            )

    # ------------------------------------------------------------------ samples

    def _take_samples(self, samples: Iterable[Sample]) -> None:
        settled_before = self._settled_step()
        for sample in samples:
            step = self._step_of(sample)
            if settled_before is None or step > settled_before:
                self._pending.setdefault(step, {})[sample.executor_id] = sample
        if not self._pending:
            return
        newest = max(self._pending)
        del self._points[self._settled :]
        latest = dict(self._latest)
        for step in sorted(self._pending):
            latest |= self._pending[step]
            self._points.append(_point(latest.values(), step * self._step_s))
            if (newest - step) * self._step_s > LOST_S:
                self._latest = dict(latest)
                self._settled = len(self._points)
        for step in [step for step in self._pending if (newest - step) * self._step_s > LOST_S]:
            del self._pending[step]
        if self._settled > MOST_POINTS:
            self._thin()

    def _step_of(self, sample: Sample) -> int:
        return math.floor(sample.time_s / self._step_s)

    def _settled_step(self) -> int | None:
        return math.floor(self._points[self._settled - 1].time_s / self._step_s) if self._settled else None

    def _thin(self) -> None:
        """Keep one of every two points; from now on a step is as long as two."""
        self._step_s *= 2
        thinned: dict[int, CoursePoint] = {
            math.floor(point.time_s / self._step_s): point for point in self._points[: self._settled]
        }
        pending = [sample for step in sorted(self._pending) for sample in self._pending[step].values()]
        self._points = [msgspec.structs.replace(point, time_s=step * self._step_s) for step, point in thinned.items()]
        self._settled = len(self._points)
        self._pending = {}
        self._take_samples(pending)

    # ------------------------------------------------------------------ stages

    def _take_stages(self, stages: Iterable[StageCourse]) -> None:
        for stage in stages:
            key = (stage.stage, stage.attempt)
            if key not in self._stages or self._stages[key][1] != stage:
                self._changes += 1
                self._stages[key] = (self._changes, stage)
            self.since_s = max(self.since_s, stage.end_s or 0.0)
        for key in list(self._stages)[:-MOST_SHOWN]:
            del self._stages[key]


def _point(latest: Iterable[Sample], time_s: float) -> CoursePoint:
    alive = [sample for sample in latest if time_s - sample.time_s <= LOST_S]
    reporting = [sample for sample in alive if sample.stage is not None and sample.progress is not None]
    shown = max(reporting, key=lambda sample: (sample.stage or 0, sample.progress or 0.0), default=None)
    used = [sample.usage for sample in alive if sample.usage is not None]
    return CoursePoint(
        time_s=time_s,
        stage=shown.stage if shown else None,
        set_point=shown.set_point if shown else None,
        progress=shown.progress if shown else None,
        demand=_rounded(sample.demand for sample in alive),
        granted=_rounded(sample.quota for sample in alive),
        used=_rounded(used) if used else None,
        debt_core_s=_rounded(sample.debt_core_s for sample in alive),
    )


def _rounded(values: Iterable[float]) -> float:
    return round(math.fsum(values), 4)

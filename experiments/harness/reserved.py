"""The cores that the executors of a step reserve over time, so that others cannot use them, and those that they use: pure.

On stock Spark an executor reserves the cores of its slots from its launch to its end, as the Master says. Under Sparkpace it
reserves its quota from its first sample to its last one; before that, and wherever there is no sample, it reserves as much as
a stock executor. Seconds count from the first submission of the step.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from controller.wire.worker import Sample, cores_between, samples_by_executor
from experiments.harness.recorded import StepRecord


@dataclass(frozen=True, slots=True)
class CoreSpan:
    """Mean cores between two readings."""

    from_s: float
    to_s: float
    reserved: float
    used: float

    @property
    def lasts_s(self) -> float:
        return self.to_s - self.from_s


@dataclass(frozen=True, slots=True)
class CoreCourse:
    """The spans of a step, and the cores of its cluster."""

    capacity: float
    spans: tuple[CoreSpan, ...]

    @property
    def reserved_core_s(self) -> float:
        return math.fsum(span.reserved * span.lasts_s for span in self.spans)

    @property
    def used_core_s(self) -> float:
        return math.fsum(span.used * span.lasts_s for span in self.spans)

    @property
    def most_cores(self) -> float:
        """Return the largest number of cores that were reserved at once; 0 without spans."""
        return max((span.reserved for span in self.spans), default=0.0)


def course_of(step: StepRecord, slot_cores: float, samples: Mapping[str, Sequence[Sample]] | None) -> CoreCourse:
    """Return the course of a step on a standalone cluster. `slot_cores`: cores that a slot can have at most; `samples`: those
    of paced executors by application id, None on stock Spark."""
    readings = step.readings
    times = [reading.epoch_s for reading in readings]
    quota_core_s, paced_s = [0.0] * len(times), [0.0] * len(times)
    for from_s, to_s, cores in _quotas(step, samples or {}, slot_cores):
        for place, shared_s in _shares(times, from_s, to_s):
            quota_core_s[place] += cores * shared_s
            paced_s[place] += shared_s
    zero_s = min((float(job.summary["submitted_epoch_s"]) for job in step.jobs), default=0.0)
    spans = []
    for place, (one, following) in enumerate(pairwise(readings)):
        lasts_s = following.epoch_s - one.epoch_s
        unpaced_s = max(0.0, sum(one.slots.values()) * lasts_s - paced_s[place])
        reserved = (quota_core_s[place] + slot_cores * unpaced_s) / lasts_s
        used = (following.used_core_s - one.used_core_s) / lasts_s
        spans.append(CoreSpan(one.epoch_s - zero_s, following.epoch_s - zero_s, reserved, used))
    return CoreCourse(math.fsum(step.capacity.values()), tuple(spans))


def _quotas(step: StepRecord, samples: Mapping[str, Sequence[Sample]], most: float) -> Iterator[tuple[float, float, float]]:
    """Yield from when to when (epoch) an executor of one slot had which quota."""
    for job in step.jobs:
        submitted_s = float(job.summary["submitted_epoch_s"])
        for found in samples_by_executor(samples.get(job.app_id, ())):
            for before, after in pairwise(found):
                if before.quota > 0 or before.grant > 0:  # else it has exited
                    cores = min(most, cores_between(before, after))
                    yield submitted_s + before.time_s, submitted_s + after.time_s, cores


def _shares(times: Sequence[float], from_s: float, to_s: float) -> Iterable[tuple[int, float]]:
    """Yield the spans between `times` that [from_s, to_s] touches, and the seconds that it has of each."""
    place = max(0, bisect_right(times, from_s) - 1)
    while place + 1 < len(times) and times[place] < to_s:
        yield place, max(0.0, min(to_s, times[place + 1]) - max(from_s, times[place]))
        place += 1

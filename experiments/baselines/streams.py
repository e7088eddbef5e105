"""The course of a stream of jobs under one scheduler: look, ask `admission` what to do, and do it until all is over.

On Sparkpace the scheduler is the product itself: jobs are submitted when they come, and are left as they are afterwards. On
stock Spark standalone the admission does what queues and preemption of a cluster manager would do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from controller.runs.run_folder import read_samples
from controller.runtime.base import ExecutorKey
from experiments.baselines.admission import SCHEDULERS, SIZES, UNITS, End, Play, Resize, Stream, Submit
from experiments.baselines.standalone import Standalone, standalone
from experiments.harness.live_cluster import end_processes
from experiments.harness.local_cluster import LOOK_S, LocalCluster, SubmittedJob
from experiments.harness.recorded import JobRecord, used_core_s


class Field(Protocol):
    """A cluster on which a stream runs."""

    def submit(self, step: str, order: Submit) -> None: ...

    def resize(self, job: str, executors: int) -> None:
        """Set the number of executors of a job from now on; only called where the scheduler takes executors back."""

    def end(self, jobs: list[str]) -> None: ...

    def look(self) -> None:
        """Look at the cluster; called in every round."""

    def asking(self) -> set[str]: ...

    def begun(self) -> set[str]: ...

    def ended(self) -> set[str]: ...

    def record(self, job: str, arrived_epoch_s: float) -> JobRecord: ...

    def core_s(self) -> float:
        """Return the CPU, in core-seconds, of all executors of the stream, up to now."""


@dataclass(frozen=True, slots=True)
class Played:
    """`jobs`: the jobs that count; `given_up`: for jobs that count and did not end, the seconds since their arrival."""

    jobs: list[JobRecord]
    given_up: dict[str, float]
    core_s: float


def play(what: Play, field: Field, step: str, *, limit_s: float, show: Callable[[str], None]) -> Played:
    """Play the stream. Raise `SystemExit` when it takes longer than `limit_s`; then, and on Ctrl-C, running jobs are
    ended."""
    stream = Stream(what)
    begun_s, begun_epoch_s = time.monotonic(), time.time()
    try:
        while not stream.over:
            now_s = time.monotonic() - begun_s
            if now_s > limit_s:
                raise SystemExit(f"{step} has not ended within {limit_s:g} s")
            field.look()
            actions = stream.act(now_s, field.asking(), field.begun(), field.ended())
            for action in actions:
                if isinstance(action, Submit):
                    field.submit(step, action)
                elif isinstance(action, Resize):
                    field.resize(action.job, action.executors)
            field.end([action.job for action in actions if isinstance(action, End)])
            show(f"{step}: {_standing(stream)}")
            time.sleep(LOOK_S)
    finally:
        field.end(list(stream.jobs.keys() - field.ended()))
    counted = {name: job for name, job in stream.jobs.items() if job.counted}
    jobs = [field.record(n, begun_epoch_s + j.arrived_s) for n, j in counted.items() if j.state == "ended"]
    assert stream.closed_s is not None
    late = {name: round(now_s - job.arrived_s, 3) for name, job in counted.items() if job.state == "given up"}
    return Played(jobs, late, field.core_s())


def _standing(stream: Stream) -> str:
    jobs = stream.jobs.values()
    here, waiting = sum(job.present for job in jobs), sum(job.state == "waiting" for job in jobs)
    return f"{here} jobs submitted, {waiting} waiting, {sum(job.state == 'ended' for job in jobs)} ended"


@contextmanager
def field_of(what: Play, cluster: LocalCluster) -> Iterator[Field]:
    """Provide Sparkpace's own cluster, which is up, or a standalone one of the same size only for this stream."""
    capacity, scheduler = cluster.capacity(), SCHEDULERS[what.scheduler]
    if scheduler.cluster == "sparkpace":
        yield PacedJobs(cluster)
        return
    # where jobs share workers, these are like Sparkpace's; else each worker is a unit: a stock executor never has more than
    # its slots
    workers = len(capacity) if scheduler.slots > 1 else UNITS
    cores_each = sum(capacity.values()) / workers
    with standalone(cluster.folder, workers=workers, cores_each=cores_each, slots=scheduler.slots) as stock:
        yield Stock(stock, what.executors)


@dataclass(slots=True)
class PacedJobs:
    """Jobs by `sparkpace submit`."""

    cluster: LocalCluster
    jobs: dict[str, SubmittedJob] = field(default_factory=dict)
    workers: dict[ExecutorKey, str] = field(default_factory=dict)
    before: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.before = self._runs()

    def submit(self, step: str, order: Submit) -> None:
        self.jobs[order.order.job] = self.cluster.submit(step, order.order)

    def resize(self, job: str, executors: int) -> None:
        raise AssertionError(f"{job} was to have {executors} executors: on Sparkpace no job has to let go of any")

    def end(self, jobs: list[str]) -> None:
        end_processes([self.jobs[job].process for job in jobs if job in self.jobs])

    def look(self) -> None:
        self.workers.update(self.cluster.executors())

    def asking(self) -> set[str]:
        return self.jobs.keys() - self.ended()

    def begun(self) -> set[str]:
        return self.asking()

    def ended(self) -> set[str]:
        return {name for name, job in self.jobs.items() if job.process.poll() is not None}

    def record(self, job: str, arrived_epoch_s: float) -> JobRecord:
        return self.cluster.record(self.jobs[job], self.workers, arrived_epoch_s)

    def core_s(self) -> float:
        return sum(used_core_s(read_samples(self.cluster.home.runs / run)) for run in self._runs() - self.before)

    def _runs(self) -> frozenset[str]:
        return frozenset(path.name for path in self.cluster.home.runs.glob("*"))


@dataclass(slots=True)
class Stock:
    """Jobs by spark-submit; `begun_core_s` is the CPU that starting the Workers took."""

    cluster: Standalone
    executors: Mapping[str, int]
    begun_core_s: float = 0.0

    def __post_init__(self) -> None:
        self.begun_core_s = self.cluster.core_s()

    def submit(self, step: str, order: Submit) -> None:
        count = self.executors[order.kind]
        weight = SIZES[order.kind] / count
        self.cluster.submit(step, order.order, executors=count, resizable=order.resizable, weight=weight)

    def resize(self, job: str, executors: int) -> None:
        self.cluster.resize(job, executors)

    def end(self, jobs: list[str]) -> None:
        self.cluster.end([job for job in jobs if job in self.cluster.jobs])

    def look(self) -> None:
        self.cluster.share()

    def asking(self) -> set[str]:
        return self.cluster.asking()

    def begun(self) -> set[str]:
        return self.cluster.begun()

    def ended(self) -> set[str]:
        return self.cluster.ended()

    def record(self, job: str, arrived_epoch_s: float) -> JobRecord:
        return self.cluster.record(job, arrived_epoch_s)

    def core_s(self) -> float:
        return self.cluster.core_s() - self.begun_core_s

"""One executor as the master knows it: its stored part, the last report of its agent, and what its stages used; and what
follows from all executors of an application: sums, and which of them get tasks only when many wait.

A task at the floor of cores runs many times as long as elsewhere, and its stage waits for it. Spark knows nothing of quotas
and gives a task to any executor with a free slot. Not covered: how Spark is kept from that (the bridge, `StageTasks`)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import msgspec

from controller.wire import limits
from controller.wire.driver import ExecutorGone
from controller.wire.states import ExecutorState
from controller.wire.worker import AdoptedSpec, ExecutorReport, ExecutorSpec, Sample, StageUse
from stage_model.debt import Debt
from stage_model.history.cold import Readings
from stage_model.history.stage_run import StageKey
from stage_model.progress import Progress

STARVED = 4.0
"""An executor is starved where its cores times this are less than it asks for."""
RECOVERED_S = 10.0
"""An executor stays starved until it has had enough for this long: other executors leave cores at the end of a stage and take
them back at once."""
SURETY = 4.0
"""A starved executor gets a task where this many times as many wait as the others may end while it ends one: tasks differ,
and cores may become fewer still."""


class Starvation(msgspec.Struct, frozen=True):
    """The times when one executor last asked for cores and was last starved (seconds, by its samples), and its cores then. An
    executor that asks for nothing, as between stages, stays as it was."""

    asked_s: float = -math.inf
    starved_s: float = -math.inf
    grant: float = 0.0

    def after(self, time_s: float, demand: float, grant: float) -> Starvation:
        if demand <= 0 or grant <= 0:
            return self
        starved = grant * STARVED < demand
        return Starvation(time_s, time_s, grant) if starved else Starvation(time_s, self.starved_s, self.grant)

    @property
    def starved(self) -> bool:
        return self.asked_s - self.starved_s < RECOVERED_S


NOT_STARVED = Starvation()


class Gain(NamedTuple):
    """Records read and core-seconds used by a stage attempt since the report before."""

    key: StageKey
    records: float
    core_s: float


class ExecutorRecord(msgspec.Struct, kw_only=True):
    """The stored part of an executor. `uses` are its stages' counters, one list per life of its agent.

    Either `spec` says how it is started, or `adopted` which process it is. `created_s` counts from the application's
    submission. `held`: which pieces of which resources it has (units of 1/10000 by id); `evicted_for`: the application for
    which it was ended, if it was."""

    executor_id: str
    worker_id: str
    profile_id: str
    spec: ExecutorSpec | None = None
    created_s: float = 0.0
    planned_end: bool = False
    gone: ExecutorGone | None = None
    adopted: AdoptedSpec | None = None
    uses: dict[str, dict[str, StageUse]] = {}
    cpu_core_s: float = 0.0
    debt: Debt = Debt()
    log_dir: str = ""
    held: dict[str, dict[int, int]] = {}
    evicted_for: str = ""
    late_since_s: float | None = None
    """The time since when the forecasts of its agent have been past the deadline, seconds after submission
    (`lateness.late_since`)."""
    squeezed_by: dict[str, float] = {}
    """Core-seconds withheld from it, by the name of the application that had cores on its worker then."""

    def drop_environment(self) -> None:
        """Forget the environment, which may hold secrets of the user's and is needed only for the start."""
        if self.spec is not None:
            self.spec = msgspec.structs.replace(self.spec, environment={})

    @property
    def slots(self) -> int:
        what = self.spec or self.adopted
        return what.slots if what else 1


@dataclass(slots=True)
class Executor:
    """An executor: its stored part and its last report."""

    record: ExecutorRecord
    report: ExecutorReport | None = None
    ran: bool = False
    cleaned: bool = False
    sample: Sample | None = None
    starvation: Starvation = NOT_STARVED
    progress: Progress | None = None
    """The progress of an adopted executor, as its driver reported it last."""
    at_risk: bool = False
    """True if the user was informed of what the agent reports as a risk to the deadline."""

    silent: bool = False
    """True while its worker does not report, but others do (`silence`)."""

    @property
    def live(self) -> bool:
        return self.record.gone is None

    @property
    def present(self) -> bool:
        """True if the executor is live and plans count on it."""
        return self.live and not self.silent

    def use(self) -> dict[StageKey, StageUse]:
        """Return the counters per stage attempt over all lives of the agent: counts of tasks are the executor's own, CPU adds
        up."""
        total: dict[StageKey, StageUse] = {}
        for stages in self.record.uses.values():
            for use in stages.values():
                key = (use.stage, use.attempt)
                total[key] = _joined(total[key], use) if key in total else use
        return total

    def use_of(self, stage: int, attempt: int, *, earlier: bool = False) -> StageUse | None:
        """Return `use` of one stage attempt; `earlier`: without the last life of the agent."""
        total, name, last = None, _name(stage, attempt), max(0, len(self.record.uses) - earlier)
        for stages in islice(self.record.uses.values(), last):
            use = stages.get(name)
            if use is not None:
                total = use if total is None else _joined(total, use)
        return total

    def sampled(self, sample: Sample, worker_cores: float) -> Sample:
        """Take a sample in; return it with the debt of the executor by then. Demand beyond `worker_cores` starves no one."""
        before, self.sample = self.sample, sample
        self.starvation = self.starvation.after(sample.time_s, min(sample.demand, worker_cores), sample.grant)
        if before is not None:
            dt_s = max(0.0, sample.time_s - before.time_s)
            self.record.debt = self.record.debt.after(before.demand, before.grant, squeezed=before.squeezed, dt_s=dt_s)
        return msgspec.structs.replace(sample, debt_core_s=round(self.record.debt.core_s, 3))

    def withheld(self, withheld_core_s: float, grants: Mapping[str, float]) -> None:
        """Put the withheld core-seconds down to the applications that had `grants` (cores, by name) on its worker then, in
        proportion to these."""
        total = sum(grants.values())
        for name, cores in grants.items() if total > 0 else ():
            self.record.squeezed_by[name] = self.record.squeezed_by.get(name, 0.0) + withheld_core_s * cores / total

    def take(self, instance: str, report: ExecutorReport, reported: Container[StageKey]) -> list[Gain]:
        """Take a report in; return what is new in it. A report may be an executor's invention: of attempts that the driver
        has not reported (`reported`), the last ones are kept."""
        self.report = report
        self.ran = self.ran or report.state is ExecutorState.RUNNING
        self.record.cpu_core_s = max(self.record.cpu_core_s, report.cpu_core_s)
        self.record.log_dir = report.log_dir
        stages = self.record.uses.setdefault(instance, {})
        new = [use for use in report.stages if stages.get(_name(use.stage, use.attempt)) != use]
        gains = [_gain(stages.get(_name(use.stage, use.attempt)), use) for use in new]
        for use in new:
            stages[_name(use.stage, use.attempt)] = use
        if len(stages) > limits.STAGES_UNREPORTED and any((use.stage, use.attempt) not in reported for use in new):
            unreported = [name for name, use in stages.items() if (use.stage, use.attempt) not in reported]
            for name in unreported[: -limits.STAGES_UNREPORTED]:
                del stages[name]
        return gains


def _gain(before: StageUse | None, now: StageUse) -> Gain:
    records, core_s = (0.0, 0.0) if before is None else (before.records, before.cpu_core_s)
    return Gain((now.stage, now.attempt), now.records - records, now.cpu_core_s - core_s)


def _name(stage: int, attempt: int) -> str:
    return f"{stage}.{attempt}"


def _known_sum(a: float | None, b: float | None) -> float | None:
    """Return the sum; None if either is not known."""
    return None if a is None or b is None else a + b


def _joined(a: StageUse, b: StageUse) -> StageUse:
    return msgspec.structs.replace(
        b,
        done=max(a.done, b.done),
        records=max(a.records, b.records),
        cpu_core_s=a.cpu_core_s + b.cpu_core_s,
        allocated_core_s=a.allocated_core_s + b.allocated_core_s,
        throttled_s=_known_sum(a.throttled_s, b.throttled_s),
    )


def least_waiting(executors: Iterable[Executor]) -> dict[str, int]:
    """Return for each starved one of these executors, by id, how many tasks of a stage must wait for one to be given to it.
    Only executors of one resource profile take the same tasks; where every one of them is starved, none of them is named."""
    alike = defaultdict[str, list[Executor]](list)
    for executor in executors:
        if executor.ran:
            alike[executor.record.profile_id].append(executor)
    found = dict[str, int]()
    for same in alike.values():
        others = sum(executor.record.slots for executor in same if not executor.starvation.starved)
        for executor in same:
            if others and executor.starvation.starved:
                # at most a core a slot: while this one ends a task on each of its slots, the others end this many
                slots_per_core = executor.record.slots / executor.starvation.grant
                found[executor.record.executor_id] = math.ceil(SURETY * others * slots_per_core)
    return found


@dataclass(frozen=True, slots=True)
class ExecutorTotals:
    """The sums over all executors that an application has ever had."""

    executors: Mapping[str, Executor]

    def used_core_s(self) -> float:
        """Return the container CPU of all executors since their starts, in stages or not, core-seconds."""
        return math.fsum(executor.record.cpu_core_s for executor in self.executors.values())

    def stage_use(self) -> dict[StageKey, float]:
        """Return the container CPU per stage attempt over all executors, core-seconds."""
        total: dict[StageKey, float] = {}
        for key, use in self._uses():
            total[key] = total.get(key, 0.0) + use.cpu_core_s
        return total

    def stage_allocation(self) -> dict[StageKey, float]:
        """Return the allocated core-seconds per stage attempt over all executors."""
        total: dict[StageKey, float] = {}
        for key, use in self._uses():
            total[key] = total.get(key, 0.0) + use.allocated_core_s
        return total

    def readings(self, key: StageKey) -> Readings:
        """Return the readings of a stage attempt that begin with what its executors have reported by now."""
        uses = [use for executor in self.executors.values() if (use := executor.use_of(*key)) is not None]
        return Readings(math.fsum(use.records for use in uses), math.fsum(use.cpu_core_s for use in uses))

    def stage_throttling(self) -> dict[StageKey, float]:
        """Return the seconds that quotas held each stage attempt back, over all executors; without the attempts for which an
        executor does not know them."""
        total: dict[StageKey, float | None] = {}
        for key, use in self._uses():
            total[key] = _known_sum(total.get(key, 0.0), use.throttled_s)
        return {key: seconds for key, seconds in total.items() if seconds is not None}

    def _uses(self) -> Iterator[tuple[StageKey, StageUse]]:
        for executor in self.executors.values():
            yield from executor.use().items()

    def withheld_core_s(self) -> float:
        """Return all core-seconds that squeezes ever withheld, given back or not."""
        return sum(e.record.debt.withheld_core_s for e in self.executors.values())

    def squeezed_by(self) -> dict[str, float]:
        """Return the core-seconds withheld from the application, by the name of the application that had the cores."""
        total: dict[str, float] = {}
        for executor in self.executors.values():
            for name, core_s in executor.record.squeezed_by.items():
                total[name] = total.get(name, 0.0) + core_s
        return total

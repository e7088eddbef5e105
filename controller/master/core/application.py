"""One application as the master knows it, put together of its parts, and plain questions about it; `lifecycle` and
`planning` decide. Times `*_s` are monotonic seconds unless they are said to count from submission.

    record      what is stored: what it asked for, and how it ended
    life        its state
    stream      how far its driver's events are taken in; they make `run` and `actions`
    placement   the executors that it wants, and what keeps it from them
    plan        the goals of its stages, and what was worked out for its plan
    totals      sums over its executors
    notices     lines for its user's terminal
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from controller.asks.job_options import JobOptions
from controller.master.core.actions import Actions
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.event_stream import EventStream
from controller.master.core.executor_state import Executor, ExecutorTotals, least_waiting
from controller.master.core.life import Life, LifeState
from controller.master.core.placement_state import PlacementState
from controller.master.core.plan_state import PlanState
from controller.wire import limits
from controller.wire.worker import ExecutorReport
from placement.dependencies import After
from stage_model.forecast.estimate import ApplicationEstimate
from stage_model.history.cold import Readings
from stage_model.history.events import AnyEvent, TaskEnd
from stage_model.history.profile import Profile
from stage_model.history.run import Run
from stage_model.history.stage_run import StageKey

Resident = tuple["Application", Executor]


@dataclass(frozen=True, slots=True)
class Target:
    """A deadline that governs now, `deadline_s` after `start_s`, which counts from submission, for all that the application
    does or only for the jobs of an action."""

    start_s: float
    deadline_s: float
    jobs: frozenset[int] | None = None

    @property
    def due_s(self) -> float:
        """Time of the deadline, seconds after submission."""
        return self.start_s + self.deadline_s


@dataclass(slots=True)
class Notices:
    """The lines for the terminal of an application's user, in the order in which they were added. Each is said once, and
    their number is limited."""

    lines: list[str] = field(default_factory=list)
    _sent: int = 0

    def add(self, line: str) -> None:
        """Add a line that is not there yet. After `limits.NOTICES` lines, one last line says that further lines are left
        out."""
        line = line[: limits.NOTICE_LENGTH]
        if len(self.lines) == limits.NOTICES:
            line = f"there were {limits.NOTICES} lines like these; further ones are left out"
        if len(self.lines) <= limits.NOTICES and line not in self.lines:
            self.lines.append(line)

    def take_new(self) -> tuple[str, ...]:
        """Return the lines that were added since the last call."""
        new, self._sent = tuple(self.lines[self._sent :]), len(self.lines)
        return new


@dataclass(slots=True)
class Application:
    record: ApplicationRecord
    started_s: float
    profile_key: str
    profile_runs: int
    estimate: ApplicationEstimate | None
    profile: Profile | None = None
    run: Run = field(default_factory=Run)
    actions: Actions = field(init=False)
    life: Life = field(init=False)
    stream: EventStream = field(default_factory=EventStream)
    placement: PlacementState = field(default_factory=PlacementState)
    plan: PlanState = field(default_factory=PlanState)
    executors: dict[str, Executor] = field(default_factory=dict)
    totals: ExecutorTotals = field(init=False)
    readings: dict[StageKey, Readings] = field(default_factory=dict)
    """Records and CPU of its stage attempts, as this life of the master has seen them grow."""
    heard_s: float = 0.0
    zone: tzinfo = UTC
    """The machine's zone, by which times of day are read."""
    counted_s: float = 0.0
    """The time when its executors' counters were stored."""
    instance: str = ""
    credentials: bytes | None = field(default=None, repr=False)
    """The credentials of its executors for their driver. They are never stored: after a restart the driver sends them
    again."""
    notices: Notices = field(default_factory=Notices)
    faults: int = 0
    """Number of failures in the master's work for the application (`guard`)."""
    unlogged: list[tuple[str, Exception | None]] = field(default_factory=list)
    """Faults that are still to be logged, with their errors."""

    def __post_init__(self) -> None:
        self.totals = ExecutorTotals(self.executors)
        self.actions = Actions(self.record.registration.conf, self.zone)
        self.life = Life.of_record(ended=self.record.ended_s is not None, judged=self.record.outcome is not None)

    @property
    def id(self) -> str:
        return self.record.application_id

    @property
    def options(self) -> JobOptions:
        return self.record.options

    @property
    def name(self) -> str:
        return self.record.registration.name

    @property
    def uid(self) -> int:
        """The user for whom the application counts."""
        return self.record.registration.uid

    @property
    def attached(self) -> bool:
        """True if another cluster manager starts its executors."""
        return self.record.registration.attached

    @property
    def waits_for_data(self) -> bool:
        """True if the application waits for a worker that has its input, while others are free."""
        waits = self.record.data_waits
        return bool(waits) and waits[-1].local is None

    @property
    def names(self) -> tuple[str, ...]:
        return self.record.names

    @property
    def after(self) -> tuple[After, ...]:
        return self.options.placement.after

    @property
    def comes_after(self) -> dict[str, str]:
        return self.record.comes_after

    @property
    def outlived(self) -> bool:
        return self.record.outlived

    @property
    def ended(self) -> bool:
        return self.life.ended

    @property
    def judged(self) -> bool:
        """True if the outcome is settled."""
        return self.life.ended and self.life.state is not LifeState.ENDED

    @property
    def finished(self) -> bool:
        return self.life.state is LifeState.FINISHED

    @property
    def held_back(self) -> bool:
        return self.life.state is LifeState.HELD_BACK

    @property
    def succeeded(self) -> bool:
        return self.record.succeeded

    @property
    def served(self) -> bool:
        """True if its driver serves others, or did."""
        return bool(self.record.address)

    @property
    def address(self) -> str:
        """The address ("HOST:PORT") at which its driver serves others; empty as long as it serves none."""
        return "" if self.ended else self.record.address

    @property
    def lacks_credentials(self) -> bool:
        """True if its executors need credentials that this life of the master does not have."""
        return self.record.registration.authenticated and self.credentials is None and not self.ended

    def elapsed_s(self, now_s: float) -> float:
        """Return the seconds since submission; they stand still once the application has ended."""
        return now_s - self.started_s if self.record.ended_s is None else self.record.ended_s

    def targets(self) -> list[Target]:
        """Return the deadlines that govern now, the first due first: that of each action under way, and always the
        application's."""
        if self.stream.overflow:
            return []
        found = [
            Target(self.since_submission(action.start_ms), action.deadline_s, frozenset(action.jobs))
            for action in self.actions.under_way()
        ]
        if self.options.deadline_s is not None:
            found.append(Target(0.0, self.options.deadline_s))
        return sorted(found, key=lambda target: target.due_s)

    def target(self) -> Target | None:
        """Return the deadline that is due first; None without any."""
        return next(iter(self.targets()), None)

    def concerns(self, target: Target, key: StageKey) -> bool:
        """Return True if the deadline is for this stage."""
        return target.jobs is None or self.run.attempts[key].job in target.jobs

    def priority(self) -> int:
        """Return the highest priority of the deadlines that govern now. An action without a priority has the
        application's."""
        whole = self.options.priority
        own = [whole if action.priority is None else action.priority for action in self.actions.under_way()]
        return whole if not own else max(own) if self.options.deadline_s is None else max(whole, *own)

    @property
    def submitted_ms(self) -> float:
        """Submission on the clock of the driver's events: the steady one where it is known, else the wall clock."""
        said = self.record.registration
        return 1000 * (self.record.started_epoch_s if said.steady_ms is None else said.steady_ms / 1000 - said.age_s)

    def since_submission(self, driver_ms: float | None) -> float:
        """Return the seconds from submission to a time of the driver's clock; 0 for None."""
        return 0.0 if driver_ms is None else round((driver_ms - self.submitted_ms) / 1000, 3)

    def apply(self, event: AnyEvent) -> None:
        known = self.run.attempts.get((event.stage, event.attempt)) if isinstance(event, TaskEnd) else None
        shown_tasks = known.shown_tasks if known is not None else 0
        self.run.apply(event)
        if known is None or not known.active or known.shown_tasks != shown_tasks:
            self.plan.drop_cache()
        complaint = self.actions.apply(event)
        if complaint:
            self.notify(complaint)
        if isinstance(event, TaskEnd):
            self.stream.count_task(event)

    def replace_active(self, snapshot: Iterable[AnyEvent]) -> None:
        """Take in what is active now, after events were lost."""
        self.plan.drop_cache()
        self.run.replace_active(snapshot)

    def take(self, executor: Executor, instance: str, report: ExecutorReport) -> None:
        for gain in executor.take(instance, report, self.run.attempts):
            stage = self.run.attempts.get(gain.key)
            if stage is None:
                continue
            if not stage.active:
                self.plan.drop_cache()
            if gain.key in self.readings:
                self.readings[gain.key].add(gain.records, gain.core_s)
            elif len(self.readings) < limits.STAGES_READ:
                self.readings[gain.key] = self.totals.readings(gain.key)
        if executor.ran:
            self.life.run()

    def live_executors(self) -> Iterable[Executor]:
        return (e for e in self.executors.values() if e.live)

    def present_executors(self) -> Iterable[Executor]:
        """Return the live executors on workers that report."""
        return (e for e in self.executors.values() if e.present)

    def worker_ids(self) -> set[str]:
        """Return the workers that have an executor of the application, or have one to clean up."""
        return {e.record.worker_id for e in self.executors.values() if not e.cleaned}

    def starved(self) -> dict[str, int]:
        """Return how many tasks of a stage must wait for one to be given to each of its starved executors."""
        return least_waiting(self.present_executors())

    def slots(self, worker_id: str | None = None) -> int:
        """Return the slots of its executors. With `worker_id`, only executors among which the agent there divides demands
        count: the agent's own executors, and executors that are not starved."""
        starved = {} if worker_id is None else self.starved()
        here = (e.record for e in self.present_executors())
        return sum(r.slots for r in here if r.executor_id not in starved or r.worker_id == worker_id)

    def debt_core_s(self) -> float:
        """Return the core-seconds that squeezes withheld and no one has given back; an executor's debt goes with it, unless
        all have ended."""
        return sum(e.record.debt.core_s for e in self.executors.values() if e.live or self.ended)

    def late_since_s(self) -> float | None:
        """Return the time since when a forecast of the application has been past its deadline without a break, seconds after
        submission; None if no forecast is past it."""
        since = (e.record.late_since_s for e in self.executors.values() if e.present or self.ended)
        return min((one for one in since if one is not None), default=None)

    def notify(self, line: str) -> None:
        """Add a line for the user's terminal, once."""
        self.notices.add(line)

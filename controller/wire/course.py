"""Messages of the live page and the master besides views: the course of a run, the runs that have ended, and the savings of
watched runs, which `sparkpace savings` shows, too.

They are sent as JSON of these structs. See docs/protocol.md and docs/guides/observe.md.
"""

from __future__ import annotations

from controller.wire.basis import Basis, Lateness
from controller.wire.message import Message
from controller.wire.worker import OrderedQuota, Sample

COURSE_BYTES = 256 << 10
"""Most bytes of each table in one answer, as stored: some four thousand samples."""
MOST_STAGES = 1000
"""Most stages in one answer, the last ones."""


class StageCourse(Message, frozen=True, kw_only=True):
    """An attempt of a stage; times are seconds after submission, `end_s` None while it runs."""

    stage: int
    attempt: int
    name: str
    start_s: float
    end_s: float | None
    tasks: int


class Course(Message, frozen=True, kw_only=True):
    """GET /v1/applications/ID/course?samples=N&quotas=N&since=S (scope submit): the records behind these offsets, which only
    serve to go on (0: the start), and the stages that run or ended S whole seconds after submission or later.

    `more`: there are further records already. A repeated call returns the same records and any new ones."""

    samples: tuple[Sample, ...] = ()
    samples_next: int = 0
    quotas: tuple[OrderedQuota, ...] = ()
    quotas_next: int = 0
    stages: tuple[StageCourse, ...] = ()
    more: bool = False


class EndedRun(Message, frozen=True, kw_only=True):
    """A run as its record describes it (docs/reference/home.md); None: not known. `observed`: it was only watched."""

    app_id: str
    name: str = ""
    profile: str | None = None
    law: str | None = None
    deadline_s: float | None = None
    end_s: float | None = None
    error_pct: float | None = None
    violated: bool | None = None
    outcome: str | None = None
    end_reason: str = ""
    allocated_core_s: float | None = None
    used_core_s: float | None = None
    debt_core_s: float | None = None
    tasks: int | None = None
    tasks_failed: int | None = None
    executors: int | None = None
    profile_match: float | None = None
    basis: Basis | None = None
    lateness: Lateness | None = None
    submitted_epoch_s: float | None = None
    observed: bool = False


class EndedRuns(Message, frozen=True, kw_only=True):
    """GET /v1/runs (scope submit): the runs that are kept, in order of their ends."""

    runs: tuple[EndedRun, ...]


class RunSavings(Message, frozen=True, kw_only=True):
    """One run. Seconds count from submission. `on_time` None: it had no deadline, or was cut off before that. The last
    fields are None where they are not known, for the reason in `remark`."""

    application_id: str
    name: str
    on_time: bool | None
    deadline_s: float | None
    end_s: float
    held_core_s: float
    used_core_s: float
    least_deadline_s: float | None = None
    saved_core_s: float | None = None
    least_core_s: float | None = None
    most_core_s: float | None = None
    remark: str = ""


class Money(Message, frozen=True, kw_only=True):
    """Saved money, in the unit of the price of a core-hour."""

    price: float
    saved: float
    least: float | None
    most: float | None


class Savings(Message, frozen=True, kw_only=True):
    """Runs with their sums. The sum has an interval where each saving has one."""

    applications: tuple[RunSavings, ...]
    held_core_s: float
    used_core_s: float
    saved_core_s: float
    least_core_s: float | None
    most_core_s: float | None
    money: Money | None = None


class SavingsReply(Message, frozen=True, kw_only=True):
    """GET /v1/savings (scope submit): the savings of the newest watched runs. `left_out`: runs that cannot be read, and runs
    with too many samples for one answer."""

    savings: Savings
    left_out: int = 0

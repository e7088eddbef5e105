"""Messages between commands and master, sent as JSON of these structs. See docs/protocol.md."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from controller.wire.basis import Basis, Lateness, Untaught
from controller.wire.driver import Count
from controller.wire.limits import PathText, Seconds, Text, Words
from controller.wire.message import Message
from controller.wire.states import ApplicationState, Outcome
from controller.wire.worker import LogTails, WorkerInfo
from stage_model.forecast.bounds import StageBound
from stage_model.forecast.curve import Curve
from stage_model.forecast.virtual_time import Forecast
from stage_model.units import NORMAL_PRIORITY

SUBMISSION_ID = re.compile(r"[0-9a-f-]{8,64}", re.ASCII)
"""Form of a submission's id, which no id of an application has."""


class Labels(Message, frozen=True, kw_only=True):
    """POST /v1/workers/ID/labels (scope admin): labels to set, None to take one away; and the answer, all labels of the
    worker now. They count in addition to those the agent was started with, and stay when it restarts."""

    labels: Annotated[dict[Text, Text | None], msgspec.Meta(max_length=1000)]


class Health(Message, frozen=True, kw_only=True):
    """GET /v1/health (no token). `version` is the release."""

    cluster_id: str
    version: str


class Failure(Message, frozen=True, kw_only=True):
    """The answer to any call that is refused or failed: a sentence, and the exit code of a command that shows it."""

    error: str
    exit_code: int = 1


class Empty(Message, frozen=True, kw_only=True):
    """A message without content: the body of a call, or the answer to a call."""


class PlanRequest(Message, frozen=True, kw_only=True):
    """POST /v1/plan (scope submit). `profile` names a stored profile; `profile_json` carries one from a file.

    `law` (None: the cluster's own) and `settings`, its constants ("paper.alpha": 0.95), determine cores and stage deadlines;
    the answer knows the promises made to running applications of the same or a higher `priority`. `conf` has the settings
    that determine number, size and memory of executors (None: not known, memory is not checked). `attached`: the plan is for
    workers that adopt executors of other cluster managers, else for workers that start executors. `most_cores`: the plan is
    made as if the job had this many cores to itself. `curve`: the answer has a curve. `pipeline`: `deadline_s` is the end of
    that whole pipeline, too, in which this job comes after the jobs in `after` (as in `spark.pace.after`). `submits` is the
    name of the application that goes no further if this is refused (None: the user only asks): then the operator may be
    notified. `observe`: the job is only watched."""

    profile: Text | None = None
    profile_json: str | None = None
    deadline_s: Annotated[float, msgspec.Meta(le=1e9)] | None = None
    executors: Count | None = None
    executor_cores: Count | None = None
    settings: Annotated[dict[str, float], msgspec.Meta(max_length=1000)] = {}
    law: Text | None = None
    priority: int = NORMAL_PRIORITY
    conf: Words | None = None
    python: bool = False
    attached: bool = False
    most_cores: Annotated[float, msgspec.Meta(le=1e9)] | None = None
    curve: bool = False
    pipeline: Text | None = None
    after: Text = ""
    submits: Text | None = None
    arguments: Annotated[tuple[str, ...], msgspec.Meta(max_length=10_000)] | None = None
    """The program's arguments, which tell runs that are alike; None: not known."""
    working_dir: PathText | None = None
    """The directory that the program would be submitted from; None: not known."""
    observe: bool = False


class StartRequest(Message, frozen=True, kw_only=True):
    """POST /v1/submissions/ID/start (scope submit): whether the driver of a submission may start, sent again every few
    seconds until it may. `elapsed_s` is the time since the submission, `comes_after` is that of the last answer. `plan` has
    all other facts; None where the master knows them already."""

    name: Text
    elapsed_s: Seconds
    comes_after: Annotated[dict[Text, Text], msgspec.Meta(max_length=100)] = {}
    plan: PlanRequest | None = None


class StartReply(Message, frozen=True, kw_only=True):
    """The answer to a start. `reason` is a clause that says why the driver has to wait, or why it `never` starts; empty: it
    may start. `comes_after` has the ids of the submission's predecessors, by the word that asked for each; `addresses` those
    of services ("HOST:PORT"), once it may start. `known` False: the master needs the plan again."""

    reason: str = ""
    never: bool = False
    comes_after: dict[str, str] = {}
    addresses: dict[str, str] = {}
    known: bool = True


class ServicesRequest(Message, frozen=True, kw_only=True):
    """POST /v1/services (scope submit): the addresses of the services among what a job comes `after`, sent again while its
    driver runs."""

    after: Text


class Services(Message, frozen=True, kw_only=True):
    """The answer: addresses ("HOST:PORT") by the words that asked for them, of the services that serve now."""

    addresses: dict[str, str] = {}


class DriverEnded(Message, frozen=True, kw_only=True):
    """POST /v1/submissions/ID/ended (scope submit), sent again until it is taken: the driver of a submission has ended with
    this exit code, or by a signal: then the code is 128 + the signal's number."""

    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)]


class Change(Message, frozen=True, kw_only=True):
    """POST /v1/applications/ID/set (scope submit): None leaves a value as it is. `deadline_s` counts from submission;
    `labels` is the demand of its executors on workers' labels from now on, in the form of `spark.pace.placement.labels`."""

    deadline_s: Annotated[float, msgspec.Meta(le=1e9)] | None = None
    no_deadline: bool = False
    priority: Text | None = None
    labels: Text | None = None
    force: bool = False


class PlannedStage(Message, frozen=True, kw_only=True):
    name: str
    tasks: int
    work_core_s: float
    deadline_s: float | None
    initial_cores: float | None


class PlanReply(Message, frozen=True, kw_only=True):
    """The plan. `known` False: there is no profile, so nothing is planned. `least_deadline_s`: the least deadline with all
    cores that the cluster can give. `cores`: the least cores with which the law aims at the deadline. `curve`: up to
    `cluster_cores`, if it was asked for. `forecast` is the T(c) that all of this follows from. `further_workers`: the least
    number of further workers, some of which may be on their way, that the deadline needs; `cores` and `cluster_cores` then
    count them, and `least_deadline_s` includes their start."""

    known: bool
    feasible: bool | None = None
    least_deadline_s: float | None = None
    cores: float | None = None
    cluster_cores: float = 0.0
    stages: tuple[PlannedStage, ...] = ()
    reason: str = ""
    curve: Curve | None = None
    forecast: Forecast | None = None
    basis: Basis | None = None
    """The runs that the plan rests on; None where no run is known."""
    further_workers: int = 0


class Refusal(Message, frozen=True, kw_only=True):
    """A refusal. `filter` names its filter, `reason` is a clause for people."""

    filter: str
    reason: str


class WorkerExplanation(Message, frozen=True, kw_only=True):
    """One worker: the application's `executors` there; the refusals of the next one, else its weighted `scores`, the share
    `available` (0.9 (a CPU + b GPU) + 0.1 memory, each divided by the largest worker's), its `free_cores` (below 0 where
    more are planned), whether it is `local` to the driver, whether it is `crowded`: too few cores are free, or it is under
    pressure, so that being local does not count, and whether it is `kept`: among those that the policy chooses from."""

    worker_id: str
    executors: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    scores: dict[str, float] = {}
    available: float = 0.0
    free_cores: float = 0.0
    local: bool = False
    crowded: bool = False
    kept: bool = False


class Explanation(Message, frozen=True, kw_only=True):
    """GET /v1/applications/ID/explain (scope submit). `cores` is the peak planned for an executor, `wanted` the number of
    executors that it wants (None: one on each worker), `waiting` the reason for its wait, `evicted` its executors that were
    ended for others."""

    application_id: str
    name: str
    policy: str
    priority: int
    cores: float
    least_mb: int
    prefer: dict[str, float] = {}
    wanted: int | None = None
    waiting: str = ""
    workers: tuple[WorkerExplanation, ...] = ()
    evicted: tuple[str, ...] = ()
    basis: Basis | None = None
    lateness: Lateness | None = None
    untaught: Untaught | None = None
    """The reason why the run taught nothing, if its record is written."""
    largest_stages: tuple[StageBound, ...] = ()
    """The bounds of the largest stages in the runs that it was planned from."""


class UserShare(Message, frozen=True, kw_only=True):
    """The limits of a user, and what the user has of them: cores that are promised to deadlines, memory that is promised to
    executors, applications that run. None: no limit. `user` is the name of the limits, or the uid where the limits of all
    other users count."""

    user: str
    cores: float = 0.0
    most_cores: float | None = None
    memory_mb: int = 0
    most_memory_mb: int | None = None
    applications: int = 0
    most_applications: int | None = None
    highest_priority: int | None = None


class ApplicationView(Message, frozen=True, kw_only=True):
    """GET /v1/applications[/ID] (scope submit): the data of `ps` and the progress line.

    `debt_core_s` was withheld by squeezes and not given back yet; `memory_mb` is the memory that its containers may use, of
    which `off_heap_mb` is the budget that its executors have acknowledged; `queue_position` counts from 1 among the
    applications that wait for memory: `place` on the wire. `submitted_name` is the name that it was submitted with, where its
    program has set another one. `pipeline` names the pipeline that it is part of.
    """

    application_id: str
    name: str
    state: ApplicationState
    law: str
    priority: int
    submission: str | None = None
    submitted_name: str = ""
    deadline_s: float | None = None
    elapsed_s: float = 0.0
    forecast_end_s: float | None = None
    stage: str | None = None
    stages_done: int = 0
    stages_total: int | None = None
    progress: float | None = None
    demand_cores: float = 0.0
    granted_cores: float = 0.0
    used_cores: float = 0.0
    debt_core_s: float = 0.0
    memory_mb: int = 0
    off_heap_mb: int = 0
    queue_position: int | None = msgspec.field(default=None, name="place")
    executors: int = 0
    ui_url: str | None = None
    run_dir: str | None = None
    profile: str | None = None
    profile_runs: int = 0
    pipeline: str = ""
    reason: str = ""
    outcome: Outcome | None = None
    """The outcome (docs/metrics.md, Outcomes); None before it is settled."""
    notices: tuple[str, ...] = ()
    faults: int = 0
    """Number of failures in the master's work for this application, see its notices."""
    basis: Basis | None = None
    """The runs that its forecast rests on; None where no run is known, or the application cannot be shown."""
    lateness: Lateness | None = None
    """The reason why it ended late, if it did."""
    untaught: Untaught | None = None
    """The reason why it taught nothing, once its record is written."""
    address: str = ""
    """The address ("HOST:PORT") at which its driver serves others by Spark Connect or Thrift; empty without a service."""
    finished: bool = False
    """True if the record (summary.json) is complete, or was given up: then `reason` says why."""
    share: UserShare | None = None
    """The share of its user, of which it has a part; None without limits, or once it has ended."""

    @property
    def ended(self) -> bool:
        return self.state is ApplicationState.ENDED

    @property
    def names(self) -> tuple[str, ...]:
        """Names that people may use for this application."""
        return (self.name, self.submitted_name) if self.submitted_name else (self.name,)


class ApplicationList(Message, frozen=True, kw_only=True):
    """GET /v1/applications (scope submit), in order of registration."""

    applications: tuple[ApplicationView, ...]


class ExecutorPlace(Message, frozen=True, kw_only=True):
    """An executor that an application has or had, and its worker. Its log is in the folder `log_dir` of the machine `host`
    (empty: not known, or another cluster manager has the log)."""

    executor_id: str
    worker_id: str
    host: str = ""
    log_dir: str = ""


class ExecutorPlaces(Message, frozen=True, kw_only=True):
    """GET /v1/applications/ID/executors (scope admin), in order of their starts."""

    executors: tuple[ExecutorPlace, ...]


class ExecutorLog(Message, frozen=True, kw_only=True):
    """GET /v1/applications/ID/executors/EXECUTOR/log (scope admin): the ends of the log, as the worker's agent has just
    read them; none where the executor has printed nothing."""

    files: LogTails = {}


class WorkerView(WorkerInfo, frozen=True, kw_only=True):
    """A worker, with the seconds since its last report to the master, and a sentence on its silence, if it is silent."""

    seen_s_ago: float
    silence: str = ""


class WorkerList(Message, frozen=True, kw_only=True):
    """GET /v1/workers (scope submit)."""

    workers: tuple[WorkerView, ...]

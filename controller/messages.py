"""What travels between bridge, master, agents and commands: the whole wire format, as JSON of these structs.

Everything is level-triggered: a message says what is wanted or what was seen, never a step, so it may be lost or repeated.
Between processes a deadline travels as seconds left at sending (docs/concepts.md, The clock). See docs/protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from stage_model.history.events import AnyEvent, Epoch
from stage_model.plan import ApplicationPlan
from stage_model.units import NORMAL_PRIORITY

Seq = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
"""Number of an event."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
ProfileId = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,10}$")]
"""Spark's number of a resource profile."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Base: unknown fields are ignored, and told once (`controller.wire.reading`): an older peer understands a newer one."""


# ---------------------------------------------------------------- bridge <-> master


class ExecutorWish(Message, frozen=True, kw_only=True):
    """Executors that Spark wants of one resource profile. None: Spark left it open. Memory in MiB."""

    count: Count | None = None
    cores: Count | None = None
    heap_mb: Count | None = None
    overhead_mb: Count | None = None
    off_heap_mb: Count | None = None
    python_mb: Count | None = None


class PythonEnvironment(Message, frozen=True, kw_only=True):
    """The driver's Python: `executable` is what Spark starts on executors, `version` is "3.11"."""

    executable: str
    version: str
    prefix: str
    base_prefix: str


class Registration(Message, frozen=True, kw_only=True):
    """POST /v1/applications (scope submit). `age_s` = seconds since the application's clock started (submission), `steady_ms`
    what the driver's steady clock, which times its events, showed then (None: an older bridge, whose events have times of
    the wall clock).

    `conf` is the SparkConf without secrets; `startup_conf` what executors need as -D; `environment` what they need as
    environment, Spark's auth secret included: it is never logged. `boot_id` is /proc/sys/kernel/random/boot_id and
    `pid_start` field 22 of /proc/PID/stat: together they tell whether the driver still lives.
    `data`: bytes of its input by host, where `spark.pace.placement.input` names paths that Hadoop knows hosts of.
    `application_id` and `instance` are set when the bridge registers again after a master lost its state.
    """

    name: str
    instance: str
    spark_version: str
    user: str
    uid: int
    gid: int
    pid: int
    pid_start: int
    boot_id: str
    host: str
    driver_url: str
    ui_url: str | None = None
    jars_dir: str
    bridge_jar: str
    java_home: str
    working_dir: str
    age_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)]
    steady_ms: Epoch | None = None
    conf: dict[str, str] = {}
    startup_conf: dict[str, str] = {}
    environment: dict[str, str] = {}
    python: PythonEnvironment | None = None
    main: str | None = None
    data: dict[str, int] = {}
    wanted: dict[ProfileId, ExecutorWish] = {}
    application_id: str | None = None


class Registered(Message, frozen=True, kw_only=True):
    """`token` is the application's own (its events and state only); `notices` are lines for the user's terminal."""

    application_id: str
    token: str
    acknowledged: int = 0
    notices: tuple[str, ...] = ()


class Sequenced(Message, frozen=True, kw_only=True):
    """An event (`stage_model.history.events.AnyEvent`, as it came) and its number; a bridge counts from 1 without gaps.

    Each is decoded by itself: one that cannot be read must not keep the others from being taken in."""

    seq: Seq
    event: msgspec.Raw


def sequenced(events: Iterable[AnyEvent], first: int) -> tuple[Sequenced, ...]:
    """Events as a bridge sends them, numbered from `first` on."""
    return tuple(
        Sequenced(seq=number, event=msgspec.Raw(msgspec.json.encode(event))) for number, event in enumerate(events, first)
    )


class DriverSync(Message, frozen=True, kw_only=True):
    """POST /v1/applications/ID/sync (scope: that application's token), at least once a second while the driver lives.

    `wanted` and `killed` (executor ids Spark wants gone) are levels, sent whole each time. `snapshot` comes when events are
    lost: the jobs and stages that are active now, as events without numbers, after which numbering goes on at `next_seq`.
    `steady_ms` is what the driver's steady clock shows at sending."""

    instance: str
    wanted: dict[ProfileId, ExecutorWish] = {}
    killed: tuple[str, ...] = ()
    events: tuple[Sequenced, ...] = ()
    snapshot: tuple[msgspec.Raw, ...] | None = None
    next_seq: Seq = 1
    ended: bool = False
    steady_ms: Epoch | None = None


class ExecutorGone(Message, frozen=True, kw_only=True):
    """An executor that ended. `planned`: Spark or the user wanted it. `by_application`: not killed from outside."""

    executor_id: str
    exit_code: int | None
    planned: bool
    by_application: bool
    reason: str


class Locality(Message, frozen=True, kw_only=True):
    """What the forecast of document 002 says for the stages to come: with `worth` times the hosts that have data of a stage's
    tasks at 1 or more they wait `wait_ms` for executors there, else not at all."""

    worth: float
    wait_ms: int


class DriverReply(Message, frozen=True, kw_only=True):
    """`acknowledged` = highest gapless event number; `gone` = all executors that ended so far (level); `stop` = why the
    application must end now, or None; `notices` = new lines for the terminal; `locality` is for Spark's own wait for
    data-local executors (None: as Spark has it)."""

    acknowledged: int
    gone: tuple[ExecutorGone, ...] = ()
    stop: str | None = None
    notices: tuple[str, ...] = ()
    locality: Locality | None = None


# ---------------------------------------------------------------- master <-> agent


class Mount(Message, frozen=True, kw_only=True):
    """`path` is the same inside and outside. `asked`: the user named it, so the agent's allowed roots apply."""

    path: str
    writable: bool = False
    asked: bool = False


class ExecutorSpec(Message, frozen=True, kw_only=True):
    """One executor that should run. `java_args` follow the java binary; `{local}`, `{logs}`, `{control}`, `{orders}` and
    `{host}` in arguments, environment and mounts are the agent's to fill. `memory_mb` covers heap, overhead, Python and
    off-heap memory of a size that the user chose. With `off_heap_floor_mb` off-heap memory comes on top, as much as
    `Desired.budgets_mb` says but never less than this; None: it has no other off-heap memory. `resources` are the ids of
    pieces that Spark itself was asked for: the agent writes them as Spark's resource file."""

    application_id: str
    executor_id: str
    java_home: str
    java_args: tuple[str, ...]
    environment: dict[str, str]
    mounts: tuple[Mount, ...]
    slots: int
    memory_mb: int
    off_heap_floor_mb: int | None = None
    uid: int
    gid: int
    image: str | None = None
    resources: dict[str, tuple[str, ...]] = {}
    python: PythonEnvironment | None = None
    working_dir: str | None = None
    driver_pid: int = 0
    driver_pid_start: int = 0
    driver_boot_id: str = ""


class Desired(Message, frozen=True, kw_only=True):
    """The state a worker should reach, in every reply to POST /v1/workers/ID/sync (scope admin).

    GET /v1/workers/ID/changes?seen=VERSION&wait=SECONDS answers {"version": N} as soon as it differs from `seen`: the
    agent then syncs at once, so stage events act without waiting for the period. A cluster id that is not the agent's, or
    an older `generation` than it has seen, is refused by the agent.
    An executor is stopped only when listed in `stopped` ("APPLICATION/EXECUTOR"); absence is never an order.
    """

    cluster_id: str
    generation: int
    version: int
    executors: tuple[ExecutorSpec, ...] = ()
    stopped: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    """Applications that are over: what their executors left in the local directory may go."""
    applications: tuple[ApplicationPlan, ...] = ()
    budgets_mb: dict[str, int] = {}
    """Off-heap memory of each executor that has a floor, by "APPLICATION/EXECUTOR": the wanted split of this worker."""


class StageUse(Message, frozen=True, kw_only=True):
    """What one executor did for a stage attempt so far, in this life of the agent.

    `cpu_core_s` is container CPU attributed to it, of which the tasks that run now have used `cpu_running_core_s`,
    `allocated_core_s` the integral of the quota while it ran, `speed` its core-seconds per second in the last period."""

    stage: int
    attempt: int
    running: int
    done: int
    records: float
    records_running: float
    cpu_core_s: float
    allocated_core_s: float
    cpu_running_core_s: float = 0.0
    speed: float = 0.0


class ExecutorReport(Message, frozen=True, kw_only=True):
    """`state`: starting, running, exited, or refused (with `reason`: this executor can never start here).

    `memory_limit_mb` is read back from the runtime. Of its off-heap budget, `off_heap_mb` is what it has acknowledged (None:
    nothing yet, or its size is fixed), of which tasks hold `off_heap_execution_mb` and cached data `off_heap_storage_mb`."""

    application_id: str
    executor_id: str
    state: str
    exit_code: int | None = None
    reason: str = ""
    quota_cores: float = 0.0
    demand_cores: float = 0.0
    cpu_core_s: float = 0.0
    memory_bytes: int = 0
    memory_limit_mb: int = 0
    off_heap_mb: int | None = None
    off_heap_execution_mb: int = 0
    off_heap_storage_mb: int = 0
    log_dir: str = ""
    stages: tuple[StageUse, ...] = ()


class Sample(Message, frozen=True, kw_only=True):
    """One row of a run's table: one executor at one tick. Times are seconds since submission, cores are cores.

    `cpu_core_s` is its container's CPU so far, so no life of an agent loses any; `usage` is its rate since the sample
    before, None for the first one of an agent's life. `squeezed`: it got less than its law asked for because of others;
    `debt_core_s` is the master's, from these.
    """

    application_id: str
    executor_id: str
    time_s: float
    stage: int | None
    set_point: float | None
    progress: float | None
    demand: float
    grant: float
    quota: float
    usage: float | None
    cpu_core_s: float
    squeezed: bool = False
    debt_core_s: float = 0.0
    forecast_end_s: float | None = None


class WorkerInfo(Message, frozen=True, kw_only=True):
    """What a worker offers. `resources`: whole pieces, numbered from 0, besides cores and memory; `images`: executor images
    that it has already; `period_s`: its agent's control period."""

    worker_id: str
    host: str
    cores: float
    memory_mb: int
    runtime: str
    pid: int
    boot_id: str
    allowed_mounts: tuple[str, ...] = ()
    resources: dict[str, int] = {}
    labels: dict[str, str] = {}
    images: tuple[str, ...] = ()
    period_s: float = 1.0


class Labels(Message, frozen=True, kw_only=True):
    """POST /v1/workers/ID/labels (scope admin): labels to set, None to take one away; and the answer, all that it has now.
    They count beside those the agent was started with, and stay when it restarts."""

    labels: dict[str, str | None]


class WorkerSync(Message, frozen=True, kw_only=True):
    """POST /v1/workers/ID/sync (scope admin) every period: what the agent sees.

    `instance` names one life of the agent: stage counters and sample numbers start anew with it. `samples` are numbered
    from `sample_seq` on and repeated until acknowledged. `drivers_gone`: applications whose driver provably died here.
    """

    instance: str
    cluster_id: str
    generation: int
    worker: WorkerInfo
    executors: tuple[ExecutorReport, ...] = ()
    sample_seq: int = 0
    samples: tuple[Sample, ...] = ()
    drivers_gone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class WorkerReply(Message, frozen=True, kw_only=True):
    samples_acknowledged: int
    desired: Desired


class Changed(Message, frozen=True, kw_only=True):
    """The answer to GET /v1/workers/ID/changes."""

    version: int


# ---------------------------------------------------------------- commands <-> master


class Health(Message, frozen=True, kw_only=True):
    """GET /v1/health (no token). `version` is the release."""

    cluster_id: str
    version: str


class Failure(Message, frozen=True, kw_only=True):
    """The answer to any call that is refused or failed: a sentence, and the exit code of a command that shows it."""

    error: str
    exit_code: int = 1


class PlanRequest(Message, frozen=True, kw_only=True):
    """POST /v1/plan (scope submit). `profile` names a stored profile; `profile_json` carries one from a file.

    `law` (None: the cluster's own) and `settings`, its constants ("paper.alpha": 0.95), say which cores and stage deadlines
    follow; the answer knows the promises made to running applications of the same or a higher `priority`. `conf` has the
    settings that an executor's memory follows from (None: not known, not checked)."""

    profile: str | None = None
    profile_json: str | None = None
    deadline_s: float | None = None
    executors: int | None = None
    executor_cores: int | None = None
    settings: dict[str, float] = {}
    law: str | None = None
    priority: int = NORMAL_PRIORITY
    conf: dict[str, str] | None = None
    python: bool = False


class Change(Message, frozen=True, kw_only=True):
    """POST /v1/applications/ID/set (scope submit): None leaves as it is. `deadline_s` counts from submission; `labels` is
    what its executors ask of workers from now on, in the form of `spark.pace.placement.labels`."""

    deadline_s: float | None = None
    no_deadline: bool = False
    priority: str | None = None
    labels: str | None = None
    force: bool = False


class PlannedStage(Message, frozen=True, kw_only=True):
    name: str
    tasks: int
    work_core_s: float
    deadline_s: float | None
    initial_cores: float | None


class PlanReply(Message, frozen=True, kw_only=True):
    """`known` False: no profile, nothing can be said. `least_deadline_s`: with every core the cluster can give. `cores`: the
    least with which the law aims at the deadline."""

    known: bool
    feasible: bool | None = None
    least_deadline_s: float | None = None
    cores: float | None = None
    cluster_cores: float = 0.0
    stages: tuple[PlannedStage, ...] = ()
    reason: str = ""


class Refusal(Message, frozen=True, kw_only=True):
    """`filter` names what refuses, `reason` is a clause for people."""

    filter: str
    reason: str


class WorkerExplanation(Message, frozen=True, kw_only=True):
    """One worker: the application's `executors` there; what refuses the next one, else its weighted `scores`, how much is
    `available` (0.9 (a CPU + b GPU) + 0.1 memory, each divided by the largest worker's), whether it is `local` to the
    driver, and whether it is `kept`: among those that the policy chooses from."""

    worker_id: str
    executors: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    scores: dict[str, float] = {}
    available: float = 0.0
    local: bool = False
    kept: bool = False


class Explanation(Message, frozen=True, kw_only=True):
    """GET /v1/applications/ID/explain (scope submit). `cores` is the peak planned for an executor, `wanted` how many it wants
    (None: one on each worker), `waiting` why it waits, `evicted` which of its executors were ended for others."""

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


class ApplicationView(Message, frozen=True, kw_only=True):
    """GET /v1/applications[/ID] (scope submit): what `ps` and the progress line show. `state`: waiting, running, ended.

    `debt_core_s` was withheld by squeezes and not given back yet; `memory_mb` is what its containers may use, of which
    `off_heap_mb` is the budget that its executors have acknowledged; `place` counts from 1 among those that wait for memory.
    """

    application_id: str
    name: str
    state: str
    law: str
    priority: int
    submission: str | None = None
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
    place: int | None = None
    executors: int = 0
    ui_url: str | None = None
    run_dir: str | None = None
    profile: str | None = None
    profile_runs: int = 0
    reason: str = ""
    notices: tuple[str, ...] = ()
    faults: int = 0
    """How often the master could not take in or do something of this application, see its notices."""
    finished: bool = False
    """The record (summary.json) is complete, or was given up: then `reason` says why."""


class ApplicationList(Message, frozen=True, kw_only=True):
    """GET /v1/applications (scope submit), in order of registration."""

    applications: tuple[ApplicationView, ...]


class WorkerView(WorkerInfo, frozen=True, kw_only=True):
    """A worker and how long ago the master heard of it, in seconds."""

    seen_s_ago: float


class WorkerList(Message, frozen=True, kw_only=True):
    """GET /v1/workers (scope submit)."""

    workers: tuple[WorkerView, ...]

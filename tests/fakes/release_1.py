"""Version 1 of the wire: the structs by which a peer of that release reads, and what it writes. Fields are explained
where they live now (docs/protocol.md). Frozen: nothing here changes when the product does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

WRITTEN: dict[str, list[dict[str, Any]]] = msgspec.json.decode(
    (Path(__file__).parents[1] / "data" / "wire" / "release_1.json").read_bytes()
)
"""Messages of each kind as that release writes them: with all fields, and with the fewest."""

Epoch = Annotated[int, msgspec.Meta(ge=0, le=253402300799999)]

Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"): ...


class StageInfo(msgspec.Struct, frozen=True, kw_only=True):
    stage: Number
    attempt: Number = 0
    name: str = ""
    tasks: Number = 0
    parents: tuple[Number, ...] = ()
    scopes: tuple[str, ...] = ()


class JobStart(Event, frozen=True, kw_only=True, tag="job_start"):
    job: Number
    time_ms: Epoch
    wall_ms: Epoch | None = None
    stages: tuple[StageInfo, ...] = ()
    sql_execution: str | None = None
    properties: dict[str, str] = {}


class JobEnd(Event, frozen=True, kw_only=True, tag="job_end"):
    job: Number
    time_ms: Epoch
    ok: bool


class StageSubmitted(Event, frozen=True, kw_only=True, tag="stage_submitted"):
    info: StageInfo
    time_ms: Epoch


class StageCompleted(Event, frozen=True, kw_only=True, tag="stage_completed"):
    stage: Number
    attempt: Number
    time_ms: Epoch
    failure: str | None = None


class TaskEnd(Event, frozen=True, kw_only=True, tag="task_end"):
    stage: Number
    attempt: Number
    task: Long
    index: Number
    executor: str
    launch_ms: Epoch
    finish_ms: Epoch
    ok: bool
    reason: str = ""
    locality: str = ""
    run_ms: Long = 0
    cpu_ns: Long = 0
    gc_ms: Long = 0
    input_records: Long = 0
    shuffle_read_records: Long = 0
    shuffle_write_records: Long = 0
    input_bytes: Long = 0
    shuffle_read_bytes: Long = 0
    shuffle_write_bytes: Long = 0


class ExecutorAdded(Event, frozen=True, kw_only=True, tag="executor_added"):
    executor: str
    host: str
    cores: Number
    time_ms: Epoch


class ExecutorRemoved(Event, frozen=True, kw_only=True, tag="executor_removed"):
    executor: str
    reason: str
    time_ms: Epoch


class ApplicationEnd(Event, frozen=True, kw_only=True, tag="application_end"):
    time_ms: Epoch


AnyEvent = JobStart | JobEnd | StageSubmitted | StageCompleted | TaskEnd | ExecutorAdded | ExecutorRemoved | ApplicationEnd


class StagePlan(msgspec.Struct, frozen=True, kw_only=True):
    stage: int
    attempt: int
    tasks: int
    name: str = ""
    work_core_s: float = 0.0
    records: float | None = None
    task_cv: float = 0.0
    fixed_s: float = 0.0
    left_s: float | None = None
    length_s: float | None = None
    initial_cores: float | None = None
    group: tuple[int, int] | None = None
    group_base: float = 0.0
    group_share: float = 1.0
    elsewhere_running: int = 0
    elsewhere_done: int = 0
    elsewhere_records: float = 0.0
    elsewhere_records_running: float = 0.0
    elsewhere_cpu_core_s: float = 0.0
    elsewhere_cpu_running_core_s: float = 0.0
    elsewhere_speed: float = 0.0


class ApplicationPlan(msgspec.Struct, frozen=True, kw_only=True):
    application_id: str
    name: str
    law: str = "forecast"
    settings: dict[str, float] = {}
    priority: int = 50
    known: bool = True
    deadline_s: float | None = None
    left_s: float | None = None
    elapsed_s: float = 0.0
    stages: tuple[StagePlan, ...] = ()
    future_busy: tuple[float, ...] = ()
    future_fixed_s: float = 0.0
    future_task_sd_s: float = 0.0
    work_ratio: float = 1.0
    slots: int = 1
    executors: int = 1
    cores: float = 1.0
    speed_limit: float = 1.0
    pace: float = 1.0
    debt_core_s: float = 0.0


Seq = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]

ProfileId = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,10}$")]


class Message(msgspec.Struct, frozen=True, kw_only=True): ...


class ExecutorWish(Message, frozen=True, kw_only=True):
    count: Count | None = None
    cores: Count | None = None
    heap_mb: Count | None = None
    overhead_mb: Count | None = None
    off_heap_mb: Count | None = None
    python_mb: Count | None = None


class PythonEnvironment(Message, frozen=True, kw_only=True):
    executable: str
    version: str
    prefix: str
    base_prefix: str


class Registration(Message, frozen=True, kw_only=True):
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
    age_s: Annotated[float, msgspec.Meta(ge=0, le=1000000000.0)]
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
    application_id: str
    token: str
    acknowledged: int = 0
    notices: tuple[str, ...] = ()


class Sequenced(Message, frozen=True, kw_only=True):
    seq: Seq
    event: msgspec.Raw


class DriverSync(Message, frozen=True, kw_only=True):
    instance: str
    wanted: dict[ProfileId, ExecutorWish] = {}
    killed: tuple[str, ...] = ()
    events: tuple[Sequenced, ...] = ()
    snapshot: tuple[msgspec.Raw, ...] | None = None
    next_seq: Seq = 1
    ended: bool = False
    steady_ms: Epoch | None = None


class ExecutorGone(Message, frozen=True, kw_only=True):
    executor_id: str
    exit_code: int | None
    planned: bool
    by_application: bool
    reason: str


class Locality(Message, frozen=True, kw_only=True):
    worth: float
    wait_ms: int


class DriverReply(Message, frozen=True, kw_only=True):
    acknowledged: int
    gone: tuple[ExecutorGone, ...] = ()
    stop: str | None = None
    notices: tuple[str, ...] = ()
    locality: Locality | None = None


class Mount(Message, frozen=True, kw_only=True):
    path: str
    writable: bool = False
    asked: bool = False


class ExecutorSpec(Message, frozen=True, kw_only=True):
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
    cluster_id: str
    generation: int
    version: int
    executors: tuple[ExecutorSpec, ...] = ()
    stopped: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    applications: tuple[ApplicationPlan, ...] = ()
    budgets_mb: dict[str, int] = {}


class StageUse(Message, frozen=True, kw_only=True):
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
    labels: dict[str, str | None]


class WorkerSync(Message, frozen=True, kw_only=True):
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


class PlanRequest(Message, frozen=True, kw_only=True):
    profile: str | None = None
    profile_json: str | None = None
    deadline_s: float | None = None
    executors: int | None = None
    executor_cores: int | None = None
    settings: dict[str, float] = {}
    law: str | None = None
    priority: int = 50
    conf: dict[str, str] | None = None
    python: bool = False


class Change(Message, frozen=True, kw_only=True):
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
    known: bool
    feasible: bool | None = None
    least_deadline_s: float | None = None
    cores: float | None = None
    cluster_cores: float = 0.0
    stages: tuple[PlannedStage, ...] = ()
    reason: str = ""


class Refusal(Message, frozen=True, kw_only=True):
    filter: str
    reason: str


class WorkerExplanation(Message, frozen=True, kw_only=True):
    worker_id: str
    executors: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    scores: dict[str, float] = {}
    available: float = 0.0
    local: bool = False
    kept: bool = False


class Explanation(Message, frozen=True, kw_only=True):
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
    finished: bool = False


class Health(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str
    version: str


class WorkerView(WorkerInfo, frozen=True, kw_only=True):
    seen_s_ago: float


class ApplicationList(msgspec.Struct, frozen=True):
    applications: tuple[ApplicationView, ...]


class WorkerList(msgspec.Struct, frozen=True):
    workers: tuple[WorkerView, ...]


class Failure(msgspec.Struct, frozen=True):
    error: str
    exit_code: int = 1


Changed = dict[str, int]

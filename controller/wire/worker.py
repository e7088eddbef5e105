"""Messages between agent and master, sent as JSON of these structs. See docs/protocol.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated

import msgspec

from controller.machine.process import Process
from controller.wire.driver import ExecutorProcess, Port, PythonEnvironment, Umask
from controller.wire.durations import Number, Timings
from controller.wire.hosting import STARTS, HostedReport, HostedSpec, Uid
from controller.wire.limits import LOG_BYTES, LOGS, Text
from controller.wire.message import Message
from controller.wire.states import ExecutorState
from stage_model.plan import ApplicationPlan
from stage_model.progress import Progress

Cores = Annotated[float, msgspec.Meta(gt=0, le=4096)]
MemoryMb = Annotated[int, msgspec.Meta(ge=0, le=2**30)]
Pieces = Annotated[int, msgspec.Meta(ge=0, le=4096)]
"""Number of pieces; the master keeps account of each piece."""
PeriodS = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class Mount(Message, frozen=True, kw_only=True):
    """A mount. `path` is the same inside and outside. `asked`: the user named it, so the agent's allowed roots apply.
    `bridge`: the sender calls it the bridge jar."""

    path: str
    writable: bool = False
    asked: bool = False
    bridge: bool = False


class ExecutorSpec(Message, frozen=True, kw_only=True):
    """One executor that should run. `java_args` follow the java binary; `{local}`, `{logs}`, `{control}`, `{orders}`,
    `{credentials}` and `{host}` in arguments, environment and mounts are the agent's to fill. `memory_mb` covers heap,
    overhead, Python and off-heap memory of a size that the user chose. With `off_heap_floor_mb` off-heap memory comes on top,
    as much as `Desired.budgets_mb` says but never less than this; None: it has no other off-heap memory. `resources` are the
    ids of pieces that Spark itself was asked for: the agent writes them as Spark's resource file. `authenticated`: it starts
    with its application's `Desired.credentials`, in the file `{credentials}`. Where executors have a network of their own,
    they reach the `driver_ports` of `driver_address` (none: not known), and if it is not `closed` the outside. `umask` are
    the permissions that its files lack (None: those that the worker's own files lack). `watched`: it starts with all cores of
    the worker, and nothing of it is changed afterwards."""

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
    umask: Umask | None = None
    image: str | None = None
    resources: dict[str, tuple[str, ...]] = {}
    python: PythonEnvironment | None = None
    working_dir: str | None = None
    authenticated: bool = False
    driver: Process | None = None
    driver_host: str = ""
    driver_address: str | None = None
    driver_ports: tuple[Port, ...] = ()
    closed: bool = False
    watched: bool = False


class AdoptedSpec(Message, frozen=True, kw_only=True):
    """One executor that another cluster manager has started and that should be paced: its process as reported, which must be
    that of executor `executor_id` of `spark_application_id` and this driver, which knows it at the address `host`. `watched`:
    nothing of it is changed."""

    application_id: str
    executor_id: str
    slots: int
    process: ExecutorProcess
    spark_application_id: str
    driver_url: str
    host: str = ""
    watched: bool = False


class Desired(Message, frozen=True, kw_only=True):
    """The state a worker should reach, in every reply to POST /v1/workers/ID/sync (scope worker).

    GET /v1/workers/ID/changes?seen=VERSION&wait=SECONDS answers {"version": N} as soon as it differs from `seen`: the
    agent then syncs at once, so stage events act without waiting for the period. The agent refuses a cluster id that is not
    its own, and an older `generation` than it has seen. An executor is stopped only when listed in `stopped`
    ("APPLICATION/EXECUTOR"); absence is never an order.
    """

    cluster_id: str
    generation: int
    version: int
    executors: tuple[ExecutorSpec, ...] = ()
    adopted: tuple[AdoptedSpec, ...] = ()
    """Executors of attached applications that should be paced here; an executor that is listed in `stopped` is let go."""
    progress: dict[str, Progress] = {}
    """Progress of the adopted executors as reported through their driver, by "APPLICATION/EXECUTOR"."""
    stopped: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    """Applications that are over: files that their executors left in the local directory may go."""
    applications: tuple[ApplicationPlan, ...] = ()
    credentials: dict[str, bytes] = {}
    """A Hadoop credentials file for each application's executors on this worker. It is missing while the master does not know
    it: after a restart, the driver has to send it first. It is kept only in memory, except for each executor's own file."""
    leave: bool = False
    """True if the agent is to end, once its executors have."""
    budgets_mb: dict[str, int] = {}
    """Off-heap memory of each executor that has a floor, by "APPLICATION/EXECUTOR": the wanted split of this worker."""
    logs: tuple[str, ...] = ()
    """Executors, as "APPLICATION/EXECUTOR", whose logs people read now: the next report has the ends of them."""
    drivers: tuple[HostedSpec, ...] = ()
    """Drivers that are to be started here; a driver that the agent has on record is not started again."""
    drivers_here: tuple[str, ...] = ()
    """Starts of drivers that the master has here, by their submission ids: others that have ended may be forgotten."""
    drivers_stopped: tuple[str, ...] = ()
    """Starts of drivers that are to end, by their submission ids; absence is never an order."""


class StageUse(Message, frozen=True, kw_only=True):
    """One executor's work for a stage attempt so far, in this life of the agent.

    `cpu_core_s` is container CPU attributed to it, of which the tasks that run now have used `cpu_running_core_s`,
    `allocated_core_s` the integral of the quota while it ran, `throttled_s` the time for which the quota held its threads
    back (summed over CPUs; None: not known), `speed` its core-seconds per second in the last period."""

    stage: int
    attempt: int
    running: int
    done: int
    records: float
    records_running: float
    cpu_core_s: float
    allocated_core_s: float
    cpu_running_core_s: float = 0.0
    throttled_s: float | None = None
    speed: float = 0.0


class ExecutorReport(Message, frozen=True, kw_only=True):
    """The report on one executor. `reason` says why it has that `state`, where that needs a reason.

    `made_room`: its agent has ended it, because the machine was under pressure. `risk`: a warning for its user while it runs.
    `throttled_s` counts since its start, None if not known. `memory_limit_mb` is read back from the runtime. Of its off-heap
    budget, `off_heap_mb` is the acknowledged part (None: nothing yet, or its size is fixed), of which tasks hold
    `off_heap_execution_mb` and cached data `off_heap_storage_mb`."""

    application_id: str
    executor_id: str
    state: ExecutorState
    exit_code: int | None = None
    reason: str = ""
    quota_cores: float = 0.0
    demand_cores: float = 0.0
    cpu_core_s: float = 0.0
    throttled_s: float | None = None
    memory_bytes: int = 0
    memory_limit_mb: int = 0
    off_heap_mb: int | None = None
    off_heap_execution_mb: int = 0
    off_heap_storage_mb: int = 0
    log_dir: str = ""
    stages: tuple[StageUse, ...] = ()
    risk: str = ""
    made_room: bool = False


class LogTail(Message, frozen=True, kw_only=True):
    """The end of an executor's standard output or error: the last `content` of the `size` bytes that the file has. `problem`
    is the reason why it cannot be read, if it cannot."""

    content: Annotated[bytes, msgspec.Meta(max_length=LOG_BYTES)] = b""
    size: Annotated[int, msgspec.Meta(ge=0)] = 0
    problem: Text = ""


LogTails = Annotated[dict[str, LogTail], msgspec.Meta(max_length=2)]
"""The ends of an executor's logs, by the names of the files."""


class OrderedQuota(Message, frozen=True, kw_only=True):
    """A quota that an agent ordered `time_s` after submission, in cores; `before` None: there was no limit. `reason` is the
    law's, and names the cores that others took, or what its machine is short of. The executor is named only where the quota
    is not part of a sample."""

    time_s: float
    executor_id: str = ""
    before: float | None
    cores: float
    reason: str


class Sample(Message, frozen=True, kw_only=True):
    """One row of a run's table: one executor at one tick. Times are seconds since submission.

    `cpu_core_s` is its container's CPU so far, so an agent's restart loses none; `usage` is its rate since the sample before,
    None for the first sample of an agent's life. `squeezed`: the executor got less than its law asked for because of others;
    `pressed`: its machine is under pressure, so it had to make room. The master works out `debt_core_s` from these samples.
    `ordered`: the quotas since the sample before.
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
    pressed: bool = False
    debt_core_s: float = 0.0
    forecast_end_s: float | None = None
    ordered: tuple[OrderedQuota, ...] = ()


def cores_between(before: Sample, after: Sample) -> float:
    """Return the cores that an executor held from one of its samples to its next. The grant of the first holds until the
    next; where another agent took over in between, the quota was lifted and no sample shows it, so the executor held at least
    what it used."""
    cores = before.grant if before.grant > 0 else before.quota
    if after.usage is not None or after.time_s <= before.time_s:
        return cores
    return max(cores, (after.cpu_core_s - before.cpu_core_s) / (after.time_s - before.time_s))


def samples_by_executor(samples: Iterable[Sample]) -> list[list[Sample]]:
    """Return the samples of each executor, in the order of their times."""
    found = defaultdict[str, list[Sample]](list)
    for sample in samples:
        found[sample.executor_id].append(sample)
    return [sorted(rows, key=lambda sample: sample.time_s) for rows in found.values()]


class WorkerInfo(Message, frozen=True, kw_only=True):
    """A worker and its offer. `resources`: whole pieces, numbered from 0, besides cores and memory; `images`: executor images
    that it has already; `period_s`: its agent's control period; `own_networks`: its executors have addresses that only this
    host knows; `adopts`: it paces executors that other cluster managers start there, and starts no executor; `everywhere`:
    its cores are spread equally over `nodes` machines, and its executors may be on any of them. `hosts_for`: the uid of the
    user whose drivers its agent runs, 0: those of every user, None: none."""

    worker_id: str
    host: str
    cores: Cores
    memory_mb: MemoryMb
    runtime: str
    pid: int
    boot_id: str
    allowed_mounts: tuple[str, ...] = ()
    resources: dict[str, Pieces] = {}
    labels: dict[str, str] = {}
    images: tuple[str, ...] = ()
    period_s: PeriodS = 1.0
    own_networks: bool = False
    adopts: bool = False
    everywhere: bool = False
    nodes: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    hosts_for: Uid | None = None


class WorkerSync(Message, frozen=True, kw_only=True):
    """POST /v1/workers/ID/sync (scope worker) every period: the agent's view.

    `instance` names one life of the agent: stage counters and sample numbers start again with it. `samples` are numbered from
    `sample_seq` on and repeated until acknowledged. `drivers_gone`: applications whose driver provably died here. `timings`
    are the metrics of the agent itself (None: not known). `relief_steps`: steps in force by which executors of lower priority
    make room on a machine under pressure. `leaves`: the agent ends once this report is answered. `logs` has the logs that
    `Desired.logs` asks for, by "APPLICATION/EXECUTOR"; None: the agent's release sends no logs. `drivers`: the starts of
    drivers that the agent has records of.
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
    timings: Timings | None = None
    relief_steps: Number = 0
    leaves: bool = False
    logs: Annotated[dict[str, LogTails], msgspec.Meta(max_length=LOGS)] | None = None
    drivers: Annotated[tuple[HostedReport, ...], msgspec.Meta(max_length=STARTS)] = ()


class WorkerReply(Message, frozen=True, kw_only=True):
    samples_acknowledged: int
    desired: Desired


class Changed(Message, frozen=True, kw_only=True):
    """The answer to GET /v1/workers/ID/changes. `reported`: the worker has reported in this life of the master."""

    version: int
    reported: bool = False

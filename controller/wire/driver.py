"""Messages between bridge and master, sent as JSON of these structs. See docs/protocol.md."""

from __future__ import annotations

from typing import Annotated

import msgspec

from controller.machine.process import Process
from controller.wire.limits import Ids, InputBytes, PathText, Seconds, Text, Words
from controller.wire.message import Message
from stage_model.history.events import Epoch
from stage_model.progress import Progress

Seq = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
"""Number of an event."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Ports = Annotated[tuple[Port, ...], msgspec.Meta(max_length=16)]
Umask = Annotated[int, msgspec.Meta(ge=0, le=0o777)]
"""Permission bits that new files lack (umask(2))."""
SparkNumber = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,10}\Z")]
"""Spark's number of a resource profile or, under its own cluster managers, of an executor."""
MOST_CREDENTIALS = 1 << 12
"""Most bytes of a credentials file."""


class ExecutorWish(Message, frozen=True, kw_only=True):
    """Executors that Spark wants of one resource profile. None: Spark leaves the value open. Memory in MiB."""

    count: Count | None = None
    cores: Count | None = None
    heap_mb: Count | None = None
    overhead_mb: Count | None = None
    off_heap_mb: Count | None = None
    python_mb: Count | None = None


Wishes = Annotated[dict[SparkNumber, ExecutorWish], msgspec.Meta(max_length=1000)]
"""Wishes by resource profile; Spark names all that an application ever had."""
ExecutorCredentials = Annotated[bytes, msgspec.Meta(max_length=MOST_CREDENTIALS)]
"""A Hadoop credentials file."""


class PythonEnvironment(Message, frozen=True, kw_only=True):
    """The driver's Python: `executable` is the program that Spark starts on executors, `version` is like "3.11"."""

    executable: PathText
    version: Text
    prefix: PathText
    base_prefix: PathText


class ExecutorProcess(Message, frozen=True, kw_only=True):
    """The process and the user that an executor says are its own. It is not a `Process` yet, because user code could name any
    process: the agent looks for it in its /proc."""

    pid: int
    start_ticks: int
    boot_id: Text
    pid_namespace: Text
    uid: int

    @property
    def process(self) -> Process:
        return Process(self.pid, self.start_ticks, self.boot_id, self.pid_namespace)


class AttachedExecutor(Message, frozen=True, kw_only=True):
    """An executor that the cluster manager of an attached application has started, as its plugin reports it. `slots` are its
    cores in Spark's eyes. Its id is a number, as with all of Spark's cluster managers: files are named after it."""

    executor_id: SparkNumber
    host: Text
    profile_id: SparkNumber = "0"
    slots: Annotated[int, msgspec.Meta(ge=1, le=4096)]
    process: ExecutorProcess
    progress: Progress | None = None


NOBODY_UID = 65534
"""The uid that a call or an attached application counts for where no one vouches for its user."""


class Registration(Message, frozen=True, kw_only=True):
    """POST /v1/applications (scope submit). `age_s` = seconds since the application's clock started (submission), `steady_ms`
    the time of the driver's steady clock, which times its events, then (None: its events have times of the wall clock).

    `conf` is the SparkConf without secrets; `startup_conf` the settings that executors need as -D; `environment` the
    variables that they need: they are never logged. `authenticated`: driver and executors know each other by a secret
    (`spark.authenticate`), which is in `credentials`, for the executors; the master keeps them in memory. `boot_id` is
    /proc/sys/kernel/random/boot_id and `pid_start` field 22 of /proc/PID/stat: together they show if the driver still lives.
    Process numbers are those of `pid_namespace` ("pid:[NUMBER]"; empty: not known). `umask` are the permissions that files of
    the driver lack (None: not known). `data`: bytes of its input by host, where `spark.pace.placement.input` names paths that
    Hadoop knows hosts of. `address` is the IPv4 address of `host` as the driver sees it (None: no such address). `ports` are
    the ports that executors must reach there: of RPC and of blocks. They are empty until Spark has opened all of them, just
    after this message (a sync then has them); None: not known. `attached`: another cluster manager starts its executors, so
    fields that only a start needs are empty. `instance` names the driver's application in each of its registrations, and
    `application_id` is set when the bridge registers again after a master has lost its state.
    """

    name: Text
    instance: Text
    spark_version: Text
    user: Text
    uid: int
    gid: int
    pid: int
    pid_start: int
    boot_id: Text
    pid_namespace: Text = ""
    umask: Umask | None = None
    host: Text
    address: Text | None = None
    driver_url: Text
    ui_url: Text | None = None
    jars_dir: PathText
    bridge_jar: PathText
    java_home: PathText
    working_dir: PathText
    age_s: Seconds
    steady_ms: Epoch | None = None
    conf: Words = {}
    startup_conf: Words = {}
    environment: Words = {}
    authenticated: bool = False
    credentials: ExecutorCredentials | None = None
    python: PythonEnvironment | None = None
    main: PathText | None = None
    data: InputBytes = {}
    wanted: Wishes = {}
    application_id: Text | None = None
    ports: Ports | None = None
    attached: bool = False

    @property
    def process(self) -> Process:
        return Process(self.pid, self.pid_start, self.boot_id, self.pid_namespace)


class Registered(Message, frozen=True, kw_only=True):
    """The answer to a registration. `token` is the application's own (its events and state only); `notices` are lines for the
    user's terminal."""

    application_id: str
    token: str
    acknowledged: int = 0
    notices: tuple[str, ...] = ()


class Sequenced(Message, frozen=True, kw_only=True):
    """An event (`stage_model.history.events.AnyEvent`, as it came) and its number; a bridge counts from 1 without gaps.

    Each event is decoded by itself: an unreadable one must not keep the others from being taken in."""

    seq: Seq
    event: msgspec.Raw


class DriverSync(Message, frozen=True, kw_only=True):
    """POST /v1/applications/ID/sync (scope: that application's token), at least once a second while the driver lives.

    `wanted` and `killed` (executor ids Spark wants gone) are levels, sent whole each time. `snapshot` comes when events are
    lost: the jobs and stages that are active now, as events without numbers, after which numbering goes on at `next_seq`.
    `steady_ms` is the time of the driver's steady clock at sending, `ports` as at registration. `credentials` come, as at
    registration, once after the master has said that it lacks them. For an attached application, `executors` are the
    executors that live and have announced themselves (level), `spark_application_id` is its cluster manager's id.
    `driver_end` comes once the application has ended (`controller.master.core.outcome.DriverEnd`): it gives the end of the
    driver's JVM, or announces one more message with that. `serves` is the port at which the driver serves others by Spark
    Connect or Thrift, once it does."""

    instance: Text
    wanted: Wishes = {}
    killed: Ids = ()
    events: Annotated[tuple[Sequenced, ...], msgspec.Meta(max_length=10_000)] = ()
    snapshot: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=10_000)] | None = None
    next_seq: Seq = 1
    ended: bool = False
    steady_ms: Epoch | None = None
    ports: Ports = ()
    credentials: ExecutorCredentials | None = None
    executors: Annotated[tuple[AttachedExecutor, ...], msgspec.Meta(max_length=10_000)] = ()
    spark_application_id: Text | None = None
    driver_end: Text | None = None
    serves: Port | None = None


class ExecutorGone(Message, frozen=True, kw_only=True):
    """An executor that ended. `planned`: Spark or the user wanted it. `by_application`: not killed from outside."""

    executor_id: str
    exit_code: int | None
    planned: bool
    by_application: bool
    reason: str


class Locality(Message, frozen=True, kw_only=True):
    """The forecast of document 002 for the stages to come: if `worth` times the number of hosts with data of a stage's tasks
    is 1 or more, the tasks wait `wait_ms` for executors there, else not at all."""

    worth: float
    wait_ms: int


class DriverReply(Message, frozen=True, kw_only=True):
    """The answer to a sync. `acknowledged` = highest gapless event number that is stored; the driver keeps later events.
    `taken` = the number behind which it is to go on, where nothing can be stored now (None: behind `acknowledged`). `gone` =
    all executors that ended so far (level); `stop` = why the application must end now, or None; `notices` = new lines for the
    terminal; `locality` is for Spark's own wait for data-local executors (None: as Spark has it). `starved` = executors that
    have lost cores to others, with the number of a stage's tasks that must wait before Spark gives one to the executor
    (level). `lacks_credentials`: a master that has started again does not know the executors' credentials, and starts no
    executor before it has them."""

    acknowledged: int
    taken: int | None = None
    gone: tuple[ExecutorGone, ...] = ()
    stop: str | None = None
    notices: tuple[str, ...] = ()
    locality: Locality | None = None
    lacks_credentials: bool = False
    starved: dict[str, int] = {}

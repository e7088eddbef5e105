"""Everything that parses what others wrote, by name: what takes the bytes in, which errors its caller handles, good inputs.

`test_targets` reads this table. Whatever else is raised is a finding.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import sqlite3
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from controller.agent.executors.known import PROGRESS_FILE, ProgressRefused, read_progress
from controller.asks.job_options import job_options, parse_mounts
from controller.asks.properties import format_properties, parse_properties
from controller.asks.submit_args import split_arguments
from controller.cli.log_plan import plan_without_cluster
from controller.client import MasterClient
from controller.home import Home
from controller.locks import last_holder
from controller.machine.process import Process
from controller.master.core.executor_spec import executor_slots, executor_spec
from controller.master.core.plan_reply import ClusterNow, plan_reply
from controller.master.profiles import profile_of
from controller.master.storage.kept import begin_life
from controller.master.storage.store import Store
from controller.master.topology_file import read_topology
from controller.runs.eventlog_files import read_event_log_file
from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import SAMPLES, STAGES, SUMMARY, read_samples, read_stages, read_summary
from controller.runtime.base import ExecutorKey
from controller.runtime.claimed_process import Serves
from controller.runtime.executor_record import ContainerRecord, Record, read_all, write
from controller.runtime.kubernetes.pod_cpu import pod_cpu
from controller.runtime.kubernetes.pod_resize import goal, why_not_paced
from controller.wire import command, driver, version, worker
from placement.dependencies import parse_after
from placement.labels import parse_labels, parse_requirements
from placement.resources import parse_advertised, parse_asked
from placement.scores import parse_weights
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput, PaceError
from stage_model.forecast.advice import advice
from stage_model.forecast.curve import reference_slots
from stage_model.history.eventlog import read_event_log
from stage_model.history.events import AnyEvent
from stage_model.history.gaps import gaps, why_incomplete
from stage_model.history.held import cores_held
from stage_model.history.profile import parse_profile, profile
from stage_model.progress import SCHEMA, MemoryProgress, Progress, StageProgress
from stage_model.units import parse_cores, parse_deadline, parse_duration, parse_memory_mb, parse_priority
from tests.fakes.cluster import FakeCluster, application_record, one_stage_run, registration, report
from tests.fakes.kube_api import KubeState, executor_pod
from tests.fakes.messages import made_up
from tests.fakes.records import run, stage
from tests.fakes.worker import FakeWorker, spec
from tests.fuzz.api import Conversation, conversations

LOGS = Path(__file__).parents[1] / "data" / "eventlogs"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Target:
    """A target whose `take` raises only `errors`. `slow`: an input takes tens of milliseconds."""

    name: str
    take: Callable[[bytes], object]
    seeds: Sequence[bytes]
    errors: tuple[type[Exception], ...] = ()
    slow: bool = False


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# ---------------------------------------------------------------- messages

MESSAGES: tuple[Any, ...] = (
    *(driver.Registration, driver.Registered, driver.DriverSync, driver.DriverReply, AnyEvent),
    *(worker.WorkerSync, worker.WorkerReply, worker.Changed, command.Health, command.Failure, command.PlanRequest),
    *(command.PlanReply, command.Change, command.Labels, command.Explanation, command.ApplicationView),
    *(command.ApplicationList, command.WorkerList, command.StartRequest, command.StartReply),
    *(command.ServicesRequest, command.Services, command.ExecutorPlaces, command.ExecutorLog),
)


def _message(data: bytes) -> None:
    """Read a message whose first byte says of which kind it is; each is looked at for unknown fields."""
    if data:
        msgspec.json.decode(data[1:], type=MESSAGES[data[0] % len(MESSAGES)])


def _answer(data: bytes) -> None:
    """Read a command's answer: status, the header of versions, body."""
    status, _, rest = data.partition(b" ")
    header, _, body = rest.partition(b" ")
    version.check_header(header.decode("latin-1"), "the master", "this command")
    client = MasterClient("https://127.0.0.1:1", Path("none"))
    if status.isdigit() and int(status[:3]) >= 400:
        raise client._failure(int(status[:3]), body)


# ---------------------------------------------------------------- files of agents


def _progress(data: bytes) -> None:
    with folder() as path:
        (path / PROGRESS_FILE).write_bytes(data)
        read_progress(path, "1", path.stat().st_uid)


def _agent(data: bytes) -> None:
    """Run an agent whose executor says that, and another that goes on."""
    with folder() as path:
        here = FakeWorker(path)
        mine, other = ExecutorKey("app", "1"), ExecutorKey("other", "1")
        here.want([spec(key.application_id) for key in (mine, other)])
        here.tick()
        here.progress_file(mine).write_bytes(data)
        for cores in (1, 2):
            here.tick(cores)
        assert other in here.running(), "another executor does not run"
        assert not here.agent.outbox._troubles, here.agent.outbox._troubles


def _progress_of(*stages: StageProgress, memory: MemoryProgress | None = None) -> bytes:
    return msgspec.json.encode(Progress(schema=SCHEMA, executor="1", sequence=1, stages=stages, memory=memory))


PROGRESS_SEEDS = (
    _progress_of(),
    _progress_of(StageProgress(stage=0, attempt=0, running=2, done=1, failed=1, records_done=9, cpu_ns=10**9)),
    _progress_of(
        *(StageProgress(stage=n, attempt=n % 2, running=n, done=2 * n, records_running=n) for n in range(5)),
        memory=MemoryProgress(order=1, budget=1 << 30, execution=1 << 20, storage=1 << 10),
    ),
)


def _records(data: bytes) -> None:
    """Leave a record that cannot be read alone, and find others."""
    with folder() as path:
        good = ContainerRecord(cluster_id="c", worker_id="w", application_id="a", executor_id="2", container="f" * 64)
        write(path / "zz.json", good)
        file = path / "aa.json"
        file.write_bytes(data)
        file.chmod(0o600)
        for kind in (Record, ContainerRecord):
            list(read_all(path, kind, "c", "w"))
        found = [record for _, record in read_all(path, ContainerRecord, "c", "w")]
        assert good in found, "another record is not found"


RECORD_SEEDS = tuple(
    msgspec.json.encode(one)
    for one in (
        Record(
            cluster_id="c",
            worker_id="w",
            application_id="a",
            executor_id="1",
            process=Process(1, 2, "b"),
            quota_cores=1,
        ),
        ContainerRecord(cluster_id="c", worker_id="w", application_id="a", executor_id="1", container="0" * 64),
    )
)


# ---------------------------------------------------------------- files of a home


def _home(data: bytes) -> None:
    """Read the cluster's identity, the file of a running cluster, a lock: the first byte says which."""
    kind, content = data[:1], data[1:]
    with folder() as path:
        home = Home(path)
        if kind == b"i":
            home.identity_file.write_bytes(content)
            store = Store(path / "master.db")
            try:
                begin_life(home.identity_file, store)
            finally:
                store.close()
        elif kind == b"l":
            home.master_lock.write_bytes(content)
            last_holder(home.master_lock)
        elif kind == b"t":
            home.submit_token_file.write_bytes(content)
            home.submit_token_file.chmod(0o600)
            home.submit_token()
        else:
            home.cluster_file.write_bytes(content)
            home.cluster()


HOME_SEEDS = (
    b'i{"cluster_id":"abc","generation":3}\n',
    b'l{"process":{"pid":1,"start_ticks":2,"boot_id":"b"},"note":"https://127.0.0.1:1"}',
    b"tsecret\n",
    (
        b'c{"cluster_id":"abc","url":"https://h:1","host":"h","port":1,"runtime":"docker","master":'
        b'{"pid":1,"start_ticks":2,"boot_id":"b"},"agents":'
        b'[{"worker_id":"w1","process":{"pid":1,"start_ticks":2,"boot_id":"b"}}],"options":{"a":1}}'
    ),
)


def _run_folder(data: bytes) -> None:
    reader, name = {b"s": (read_stages, STAGES), b"a": (read_samples, SAMPLES)}.get(data[:1], (read_summary, SUMMARY))
    with folder() as path:
        (path / name).write_bytes(data[1:])
        reader(path)


RUN_SEEDS = (
    b'j{"app_id":"a","name":"n","deadline_s":1.5}',
    b"sstage,attempt,name,start_s,end_s,tasks\n0,0,collect at x,1.5,2,4\n1,0,,2,,4\n",
    (
        b"atime_s,executor,stage,set_point,progress,demand,grant,quota,usage,cpu_core_s,debt_core_s,forecast_end_s\n"
        b"1,1,0,0.5,0.4,1,1,1,0.5,0.5,0,9\n2,1,,,,1,1,1,,1,0,\n"
    ),
)

# ---------------------------------------------------------------- profiles and logs


def _profile(data: bytes) -> None:
    """Read a profile from a file, plan by it, and keep it."""
    request = command.PlanRequest(profile_json=data.decode(errors="replace"), deadline_s=60.0, most_cores=2.0, curve=True)
    info = worker.WorkerInfo(worker_id="w", host="h", cores=2.5, memory_mb=4096, runtime="docker", pid=1, boot_id="b")
    with folder() as path:
        store = ProfileStore(path)
        msgspec.json.encode(plan_reply(request, profile_of(request, store), ClusterNow([info, info])))
        alone = msgspec.structs.replace(request, law="paper", most_cores=None, curve=False)
        msgspec.json.encode(plan_reply(alone, profile_of(alone, store), ClusterNow([info])))
        known = store.add(parse_profile(data))
        assert store.load(known.key) == known, "what was kept is read back as something else"


PROFILE_SEEDS = tuple(
    msgspec.json.encode(profile("k", runs))
    for runs in (
        (),
        (run("r1", 1, stage("a"), stage("b", parents=("a",), sql=0)), run("r2", 2, stage("a", records=7, tasks=400))),
        (run("r3", 3, *(stage(f"s{n}", parents=(f"s{n - 1}",) if n else (), task_cv=n / 3) for n in range(6))),),
    )
)


def _event_log(data: bytes) -> None:
    """Make a record from the lines of a log, and of a complete record a profile that can be read again."""
    _learned(read_event_log(data.splitlines(keepends=True), "log"))


def _learned(log: Any) -> None:
    """Check that the gaps of a log can be named, and that a plan from it has no negative time and saves no more than was
    held."""
    assert all(gaps(log.run))
    record = log.record()
    if not record.complete:
        assert why_incomplete(log.run)
        return
    with folder() as path:
        ProfileStore(path).learn("k", record)
        known = ProfileStore(path).load("k")
        assert known is not None
    found = plan_without_cluster(command.PlanRequest(curve=True, deadline_s=60.0), known).curve
    assert found is not None
    assert all(point.end_s >= 0 for point in found.points)
    held = cores_held(log.cores_held, record.when_ms, record.duration_s)
    saved = advice(known, held, float(reference_slots(known)), 60.0, ()).saving
    assert 0 <= saved.saved_core_s <= saved.held_core_s


def _event_log_file(data: bytes) -> None:
    """Read a log file: plain, compressed or in an archive, or a rolling log whose parts begin with a line NAME."""
    with folder() as path:
        name, newline, content = data.partition(b"\n")
        if name.startswith(b"events_") and newline and b"/" not in name and b"\0" not in name and len(name) < 200:
            where = path / "eventlog_v2_x"
            where.mkdir()
            (where / name.decode(errors="surrogateescape")).write_bytes(content)
            (where / "events_1_x").write_bytes(content)
        else:
            where = path / "log"
            where.write_bytes(data)
        _learned(read_event_log_file(where))


def _log_seeds() -> Iterator[bytes]:
    """Yield one line of every kind that is used from a real log, and its end."""
    lines = [line for part in sorted((LOGS / "eventlog_v2_golden").glob("events_*")) for line in _decompressed(part)]
    first: dict[str, bytes] = {}
    for line in lines:
        first.setdefault(json.loads(line)["Event"], line)
    ends = ("SparkListenerStageCompleted", "SparkListenerJobEnd", "SparkListenerApplicationEnd")
    yield b"".join([*(line for name, line in first.items() if name not in ends), *(first[name] for name in ends)])


def _packed_seeds() -> Iterator[bytes]:
    """Yield the same in a zip and in a tar, in parts."""
    content, made = next(_log_seeds()), (io.BytesIO(), io.BytesIO())
    names = ("eventlog_v2_x/events_2_x", "eventlog_v2_x/events_1_x")
    with zipfile.ZipFile(made[0], "w", zipfile.ZIP_DEFLATED) as zipped, tarfile.TarFile(fileobj=made[1], mode="w") as tarred:
        for name, part in zip(names, (content[1000:], content[:1000]), strict=True):
            zipped.writestr(name, part)
            info = tarfile.TarInfo(name)
            info.size = len(part)
            tarred.addfile(info, io.BytesIO(part))
    yield from (made[0].getvalue(), made[1].getvalue(), gzip.compress(made[1].getvalue()))


def _decompressed(path: Path) -> list[bytes]:
    from controller.runs.eventlog_files import _lines

    return list(_lines(path))


# ---------------------------------------------------------------- what people write

TEXTS: tuple[tuple[Callable[[str], object], str], ...] = (
    (parse_duration, "1h30m"),
    (lambda text: parse_deadline(text, NOW), "2030-01-31T18:00+01:00"),
    (parse_priority, "high"),
    (parse_memory_mb, "1.5g"),
    (parse_cores, "2.5"),
    (parse_labels, "zone=a,disk=ssd"),
    (parse_requirements, "zone=a,disk!=hdd,gpu,!spot"),
    (parse_advertised, "gpu=2,ssd=1"),
    (parse_asked, "gpu=0.5,ssd=1"),
    (parse_weights, "data=4,rack=1,cpu=0.5"),
    (parse_after, "first,second:success,third:up"),
    (lambda text: parse_mounts(text, Path("/tmp")), "/tmp:ro,.:rw,/usr"),
)


def _text(data: bytes) -> None:
    """Read a text; the first byte says what it is taken for."""
    if data:
        TEXTS[data[0] % len(TEXTS)][0](data[1:].decode(errors="replace"))


def _conf(data: bytes) -> None:
    """Turn the settings of an application, as JSON, into the command line of an executor."""
    conf = msgspec.json.decode(data, type=dict[str, str])
    options = job_options(conf, submitted=NOW, working_dir=Path("/tmp"), default_law="forecast")
    record = application_record(registration(conf=conf), options)
    for profile_id, wish in (("0", driver.ExecutorWish()), ("1", driver.ExecutorWish(cores=3, heap_mb=100))):
        slots = executor_slots(conf, wish, profile_id, 2.5)
        msgspec.json.encode(executor_spec(record, "1", wish, profile_id, slots))


CONF_SEEDS = tuple(
    json.dumps({**{f"spark.pace.{name}": text for name, text in ours.items()}, **sparks}).encode()
    for ours, sparks in (
        ({"deadline": "10min", "priority": "low", "law": "paper", "law.paper.alpha": "0.9", "mounts": "/tmp"}, {}),
        (
            {
                "placement.resources": "gpu=0.5",
                "placement.labels": "zone=a",
                "placement.ports": "80,443",
                "after": "x:success,y:up",
            },
            {"spark.executor.resource.fpga.amount": "2", "spark.executor.cores": "2", "spark.executor.memory": "1g"},
        ),
        ({"pipeline": "nightly", "pipeline.by": "10min"}, {}),
        (
            {
                "placement.group": "g",
                "placement.apart": "a,b",
                "placement.prefer": "h1,h2",
                "locality.wait": "3s",
                "force": "true",
            },
            {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "64m", "spark.buffer.pageSize": "1m"},
        ),
        (
            {"arguments": '["a", "b"]', "locality.move": "1s", "placement.policy": "spread", "profile": "p", "image": "i"},
            {
                "spark.executor.memoryOverheadFactor": "0.2",
                "spark.executor.pyspark.memory": "512",
                "spark.memory.offHeap.size": "1",
            },
        ),
        ({}, {"spark.executor.extraJavaOptions": "-Da='b c' {{APP_ID}}", "spark.executor.memoryOverhead": "400"}),
    )
)


def _properties(data: bytes) -> None:
    found = parse_properties(data.decode(errors="replace"))
    assert parse_properties(format_properties(found)) == found, "what was written is read back as something else"
    format_properties(found).encode()


def _topology(data: bytes) -> None:
    with folder() as path:
        file = path / "topology"
        file.write_bytes(data)
        topology = read_topology(file)
        topology.locate("10.1.2.3")
        topology.locate("fe80::1")
        topology.locate(data[:40].decode("latin-1"))


def _arguments(data: bytes) -> None:
    split_arguments(data.decode(errors="surrogateescape").split("\n"))


# ---------------------------------------------------------------- the master's store

TABLES = {
    "meta": "key, value",
    "applications": "id, live, data",
    "events": "application, seq, data",
    "snapshots": "application, number, behind, next_seq, data",
    "executors": "application, executor, data",
}


def _store(data: bytes) -> None:
    """Write lines {TABLE: [VALUE, ...]} into a store that has two applications; the master starts all the same and knows the
    application that is untouched."""
    with folder() as path:
        cluster = FakeCluster(path)
        cluster.worker("w1")
        mine, healthy = cluster.register(instance="one", name="one"), cluster.register(instance="two", name="two")
        for application_id in (mine, healthy):
            cluster.driver(application_id, *one_stage_run(1000)[:4])
        cluster.worker("w1", report(mine, "1"), report(healthy, "1"))
        cluster.state.store.close()
        with sqlite3.connect(path / "master.db", isolation_level=None) as db:
            for line in data.split(b"\n")[:20]:
                _write_row(db, line, mine, healthy)
        db.close()
        cluster.restart()
        try:
            assert cluster.state.applications[healthy].stream.acknowledged == 4, "another application has lost its events"
            reply = cluster.worker("w1", report(healthy, "1"))
            assert [plan.application_id for plan in reply.desired.applications if plan.application_id == healthy]
            cluster.tick()
            assert not cluster.state.parts.failures, cluster.state.parts.failures
        finally:
            cluster.state.store.close()


def _write_row(db: sqlite3.Connection, line: bytes, mine: str, healthy: str) -> None:
    try:
        [(table, values)] = msgspec.json.decode(line, type=dict[str, list[Any]]).items()
        columns = TABLES[table]
    except (*UNREADABLE, ValueError, KeyError):
        return
    row = [_sql(value, mine) for value in values]
    if healthy in row or (table == "meta" and row[:1] == ["cluster_id"]):
        return  # that would be another story
    marks = ", ".join("?" if not isinstance(v, tuple) else "CAST(? AS TEXT)" for v in row)
    try:
        plain = [v[0] if isinstance(v, tuple) else v for v in row]
        db.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})", plain)
    except (sqlite3.Error, OverflowError, UnicodeEncodeError):
        return  # not what a file could hold


def _sql(value: Any, mine: str) -> Any:
    """Return the value for SQL: @mine is the id of the application; b64:... a blob, t64:... the bytes of a text."""
    if isinstance(value, str):
        value = value.replace("@mine", mine)
        if value.startswith(("b64:", "t64:")):
            try:
                raw = base64.b64decode(value[4:])
            except ValueError:
                return value
            return raw if value[0] == "b" else (raw,)
        return value
    if isinstance(value, list | dict):
        return json.dumps(value).replace("@mine", mine).encode(errors="replace")
    return value


STORE_SEEDS = tuple(
    b"\n".join(json.dumps({table: row}).encode() for table, row in rows)
    for rows in (
        [
            ("applications", ["@mine", 1, {"application_id": "@mine"}]),
            ("events", ["@mine", 5, {"type": "job_end", "job": 0}]),
        ],
        [("executors", ["@mine", "1", "b64:/w=="]), ("executors", ["@mine", "2", {}]), ("executors", ["@mine", 3, 7])],
        [
            ("snapshots", ["@mine", 1, 4, 6, [{"type": "application_end", "time_ms": 1}]]),
            ("snapshots", ["x", "y", "z", 1.5, ""]),
        ],
        [("events", ["@mine", 5, "t64:/w=="]), ("events", ["t64:/w==", "t64:/w==", 1]), ("events", ["@mine", "a", 1])],
        [("meta", ["workers", "[]"]), ("meta", ["labels", "t64:/w=="]), ("meta", ["generation", "9" * 5000])],
        [("applications", ["t64:/w==", "t64:/w==", "t64:/w=="]), ("applications", ["x", "a", None])],
        [
            (
                "meta",
                ["workers", '[{"worker_id":"w9","host":"h","cores":1,"memory_mb":1,"runtime":"r","pid":1,"boot_id":"b"}]'],
            )
        ],
    )
)

# ---------------------------------------------------------------- the table


def _api(data: bytes) -> None:
    with folder() as path, Conversation(path) as talk:
        talk.say(data)


def _message_seeds() -> Iterator[bytes]:
    for number, kind in enumerate(MESSAGES):
        for full in (True, False):
            yield bytes([number]) + made_up(kind, full=full)


# ---------------------------------------------------------------- pods of Kubernetes

POD_SEEDS = (
    json.dumps(KubeState().create("jobs", executor_pod("exec-1", Serves("spark-1", "1", "spark://d:1")))).encode(),
    b'{"metadata":{"uid":"u","namespace":"n","name":"x","resourceVersion":"7"},"spec":{"containers":[{"name":"c"}]}}',
)


def _pods(data: bytes) -> None:
    raw = msgspec.json.decode(data)
    pod = pod_cpu(raw) if isinstance(raw, dict) else None
    if pod is not None and not why_not_paced(pod):
        assert goal(pod, 0.5) > (pod.request_m or 0)


TARGETS = {
    target.name: target
    for target in (
        Target("messages", _message, tuple(_message_seeds()), UNREADABLE),
        Target("answer", _answer, (b'200 1 {"a":1}', b'400 1 {"error":"x","exit_code":2}', b"500 7 x"), (PaceError,)),
        Target("progress", _progress, PROGRESS_SEEDS, (ProgressRefused,)),
        Target("agent", _agent, PROGRESS_SEEDS, slow=True),
        Target("records", _records, RECORD_SEEDS),
        Target("home", _home, HOME_SEEDS, (PaceError,)),
        Target("run-folder", _run_folder, RUN_SEEDS, (BadInput,)),
        Target("profile", _profile, PROFILE_SEEDS, (BadInput,)),
        Target("event-log", _event_log, tuple(_log_seeds()), (BadInput,)),
        Target(
            "event-log-file",
            _event_log_file,
            (
                *((LOGS / "spark43.gz").read_bytes(), b"events_2_x\n" + next(_log_seeds()), b"\x28\xb5\x2f\xfd", b"LZ4Block"),
                *_packed_seeds(),
            ),
            (BadInput,),
        ),
        Target("texts", _text, tuple(bytes([n]) + text.encode() for n, (_, text) in enumerate(TEXTS)), (BadInput,)),
        Target("conf", _conf, CONF_SEEDS, (*UNREADABLE, BadInput)),
        Target("properties", _properties, (b"a=b\nc : d\\\n e\n# x\nk\\=1 \\u00e9\\t", b"spark.a  1\r\nspark.b:2"), ()),
        Target("topology", _topology, (b"10.1.2.0/24 host=h rack=r # c\nfe80::/10 switch=s\n10.1.2.3 rack=q",), (BadInput,)),
        Target(
            "arguments",
            _arguments,
            (b"--deadline\n10s\n--conf\na=b\n--mount=/x:rw\n--verbose\napp.py\n--x", b"--conf=a=b\n-c\nd=e\n--force\nx.jar"),
            (BadInput,),
        ),
        Target("pods", _pods, POD_SEEDS, UNREADABLE),
        Target("store", _store, STORE_SEEDS, slow=True),
        Target("api", _api, tuple(conversations()), slow=True),
    )
}

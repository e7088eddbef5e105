"""Messages, answers, calls, files of agents and pods of Kubernetes: all that services read of each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from controller.agent.executors.known import PROGRESS_FILE, ProgressRefused, read_progress
from controller.client import MasterClient
from controller.machine.process import Process
from controller.runtime.base import ExecutorKey
from controller.runtime.claimed_process import Serves
from controller.runtime.executor_record import ContainerRecord, Record, read_all, write
from controller.runtime.kubernetes.pod_cpu import pod_cpu
from controller.runtime.kubernetes.pod_resize import goal, why_not_paced
from controller.wire import command, driver, hosting, version, worker
from stage_model.decoding import UNREADABLE
from stage_model.errors import PaceError
from stage_model.history.events import AnyEvent
from stage_model.progress import SCHEMA, MemoryProgress, Progress, StageProgress
from tests.fakes.kube_pods import executor_pod
from tests.fakes.kube_state import KubeState
from tests.fakes.messages import made_up
from tests.fakes.worker import FakeWorker, spec
from tests.fuzz.api import Conversation, conversations
from tests.fuzz.target import Target, folder

# ---------------------------------------------------------------- messages

MESSAGES: tuple[Any, ...] = (
    *(driver.Registration, driver.Registered, driver.DriverSync, driver.DriverReply, AnyEvent),
    *(worker.WorkerSync, worker.WorkerReply, worker.Changed, command.Health, command.Failure, command.PlanRequest),
    *(command.PlanReply, command.Change, command.Labels, command.Explanation, command.ApplicationView),
    *(command.ApplicationList, command.WorkerList, command.StartRequest, command.StartReply),
    *(command.ServicesRequest, command.Services, command.ExecutorPlaces, command.ExecutorLog),
    *(hosting.HostRequest, hosting.HostedView, hosting.HostedList),
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


def _message_seeds() -> Iterator[bytes]:
    for number, kind in enumerate(MESSAGES):
        for full in (True, False):
            yield bytes([number]) + made_up(kind, full=full)


def _api(data: bytes) -> None:
    with folder() as path, Conversation(path) as talk:
        talk.say(data)


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
            cluster_id="c", worker_id="w", application_id="a", executor_id="1", process=Process(1, 2, "b"), quota_cores=1.0
        ),
        ContainerRecord(cluster_id="c", worker_id="w", application_id="a", executor_id="1", container="0" * 64),
    )
)


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


TARGETS = (
    Target("messages", _message, tuple(_message_seeds()), UNREADABLE),
    Target("answer", _answer, (b'200 1 {"a":1}', b'400 1 {"error":"x","exit_code":2}', b"500 7 x"), (PaceError,)),
    Target("progress", _progress, PROGRESS_SEEDS, (ProgressRefused,)),
    Target("agent", _agent, PROGRESS_SEEDS, slow=True),
    Target("records", _records, RECORD_SEEDS),
    Target("pods", _pods, POD_SEEDS, UNREADABLE),
    Target("api", _api, tuple(conversations()), slow=True),
)

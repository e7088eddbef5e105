"""Every reader refuses malformed JSON or leaves it as it is, whatever the fault."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from controller.agent.link import NO_MASTER
from controller.asks.job_options import job_options
from controller.client import MasterClient
from controller.home import Home
from controller.locks import last_holder
from controller.master.storage.kept import begin_life
from controller.master.storage.store import Store
from controller.runs.run_folder import SUMMARY, read_summary
from controller.runtime.base import ExecutorKey
from controller.runtime.executor_record import ContainerRecord, read_all
from controller.wire.driver import DriverReply
from stage_model.errors import BadInput, PaceError
from tests.fakes.cluster import FakeCluster
from tests.fakes.worker import FakeWorker, spec

HOSTILE = (b"", b"{", b'{"a": 1}', b'{"cluster_id": "\xff"}', b'{"x":' * 5000, b"[" * 5000)
MINE = ExecutorKey("app", "1")


def reads_identity(path: Path, data: bytes) -> None:
    (path / "cluster.id").write_bytes(data)
    store = Store(path / "master.db")
    assert begin_life(path / "cluster.id", store).generation == 1
    store.close()


def reads_cluster(path: Path, data: bytes) -> None:
    (path / "cluster.json").write_bytes(data)
    with pytest.raises(BadInput, match=r"cluster.json"):
        Home(path).cluster()


def reads_lock(path: Path, data: bytes) -> None:
    (path / "lock").write_bytes(data)
    assert last_holder(path / "lock") is None or data == b'{"a": 1}'


def reads_records(path: Path, data: bytes) -> None:
    (path / "1.json").write_bytes(data)
    (path / "1.json").chmod(0o600)
    assert list(read_all(path, ContainerRecord, "c", "w")) == []


def reads_remembered(path: Path, data: bytes) -> None:
    """Read an agent's own notes of an executor: its spec, and the last order about its memory."""
    worker = FakeWorker(path)
    one = spec(off_heap_floor_mb=64)
    worker.want([one])
    worker.tick()
    for file in (worker.launcher._record(MINE), worker.site.orders_dir(MINE) / "memory.json"):
        file.write_bytes(data)
    worker.restart()
    worker.tick()
    assert not worker.agent.outbox._troubles
    assert MINE in worker.running()


def reads_summary(path: Path, data: bytes) -> None:
    (path / SUMMARY).write_bytes(data)
    if data != b'{"a": 1}':
        with pytest.raises(BadInput):
            read_summary(path)


def reads_arguments(path: Path, data: bytes) -> None:
    conf = {"spark.pace.arguments": data.decode(errors="replace")}
    with pytest.raises(BadInput, match=r"spark.pace.arguments"):
        job_options(conf, submitted=datetime(2030, 1, 1, tzinfo=UTC), working_dir=path, default_law="forecast")


def reads_answer(path: Path, data: bytes) -> None:
    """Read as a command, and as an agent's thread, from whatever is at the master's place."""
    assert isinstance(MasterClient("https://h:1", path)._failure(400, data), PaceError)
    with pytest.raises(NO_MASTER):
        msgspec.json.decode(data, type=DriverReply)


def reads_rows(path: Path, data: bytes) -> None:
    cluster = FakeCluster(path)
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.state.store.set_meta("labels", data.decode(errors="replace"))
    cluster.state.store.put_executor(application_id, "1", data)
    cluster.state.store.put_application("other", True, data)
    cluster.state.store.add_events(application_id, [(1, data)])
    cluster.state.store.close()
    cluster.restart()
    assert list(cluster.state.applications) == [application_id]
    assert cluster.state.applications[application_id].stream.acknowledged == 1


@pytest.mark.parametrize("data", HOSTILE)
@pytest.mark.parametrize(
    "reads",
    [
        *(reads_identity, reads_cluster, reads_lock, reads_records, reads_remembered),
        *(reads_summary, reads_arguments, reads_answer, reads_rows),
    ],
)
def test_a_reader_ends_in_good_order(tmp_path: Path, reads: Callable[[Path, bytes], None], data: bytes) -> None:
    reads(tmp_path, data)

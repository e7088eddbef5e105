"""Files of a home and rows of the master's store, which a master and commands find on a disk."""

from __future__ import annotations

import base64
import json
import sqlite3
from typing import Any

import msgspec

from controller.home import Home
from controller.locks import last_holder
from controller.master.storage.kept import begin_life
from controller.master.storage.store import Store
from stage_model.decoding import UNREADABLE
from stage_model.errors import PaceError
from tests.fakes.cluster import FakeCluster, one_stage_run, report
from tests.fuzz.target import Target, folder

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


TARGETS = (Target("home", _home, HOME_SEEDS, (PaceError,)), Target("store", _store, STORE_SEEDS, slow=True))

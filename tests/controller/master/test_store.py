"""What the master keeps on disk survives a restart, whole messages at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.master.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = Store(path)
    yield opened
    opened.close()


def again(store: Store, path: Path) -> Store:
    store.close()
    return Store(path)


def test_everything_is_there_after_a_restart(path: Path) -> None:
    first = Store(path)
    first.set_meta("cluster_id", "c1")
    first.put_application("app", True, b"data")
    first.add_events("app", [(2, b"two"), (1, b"one")])
    first.put_executor("app", "1", b"executor")
    second = again(first, path)
    assert second.meta("cluster_id") == "c1"
    assert second.meta("other") is None
    assert second.applications() == [("app", True, b"data")]
    assert second.events("app") == [(1, b"one"), (2, b"two")]
    assert second.executors("app") == [("1", b"executor")]
    second.close()


def test_files_are_the_owners_only(store: Store, path: Path) -> None:
    store.set_meta("key", "value")
    assert {p.stat().st_mode & 0o777 for p in path.parent.iterdir()} == {0o600}


def test_a_failed_message_leaves_nothing(store: Store) -> None:
    def half() -> None:
        with store.transaction():
            store.put_application("app", True, b"data")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        half()
    assert store.applications() == []
    with store.transaction():
        store.put_application("app", True, b"data")
    assert store.applications() == [("app", True, b"data")]


def test_an_event_that_comes_twice_is_kept_once(store: Store) -> None:
    store.add_events("app", [(1, b"first")])
    store.add_events("app", [(1, b"again"), (2, b"second")])
    assert store.events("app") == [(1, b"first"), (2, b"second")]


def test_records_are_replaced(store: Store) -> None:
    for live, data in ((True, b"old"), (False, b"new")):
        store.put_application("app", live, data)
        store.put_executor("app", "1", data)
        store.set_meta("key", data.decode())
    assert store.applications() == [("app", False, b"new")]
    assert store.executors("app") == [("1", b"new")]
    assert store.meta("key") == "new"


def test_a_finished_application_keeps_its_record_and_a_forgotten_one_nothing(store: Store) -> None:
    for name in ("app", "other"):
        store.put_application(name, True, b"data")
        store.add_events(name, [(1, b"event")])
        store.put_executor(name, "1", b"executor")
    store.drop_details("app")
    assert (store.events("app"), store.executors("app")) == ([], [("1", b"executor")])
    store.forget("app")
    assert store.executors("app") == []
    assert store.applications() == [("other", True, b"data")]
    assert store.events("other") == [(1, b"event")]


def test_its_log_is_emptied_when_it_is_told_to_and_only_then(tmp_path: Path) -> None:
    store, log = Store(tmp_path / "master.db"), tmp_path / "master.db-wal"
    for number in range(2000):  # twice what SQLite lets grow by itself
        store.put_application(str(number), True, b"x" * 4000)
    assert log.stat().st_size > 2000 * 4000
    store.checkpoint()
    assert log.stat().st_size == 0
    assert len(Store(tmp_path / "master.db").applications()) == 2000


def test_a_commit_that_fails_leaves_nothing_open(store: Store) -> None:
    store._db.executescript(
        "PRAGMA foreign_keys=ON; CREATE TABLE one (id TEXT PRIMARY KEY);"
        "CREATE TABLE two (one TEXT REFERENCES one DEFERRABLE INITIALLY DEFERRED)"
    )

    def nobody() -> None:
        with store.transaction():
            store.put_application("app", True, b"data")
            store._db.execute("INSERT INTO two VALUES ('nobody')")  # which the commit finds

    with pytest.raises(sqlite3.IntegrityError):
        nobody()
    assert store.applications() == []
    with store.transaction():
        store.put_application("app", True, b"data")
    assert store.applications() == [("app", True, b"data")]


def test_snapshots_keep_their_place_among_events_and_a_repeated_one_is_kept_once(store: Store) -> None:
    store.add_snapshot("app", 2, 9, b"one")
    store.add_snapshot("app", 8, 9, b"one")
    store.add_snapshot("app", 8, 9, b"two")
    store.add_snapshot("app", 12, 13, b"two")
    assert store.snapshots("app") == [(2, 9, b"one"), (8, 9, b"two"), (12, 13, b"two")]
    store.drop_details("app")
    assert store.snapshots("app") == []


def test_what_is_set_aside_is_out_of_the_way_and_kept(store: Store) -> None:
    store.put_application("app", True, b"data")
    store.add_events("app", [(1, b"one")])
    store.add_snapshot("app", 1, 2, b"snapshot")
    store.put_executor("app", "1", b"executor")
    store.put_application("other", True, b"data")
    store.set_aside("app", "why not")
    assert [name for name, _, _ in store.applications()] == ["other"]
    assert (store.events("app"), store.snapshots("app"), store.executors("app")) == ([], [], [])
    assert sorted(store.aside()) == [
        ("why not", "application", "app", b"data"),
        ("why not", "event", "app 1", b"one"),
        ("why not", "executor", "app 1", b"executor"),
        ("why not", "snapshot", "app 1", b"snapshot"),
    ]


def test_a_store_that_cannot_be_opened_is_no_damaged_one(tmp_path: Path) -> None:
    with pytest.raises((OSError, sqlite3.OperationalError)):
        Store(tmp_path / "no such folder" / "master.db")
    (tmp_path / "master.db").mkdir()
    with pytest.raises((OSError, sqlite3.OperationalError)):
        Store(tmp_path / "master.db")
    assert [path.name for path in tmp_path.iterdir()] == ["master.db"]

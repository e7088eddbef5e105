"""What the master keeps on disk survives a restart, whole messages at a time."""

from __future__ import annotations

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
    assert second.executors("app") == [b"executor"]
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
    assert store.executors("app") == [b"new"]
    assert store.meta("key") == "new"


def test_a_finished_application_keeps_its_record_and_a_forgotten_one_nothing(store: Store) -> None:
    for name in ("app", "other"):
        store.put_application(name, True, b"data")
        store.add_events(name, [(1, b"event")])
        store.put_executor(name, "1", b"executor")
    store.drop_details("app")
    assert (store.events("app"), store.executors("app")) == ([], [b"executor"])
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

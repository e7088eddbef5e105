"""State that the master keeps on disk survives a restart, whole messages at a time."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from controller.master.storage.durability import Durability
from controller.master.storage.store import SCHEMA, Store
from stage_model.errors import NotStored, Unavailable
from tests.fakes.cluster import rows_aside


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
    store = Store(path)
    store.set_meta("cluster_id", "c1")
    store.put_application("app", True, b"data")
    store.add_events("app", [(2, b"two"), (1, b"one")])
    store.put_executor("app", "1", b"executor")
    second = again(store, path)
    assert (second.meta("cluster_id"), second.meta("other")) == ("c1", None)
    assert second.applications() == [("app", True, b"data")]
    assert second.events("app") == [(1, b"one"), (2, b"two")]
    assert second.executors("app") == [("1", b"executor")]
    second.close()


def test_files_are_the_owners_only(store: Store, path: Path) -> None:
    store.set_meta("key", "value")
    assert {p.stat().st_mode & 0o777 for p in path.parent.iterdir()} == {0o600}


@pytest.mark.parametrize("half_way", [True, False])
def test_a_message_that_fails_half_way_or_at_its_end_leaves_nothing(store: Store, half_way: bool) -> None:
    store._db.executescript(
        "PRAGMA foreign_keys=ON; CREATE TABLE one (id TEXT PRIMARY KEY);"
        "CREATE TABLE two (one TEXT REFERENCES one DEFERRABLE INITIALLY DEFERRED)"
    )

    def fail() -> None:
        with store.transaction():
            store.put_application("app", True, b"data")
            if half_way:
                raise RuntimeError
            store._db.execute("INSERT INTO two VALUES ('missing')")  # which the commit finds

    with pytest.raises(RuntimeError if half_way else sqlite3.IntegrityError):
        fail()
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


def test_its_log_is_emptied_only_on_request(tmp_path: Path) -> None:
    store, log = Store(tmp_path / "master.db"), tmp_path / "master.db-wal"
    for number in range(2000):  # twice what SQLite lets grow by itself
        store.put_application(str(number), True, b"x" * 4000)
    assert log.stat().st_size > 2000 * 4000
    store.checkpoint()
    assert log.stat().st_size == 0
    assert len(Store(tmp_path / "master.db").applications()) == 2000


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
    assert sorted(rows_aside(store)) == [
        ("why not", "application", "app", b"data"),
        ("why not", "event", "app 1", b"one"),
        ("why not", "executor", "app 1", b"executor"),
        ("why not", "snapshot", "app 1", b"snapshot"),
    ]


def test_a_store_that_cannot_be_opened_is_no_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no such folder"):
        Store(tmp_path / "no such folder" / "master.db")
    (tmp_path / "master.db").mkdir()
    with pytest.raises(Unavailable, match=r"master.db"):
        Store(tmp_path / "master.db")
    assert [path.name for path in tmp_path.iterdir()] == ["master.db"]


class TestLater:
    """Changes that count already are stored when they can be."""

    def filled(self, store: Store) -> Callable[[], None]:
        """Keep the file from growing, as on a full disk; return what makes it grow again."""
        [(pages,)] = store._db.execute("PRAGMA page_count")
        store._db.execute(f"PRAGMA max_page_count={pages}")
        return lambda: store._db.execute("PRAGMA max_page_count=1000000").close()

    def test_the_newest_state_is_stored_once(self, store: Store) -> None:
        written: list[str] = []

        def put(text: str) -> None:
            written.append(text)
            store.set_meta("key", text)

        for text in ("old", "new"):
            store.later("key", partial(put, text))
        store.later("other", lambda: store.set_meta("other", "value"))
        before = store.commits
        assert store.catch_up()
        assert (written, store.meta("key"), store.meta("other"), store.commits) == (["new"], "new", "value", before + 1)
        assert store.catch_up()
        assert store.commits == before + 1

    def test_what_does_not_fit_is_stored_later_and_logged_once(self, store: Store, caplog: pytest.LogCaptureFixture) -> None:
        clear = self.filled(store)
        store.later("app", lambda: store.put_application("app", True, b"x" * 100_000))
        for _ in range(3):
            assert not store.catch_up(again=True)
        assert "database or disk is full" in store.failing
        assert store.applications() == []

        def promise() -> None:
            with store.transaction():
                store.put_application("other", True, b"x" * 100_000)

        def repeat() -> None:
            with store.attempt():
                store.add_events("app", [(1, b"one")])

        for refused in (promise, repeat):
            with pytest.raises(NotStored, match="database or disk is full"):
                refused()
        clear()
        assert not store.catch_up()  # no message waits for the disk
        assert store.catch_up(again=True)
        assert [name for name, _, _ in store.applications()] == ["app"]
        assert not store.failing
        repeat()
        assert store.events("app") == [(1, b"one")]
        assert [r.levelno for r in caplog.records] == [logging.ERROR, logging.WARNING]

    def test_it_is_found_out_that_there_is_room_again_also_with_nothing_to_store(self, store: Store) -> None:
        clear = self.filled(store)
        with pytest.raises(NotStored), store.attempt():
            store.add_events("app", [(1, b"x" * 100_000)])
        clear()
        assert store.catch_up(again=True)
        assert not store.failing

    def test_another_program_that_locks_the_file_is_like_a_full_disk(self, store: Store, path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            store.later("key", lambda: store.set_meta("key", "value"))
            assert not store.catch_up()
            assert "locked" in store.failing
        assert store.catch_up(again=True)
        assert store.meta("key") == "value"

    def test_a_mistake_is_no_full_disk_and_holds_nothing_up(self, store: Store, caplog: pytest.LogCaptureFixture) -> None:
        with pytest.raises(sqlite3.IntegrityError), store.transaction():
            store.put_application("app", True, None)  # type: ignore[arg-type]
        store.later("bad", lambda: store.put_application("app", True, None))  # type: ignore[arg-type]
        store.later("good", lambda: store.set_meta("key", "value"))
        for _ in range(2):  # it is not tried again
            assert store.catch_up()
            assert store.meta("key") == "value"
            assert ["bad" in message for message in caplog.messages] == [True]

    def test_closing_stores_it(self, path: Path) -> None:
        store = Store(path)
        store.later("key", lambda: store.set_meta("key", "value"))
        assert again(store, path).meta("key") == "value"


class TestFiles:
    @pytest.mark.parametrize("replaced", [False, True])
    def test_nothing_is_promised_once_the_file_was_removed(
        self, store: Store, path: Path, replaced: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        store.put_application("old", True, b"data")
        other = path.with_name("other")
        other.touch()
        other.replace(path) if replaced else path.unlink()
        for _ in range(2):
            with pytest.raises(NotStored, match=str(path)), store.transaction():
                store.put_application("new", True, b"data")
            store.later("new", lambda: store.put_application("new", True, b"data"))
            assert not store.catch_up(again=True)
            assert str(path) in store.failing
        assert store.applications() == [("old", True, b"data")], "control goes on from what is known"
        assert [record.levelno for record in caplog.records] == [logging.ERROR]

    def test_that_the_file_was_removed_is_found_with_nothing_to_store(self, store: Store, path: Path) -> None:
        assert store.catch_up(again=True)
        path.unlink()
        assert not store.catch_up(again=True)
        assert str(path) in store.failing

    def test_a_reader_keeps_no_writer_waiting_and_the_log_is_emptied_after_it(self, store: Store, path: Path) -> None:
        store.put_application("app", True, b"x" * 100_000)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM applications").fetchall()
            store.put_application("app", True, b"y" * 100_000)
            assert not store.checkpoint()
            assert store.log_bytes() > 100_000
            store.put_application("app", True, b"z" * 100_000)
        assert store.checkpoint()
        assert store.log_bytes() == 0

    def test_emptying_the_log_of_a_removed_file_makes_no_new_one(self, store: Store, path: Path) -> None:
        path.unlink()
        assert not store.checkpoint()
        assert not path.exists()


class TestSchema:
    @pytest.mark.parametrize(
        "row",
        [
            ("applications", None, 1, b""),
            ("applications", b"x", 1, b""),
            ("applications", "other", 1, 7),
            ("events", "app", "x", b""),
            ("events", "app", 1.5, b""),
            ("events", "app", 4, "text"),
            ("snapshots", "app", 1, "x", 2, b""),
            ("executors", "app", b"1", b""),
            ("meta", "labels", b"x"),
        ],
    )
    def test_another_program_writes_no_value_of_another_type(self, store: Store, path: Path, row: tuple[object, ...]) -> None:
        table, *values = row
        with closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.IntegrityError):
            other.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    def number(self, path: Path) -> int:
        with closing(sqlite3.connect(path)) as db:
            return int(db.execute("PRAGMA user_version").fetchone()[0])

    def test_a_file_with_another_schema_is_refused_in_one_sentence_and_left_as_it_is(self, path: Path) -> None:
        Store(path).close()
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.executescript("PRAGMA user_version=7; CREATE TABLE future (x)")
        before = path.read_bytes()
        with pytest.raises(Unavailable, match=f"schema 7.* schema {SCHEMA}"):
            Store(path)
        assert path.read_bytes() == before
        assert [file.name for file in path.parent.iterdir() if "damaged" in file.name] == []
        assert self.number(path) == 7

    def test_tables_without_a_number_are_refused_and_left_as_they_are(self, path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.executescript("CREATE TABLE events (x); INSERT INTO events VALUES (1)")
        with pytest.raises(Unavailable, match="events already exists"):
            Store(path)
        with closing(sqlite3.connect(path)) as db:
            assert list(db.execute("SELECT name FROM sqlite_schema")) == [("events",)]
        assert self.number(path) == 0


class TestDurability:
    """Commits that are on the disk: the master's answers wait for theirs."""

    class Slow(Store):
        """A store that says when it brings its commits to the disk, and how many these were."""

        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self.synced: list[int] = []

        def sync(self) -> None:
            begun = self.commits
            super().sync()
            self.synced.append(begun)

    def commit(self, store: Store) -> None:
        with store.transaction():
            store.set_meta("key", str(store.commits))

    def test_answers_share_a_sync_and_none_waits_for_nothing(self, path: Path) -> None:
        store = self.Slow(path)

        async def answers() -> None:
            durability = Durability(store)
            await durability.wait()
            assert store.synced == []

            async def answer() -> None:
                self.commit(store)
                mine = store.commits
                await durability.wait()
                assert store.synced[-1] >= mine

            await asyncio.gather(*(answer() for _ in range(100)))

        first = store.commits
        asyncio.run(answers())
        # answers that came while a sync was under way share the next one
        assert len(store.synced) <= 3
        assert store.synced[-1] == first + 100
        store.close()

    @pytest.mark.parametrize("hangs", [True, False])
    def test_a_disk_that_hangs_or_fails_keeps_no_answer_back_and_is_logged_once(
        self, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, hangs: bool
    ) -> None:
        store, over = Store(path), threading.Event()
        if hangs:
            monkeypatch.setattr(store, "sync", over.wait)
        else:
            log = path.with_name(f"{path.name}-wal")
            log.unlink()
            log.symlink_to(log.name)  # a loop, which cannot be opened

        async def answers() -> None:
            durability = Durability(store, longest_s=0.01) if hangs else Durability(store)
            for _ in range(3):
                self.commit(store)
                await durability.wait()
            over.set()

        asyncio.run(answers())
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        store.close()

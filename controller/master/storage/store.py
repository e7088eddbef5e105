"""The master's memory on disk: one SQLite file (WAL, 0600) of applications, their events as they came, and executors.

Events and snapshots are kept as they came and replayed at a start, so what the master knows of a run has one source. What a
start cannot read is set aside, never deleted: rows into a table of their own, a damaged file under another name. A file
with another schema is refused. Nothing is decided here.

What must be stored before it counts is written in a `transaction`, which raises on a full disk. What counts already is kept
for `later` and written by the next `catch_up`, which a full disk only puts off: control goes on from memory. A commit reaches
the kernel; the disk has it after `sync` (`controller.master.storage.durability`).
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from controller.machine.files import sync_folder
from controller.version import VERSION
from stage_model.decoding import UNREADABLE
from stage_model.errors import NotStored, Unavailable

log = logging.getLogger("sparkpace.master")

T = TypeVar("T")

LOCKED_S = 0.25
"""Longest wait for another program that writes into the file: the master's loop waits, too."""

SCHEMA = 1
"""The number of these tables, which the file has, too (PRAGMA user_version). Other tables get another number."""
TABLES = """
meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT;
applications (id TEXT PRIMARY KEY NOT NULL, live INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
events (application TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (application, seq))
    WITHOUT ROWID, STRICT;
snapshots (application TEXT NOT NULL, number INTEGER NOT NULL, behind INTEGER NOT NULL, next_seq INTEGER NOT NULL,
    data BLOB NOT NULL, PRIMARY KEY (application, number)) WITHOUT ROWID, STRICT;
aside (at REAL NOT NULL, why TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, data ANY NOT NULL) STRICT;
executors (application TEXT NOT NULL, executor TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (application, executor))
    WITHOUT ROWID, STRICT
"""
"""SQLite refuses a value of another type in a strict table, whichever program writes it."""


class Store:
    """The open file. All writes of one message belong in one `transaction`. The constructor raises `Unavailable` for a file
    with another schema, which stays as it is, and for a file that cannot be opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.commits = 0
        """The number of commits so far."""
        self.failing = ""
        """The reason why nothing can be stored now; empty as long as it can."""
        self._later: dict[Hashable, Callable[[], None]] = {}
        try:
            _make_private(path)
            self._db = _opened(path)
        except (OSError, sqlite3.OperationalError) as error:
            raise Unavailable(
                f"{path} cannot be opened ({error}); check its folder, end a program that locks it, or free space"
            ) from error
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise
            kept = _keep_damaged(path)
            log.error(
                "%s is damaged (%s), so the applications in it are forgotten; it is kept as %s and a new one is begun",
                *(path, error, kept),
            )
            _make_private(path)
            self._db = _opened(path)
        self._inode = path.stat().st_ino

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Store everything inside, or nothing. Raise `NotStored` where the file cannot be written: a full disk, or a
        file that is damaged, removed, or locked by another program."""
        self._check_file()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                # on a full disk it is the commit that fails, and SQLite may have rolled back by itself
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.DatabaseError as error:
            if not _of_the_file(error):
                raise
            raise NotStored(
                f"{self._path} cannot be written ({error}), so nothing new can be promised; retry when it can"
            ) from error
        self.commits += 1

    # ------------------------------------------------------------------ what counts already

    def later(self, what: Hashable, write: Callable[[], None]) -> None:
        """Have `write` store the newest state of `what` with the next `catch_up`, once, however often it was asked for."""
        self._later[what] = write

    def catch_up(self, *, again: bool = False) -> bool:
        """Store what was kept for later; return True if nothing is left. After a failure only `again` tries once more, so
        that no message waits for a disk; it also looks whether the file is still there."""
        if self.failing and not again:
            return False
        try:
            if again:
                self._check_file()
            if self._later or self.failing:
                with self.transaction():
                    if self.failing:
                        self.set_meta("tried", f"{time.time():.3f}")
                    for what, write in self._later.items():
                        self._write(what, write)
        except NotStored as error:
            self._failed(error)
            return False
        if self._later or self.failing:
            if self.failing:
                log.warning("%s can be written again: what has changed meanwhile is stored", self._path)
            self.failing = ""
            self._later.clear()
        return True

    @staticmethod
    def _write(what: Hashable, write: Callable[[], None]) -> None:
        """Store one state. A state that cannot be stored for a reason of its own is left out, because all else must not
        wait for it for ever."""
        try:
            write()
        except Exception as error:
            if _of_the_file(error):
                raise
            log.exception("%s cannot be stored and is left out", what)

    def _check_file(self) -> None:
        """Raise `NotStored` if the file was removed or replaced: no restart finds what SQLite would write."""
        try:
            found = self._path.stat().st_ino
        except OSError:
            found = None
        if found != self._inode:
            raise NotStored(
                f"{self._path} was removed or replaced, so nothing new can be promised; end the master and start it again"
            )

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Run a `transaction` of what its sender repeats: not even begun while nothing can be stored. Raise `NotStored`."""
        if self.failing:
            raise NotStored(self.failing)
        try:
            with self.transaction():
                yield
        except NotStored as error:
            self._failed(error)
            raise

    def _failed(self, error: NotStored) -> None:
        if not self.failing:
            log.error("%s; control goes on from memory", error)
        self.failing = str(error)

    # ------------------------------------------------------------------ rows

    def meta(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row and isinstance(row[0], str) else None

    def set_meta(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def put_application(self, application_id: str, live: bool, data: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO applications VALUES (?, ?, ?)", (application_id, live, data))

    def applications(self) -> list[tuple[str, bool, bytes]]:
        """Return every application kept: id, whether it is not finished, data."""
        return [(i, bool(live), data) for i, live, data in self._db.execute("SELECT id, live, data FROM applications")]

    def add_events(self, application_id: str, events: Iterable[tuple[int, bytes]]) -> None:
        self._db.executemany(
            "INSERT OR IGNORE INTO events VALUES (?, ?, ?)", [(application_id, seq, data) for seq, data in events]
        )

    def events(self, application_id: str) -> list[tuple[int, bytes]]:
        """Return all events of an application in order."""
        rows = self._db.execute("SELECT seq, data FROM events WHERE application = ? ORDER BY seq", (application_id,))
        return list(rows)

    def add_snapshot(self, application_id: str, behind: int, next_seq: int, data: bytes) -> None:
        """Add a snapshot that came `behind` that event; numbering goes on at `next_seq`. A snapshot that came twice is kept
        once."""
        last = self._db.execute(
            "SELECT number, next_seq, data FROM snapshots WHERE application = ? ORDER BY number DESC LIMIT 1",
            (application_id,),
        ).fetchone() or (0,)
        if last[1:] != (next_seq, data) or behind >= next_seq:
            row = (application_id, last[0] + 1, behind, next_seq, data)
            self._db.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", row)

    def snapshots(self, application_id: str) -> list[tuple[int, int, bytes]]:
        """Return all snapshots of an application in order: the event each came behind, the number behind it, data."""
        rows = self._db.execute(
            "SELECT behind, next_seq, data FROM snapshots WHERE application = ? ORDER BY number", (application_id,)
        )
        return list(rows)

    def put_executor(self, application_id: str, executor_id: str, data: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO executors VALUES (?, ?, ?)", (application_id, executor_id, data))

    def executors(self, application_id: str) -> list[tuple[str, bytes]]:
        """Return the id and data of each executor."""
        return list(self._db.execute("SELECT executor, data FROM executors WHERE application = ?", (application_id,)))

    def drop_details(self, application_id: str) -> None:
        """Drop the events and snapshots of a finished application, whose record is in its run folder."""
        for table in ("events", "snapshots"):
            self._db.execute(f"DELETE FROM {table} WHERE application = ?", (application_id,))  # noqa: S608

    def forget(self, application_id: str) -> None:
        self.drop_details(application_id)
        self._db.execute("DELETE FROM executors WHERE application = ?", (application_id,))
        self._db.execute("DELETE FROM applications WHERE id = ?", (application_id,))

    # ------------------------------------------------------------------ what cannot be read

    def set_aside(self, application_id: str, why: str) -> None:
        """Take all of an application out of the way, for people to look at."""
        for kind, key, rows in (
            ("application", "id", "applications WHERE id = ?"),
            ("event", "application || ' ' || seq", "events WHERE application = ?"),
            ("snapshot", "application || ' ' || number", "snapshots WHERE application = ?"),
            ("executor", "application || ' ' || executor", "executors WHERE application = ?"),
        ):
            self._keep_aside(why, kind, f"{key}, data", rows, application_id)
        self.forget(application_id)

    def set_executor_aside(self, application_id: str, executor_id: str, why: str) -> None:
        rows, whose = "executors WHERE application = ? AND executor = ?", (application_id, executor_id)
        self._keep_aside(why, "executor", "application || ' ' || executor, data", rows, *whose)
        self._db.execute(f"DELETE FROM {rows}", whose)  # noqa: S608

    def _keep_aside(self, why: str, kind: str, columns: str, rows: str, *whose: str) -> None:
        """Keep rows aside. `columns` are key and data, `rows` a table and which rows of it."""
        row = (time.time(), why, *whose)
        self._db.execute(f"INSERT INTO aside SELECT ?, ?, '{kind}', {columns} FROM {rows}", row)  # noqa: S608

    def decoded_meta(self, key: str, kind: type[T], what: str) -> T | None:
        """Return a value kept as JSON; None without one. A value that cannot be read is set aside; `what` says what is lost
        with it."""
        text = self.meta(key)
        try:
            return None if text is None else msgspec.json.decode(text, type=kind)
        except (*UNREADABLE, TypeError) as error:
            log.error("%s of master.db cannot be read (%s), so %s; it is set aside", key, error, what)
            with suppress(NotStored), self.transaction():
                self._keep_aside(str(error), "meta", "key, value", "meta WHERE key = ?", key)
                self._db.execute("DELETE FROM meta WHERE key = ?", (key,))
            return None

    # ------------------------------------------------------------------ files

    def log_bytes(self) -> int:
        with suppress(FileNotFoundError):
            return _log_of(self._path).stat().st_size
        return 0

    def sync(self) -> None:
        """Bring every commit made before to the disk, so that a loss of power loses none. Any thread may call it. Raise
        `OSError` where the disk does not take them."""
        with suppress(FileNotFoundError):  # closed meanwhile: SQLite has emptied it into the file, and that to the disk
            # SQLite locks the file and its -shm, never the log, so closing this drops no lock of ours
            descriptor = os.open(_log_of(self._path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    def checkpoint(self) -> bool:
        """Empty the write-ahead log, which else keeps replaced rows for a while; return False where a reader or a writer
        stands in the way, the disk is full, or the file was removed. Any thread may call it; writers wait only for its last
        step."""
        if not self._path.exists():
            return False
        where = f"{self._path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(where, uri=True, timeout=0, isolation_level=None)) as db:
            try:
                db.execute("PRAGMA wal_checkpoint(PASSIVE)")
                [(busy, _, _)] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                    raise
                return False
        return not busy

    def close(self) -> None:
        """Store what was kept for later, where that is possible, and close the file."""
        self.catch_up(again=True)
        self._db.close()


def _of_the_file(error: Exception) -> bool:
    """Return True if the error means that the file cannot be written; else it is a mistake of ours."""
    return type(error) in (sqlite3.OperationalError, sqlite3.DatabaseError)


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file. Raise `sqlite3.DatabaseError` for a file that is no database or a damaged one, `Unavailable` for another
    schema."""
    _check_schema(path)
    db = sqlite3.connect(path, timeout=LOCKED_S, isolation_level=None, check_same_thread=False)
    # a text that is no UTF-8 is an unknown one, not the end of the start
    db.text_factory = lambda raw: raw.decode(errors="replace")
    try:
        db.execute("PRAGMA journal_mode=WAL")
        # a commit waits for no disk: a promise waits for `sync`, off the loop and many at a time
        db.execute("PRAGMA synchronous=NORMAL")
        # by itself SQLite moves a full log into the file amid some message; the master has calmer moments for that
        db.execute("PRAGMA wal_autocheckpoint=0")
        # executors' environments hold secrets: what is deleted or replaced is overwritten
        db.execute("PRAGMA secure_delete=ON")
        [(verdict,)] = db.execute("PRAGMA integrity_check(1)")
        if verdict != "ok":
            damaged = sqlite3.DatabaseError(verdict)
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged
        _make_tables(db)
        sync_folder(path.parent)
    except BaseException:
        db.close()
        raise
    return db


def _check_schema(path: Path) -> None:
    """Read the number of the schema without a change of the file. Raise `Unavailable` for another number than `SCHEMA`."""
    if not path.stat().st_size:
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        number = _schema(db)
    if number not in (0, SCHEMA):  # 0: the file's tables are still to be made
        raise Unavailable(
            f"{path} has schema {number}, and Sparkpace {VERSION} reads schema {SCHEMA}; start the release that wrote it, or "
            f"give another --home"
        )


def _make_tables(db: sqlite3.Connection) -> None:
    """Make all tables or none of them. `db` is in autocommit mode."""
    if _schema(db) == SCHEMA:
        return
    db.execute("BEGIN IMMEDIATE")
    for table in TABLES.split(";"):
        db.execute(f"CREATE TABLE {table}")
    db.execute(f"PRAGMA user_version={SCHEMA}")
    db.execute("COMMIT")


def _schema(db: sqlite3.Connection) -> int:
    [(number,)] = db.execute("PRAGMA user_version")
    return int(number)


def _make_private(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _keep_damaged(path: Path) -> Path:
    """Rename a damaged database with its log; return its new path."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(kept)
    for end in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(kept.with_name(kept.name + end))
    sync_folder(path.parent)
    return kept

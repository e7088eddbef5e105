"""The master's memory on disk: one SQLite file (WAL, 0600) of applications, their events as they came, and executors.

Events and snapshots are kept as they came and replayed at a start, so what the master knows of a run has one source. What a
start cannot read is set aside, never deleted: rows into a table of their own, a damaged file under another name. Nothing is
decided here.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from controller.files import sync_folder
from stage_model.decoding import UNREADABLE

log = logging.getLogger("sparkpace.master")

T = TypeVar("T")

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS applications (id TEXT PRIMARY KEY, live INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS events (application TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (application, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS snapshots (application TEXT NOT NULL, number INTEGER NOT NULL, behind INTEGER NOT NULL,
    next_seq INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (application, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS aside (at REAL NOT NULL, why TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS executors (application TEXT NOT NULL, executor TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (application, executor)) WITHOUT ROWID;
"""


class Store:
    """All writes of one message belong into one `transaction`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            self._db = _opened(path)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise
            kept = _keep_damaged(path)
            log.error(
                "%s is damaged (%s), so the applications in it are forgotten; it is kept as %s and a new one is begun",
                *(path, error, kept),
            )
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = _opened(path)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is stored, or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # on a full disk it is the commit that fails, and SQLite may have rolled back by itself
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def meta(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def set_meta(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def put_application(self, application_id: str, live: bool, data: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO applications VALUES (?, ?, ?)", (application_id, live, data))

    def applications(self) -> list[tuple[str, bool, bytes]]:
        """Every application kept: id, whether it is not finished, data."""
        return [(i, bool(live), data) for i, live, data in self._db.execute("SELECT id, live, data FROM applications")]

    def add_events(self, application_id: str, events: Iterable[tuple[int, bytes]]) -> None:
        self._db.executemany(
            "INSERT OR IGNORE INTO events VALUES (?, ?, ?)", [(application_id, seq, data) for seq, data in events]
        )

    def events(self, application_id: str) -> list[tuple[int, bytes]]:
        """All events of an application in order."""
        rows = self._db.execute("SELECT seq, data FROM events WHERE application = ? ORDER BY seq", (application_id,))
        return [(int(seq), data) for seq, data in rows]

    def add_snapshot(self, application_id: str, behind: int, next_seq: int, data: bytes) -> None:
        """A snapshot that came `behind` that event; numbering goes on at `next_seq`. One that came twice is kept once."""
        last = self._db.execute(
            "SELECT number, next_seq, data FROM snapshots WHERE application = ? ORDER BY number DESC LIMIT 1",
            (application_id,),
        ).fetchone() or (0,)
        if last[1:] != (next_seq, data) or behind >= next_seq:
            row = (application_id, last[0] + 1, behind, next_seq, data)
            self._db.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", row)

    def snapshots(self, application_id: str) -> list[tuple[int, int, bytes]]:
        """All snapshots of an application in order: the event each came behind, the number behind it, data."""
        rows = self._db.execute(
            "SELECT behind, next_seq, data FROM snapshots WHERE application = ? ORDER BY number", (application_id,)
        )
        return [(int(behind), int(next_seq), data) for behind, next_seq, data in rows]

    def put_executor(self, application_id: str, executor_id: str, data: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO executors VALUES (?, ?, ?)", (application_id, executor_id, data))

    def executors(self, application_id: str) -> list[tuple[str, bytes]]:
        """Id and data of each."""
        return list(self._db.execute("SELECT executor, data FROM executors WHERE application = ?", (application_id,)))

    def drop_details(self, application_id: str) -> None:
        """A finished application needs no events any more: its record is in its run folder."""
        for table in ("events", "snapshots"):
            self._db.execute(f"DELETE FROM {table} WHERE application = ?", (application_id,))  # noqa: S608

    def forget(self, application_id: str) -> None:
        self.drop_details(application_id)
        self._db.execute("DELETE FROM executors WHERE application = ?", (application_id,))
        self._db.execute("DELETE FROM applications WHERE id = ?", (application_id,))

    # ------------------------------------------------------------------ what cannot be read

    def set_aside(self, application_id: str, why: str) -> None:
        """Takes all of an application out of the way, for people to look at."""
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
        """`columns` are key and data, `rows` a table and which of it."""
        row = (time.time(), why, *whose)
        self._db.execute(f"INSERT INTO aside SELECT ?, ?, '{kind}', {columns} FROM {rows}", row)  # noqa: S608

    def decoded_meta(self, key: str, kind: type[T], what: str) -> T | None:
        """A value kept as JSON; None without one. One that cannot be read is set aside; `what` says what is lost with it."""
        text = self.meta(key)
        try:
            return None if text is None else msgspec.json.decode(text, type=kind)
        except (*UNREADABLE, TypeError) as error:
            log.error("%s of master.db cannot be read (%s), so %s; it is set aside", key, error, what)
            with self.transaction():
                self._keep_aside(str(error), "meta", "key, value", "meta WHERE key = ?", key)
                self._db.execute("DELETE FROM meta WHERE key = ?", (key,))
            return None

    def aside(self) -> list[tuple[str, str, str, bytes | str]]:
        """What was set aside: why, kind, key, data."""
        return list(self._db.execute("SELECT why, kind, key, data FROM aside ORDER BY at"))

    def checkpoint(self) -> None:
        """Empties the write-ahead log, which else keeps replaced rows for a while. May be called on any thread; writers wait
        for its last step alone."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._db.close()


def _opened(path: Path) -> sqlite3.Connection:
    """Raises `sqlite3.DatabaseError` for a file that is no database or a damaged one."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        # by itself SQLite moves a full log into the file amid some message; the master has calmer moments for that
        db.execute("PRAGMA wal_autocheckpoint=0")
        # executors' environments hold secrets: what is deleted or replaced is overwritten
        db.execute("PRAGMA secure_delete=ON")
        db.executescript(SCHEMA)
        [(verdict,)] = db.execute("PRAGMA quick_check(1)")
        if verdict != "ok":
            damaged = sqlite3.DatabaseError(verdict)
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged
    except BaseException:
        db.close()
        raise
    return db


def _keep_damaged(path: Path) -> Path:
    """Renames a database with its log."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(kept)
    for end in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(kept.with_name(kept.name + end))
    sync_folder(path.parent)
    return kept

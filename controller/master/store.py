"""The master's memory on disk: one SQLite file (WAL, 0600) of applications, their events as they came, and executors.

Events are kept raw and replayed at a start, so what the master knows of a run has one source. Nothing is decided here.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS applications (id TEXT PRIMARY KEY, live INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS events (application TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (application, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS executors (application TEXT NOT NULL, executor TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (application, executor)) WITHOUT ROWID;
"""


class Store:
    """All writes of one message belong into one `transaction`."""

    def __init__(self, path: Path) -> None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        # by itself SQLite moves a full log into the file amid some message; the master has calmer moments for that
        self._db.execute("PRAGMA wal_autocheckpoint=0")
        # executors' environments hold secrets: what is deleted or replaced is overwritten
        self._db.execute("PRAGMA secure_delete=ON")
        self._db.executescript(SCHEMA)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is stored, or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

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

    def put_executor(self, application_id: str, executor_id: str, data: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO executors VALUES (?, ?, ?)", (application_id, executor_id, data))

    def executors(self, application_id: str) -> list[bytes]:
        rows = self._db.execute("SELECT data FROM executors WHERE application = ?", (application_id,))
        return [row[0] for row in rows]

    def drop_details(self, application_id: str) -> None:
        """A finished application needs no events any more: its record is in its run folder."""
        self._db.execute("DELETE FROM events WHERE application = ?", (application_id,))

    def forget(self, application_id: str) -> None:
        self._db.execute("DELETE FROM events WHERE application = ?", (application_id,))
        self._db.execute("DELETE FROM executors WHERE application = ?", (application_id,))
        self._db.execute("DELETE FROM applications WHERE id = ?", (application_id,))

    def checkpoint(self) -> None:
        """Empties the write-ahead log, which else keeps replaced rows for a while."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._db.close()

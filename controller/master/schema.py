"""The tables of master.db, and how a file of an older release gets them.

The schema's number is in the file (PRAGMA user_version). A file with a smaller one is brought up to date in one transaction:
a crash amid it leaves the old file whole. One with a larger number is of a newer release and is not touched.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from controller.version import VERSION
from stage_model.errors import Unavailable

log = logging.getLogger("sparkpace.master")

FIRST = """
meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
applications (id TEXT PRIMARY KEY, live INTEGER NOT NULL, data BLOB NOT NULL);
events (application TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (application, seq)) WITHOUT ROWID;
snapshots (application TEXT NOT NULL, number INTEGER NOT NULL, behind INTEGER NOT NULL, next_seq INTEGER NOT NULL,
    data BLOB NOT NULL, PRIMARY KEY (application, number)) WITHOUT ROWID;
aside (at REAL NOT NULL, why TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL);
executors (application TEXT NOT NULL, executor TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (application, executor))
    WITHOUT ROWID
"""
"""Tables of number 1."""

Migration = Callable[[sqlite3.Connection], None]
"""A step to the next number; inside a transaction, which it leaves open."""


def _numbered(db: sqlite3.Connection) -> None:
    """Files without a number have some of these tables: the first ones knew no snapshots and set nothing aside."""
    for table in FIRST.split(";"):
        db.execute(f"CREATE TABLE IF NOT EXISTS {table}")


MIGRATIONS: Sequence[Migration] = (_numbered,)
"""Step N leads from number N to N + 1. A new one is added at the end; what a release has shipped is never changed."""


def check_version(path: Path, newest: int) -> None:
    """Raises `Unavailable` for a file with a larger number than `newest`; it is only read. `sqlite3.DatabaseError` for a
    damaged one."""
    if not path.stat().st_size:
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        number = _number(db)
    if number > newest:
        raise Unavailable(
            f"{path} has schema {number}, and Sparkpace {VERSION} knows none above {newest}; accepted: the release that "
            f"wrote it or a newer one, or another --home"
        )


def bring_up_to_date(db: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """All steps that the file lacks, or none. `db` is in autocommit mode."""
    if _number(db) == len(migrations):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        number = _number(db)
        for step in migrations[number:]:
            step(db)
        db.execute(f"PRAGMA user_version={len(migrations)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    log.info("master.db has schema %d, it had %d", len(migrations), number)


def _number(db: sqlite3.Connection) -> int:
    [(number,)] = db.execute("PRAGMA user_version")
    return int(number)

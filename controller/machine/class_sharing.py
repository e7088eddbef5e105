"""The JDK's class data sharing: the match of an archive of classes with jars and Java, and the options that make and use one.

A JVM maps the classes of an archive, parsed and verified, instead of taking them from 200 jars. Reasons:
docs/decisions/0013-class-archive.md. `controller.agent.executors.class_archive` makes executors' archives,
`controller.submit.driver_archive` the driver's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

DUMP = ("-Xshare:dump", "-XX:+UseG1GC", "-Xmx512m", "-XX:ActiveProcessorCount=1", "-XX:TieredStopAtLevel=1", "-Xlog:cds*=off")
"""Options that make an archive: only G1 writes its heap objects, which the other collectors can load; the rest saves CPU."""
KEPT = 4
"""Archives kept of one user and kind; the oldest go."""

Stamps = Sequence[tuple[str, int, int]]


def use(archive: Path) -> tuple[str, ...]:
    """Return options of a JVM that takes `archive` if it fits and says nothing if it does not; any later option wins."""
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds*=off")


def dump(classes: Path, archive: Path, class_path: str) -> tuple[str, ...]:
    """Return options of a JVM that makes `archive` of the `classes` listed."""
    return (*DUMP, f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}", "-cp", class_path)


def trial(archive: Path, class_path: str) -> tuple[str, ...]:
    """Return options of a JVM that fails where the archive does not work: the archives of some Javas do not."""
    return (*use(archive), "-Xshare:on", "-cp", class_path, "-version")


def jar_stamps(bridge: Path, jars: Path) -> list[tuple[str, int, int]]:
    """Return path, size and time of change (ns) of every jar, in the JVM's order: as the directory lists them. Raise
    `OSError`."""
    paths = [bridge, *(path for path in jars.iterdir() if path.suffix in (".jar", ".JAR"))]
    return [(str(path), found.st_size, found.st_mtime_ns) for path, found in ((path, path.stat()) for path in paths)]


def file_stamp(found: os.stat_result) -> tuple[int, ...]:
    """Return a stamp that any write to the file changes. A JVM looks only at the header of an archive, and crashes on damage
    inside."""
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def java_identity(java_home: Path) -> str:
    """Return a text that changes if another Java is put at that place. Raise `OSError`."""
    files = [java_home / name for name in ("release", "lib/modules", "bin/java")]
    stats = [path.stat() if path.exists() else None for path in files]
    return f"{java_home} {[(s.st_size, s.st_mtime_ns) if s else None for s in stats]}"


def archive_key(stamps: Stamps, java: str, class_list: bytes, uid: int) -> str:
    """Return a key that differs for jars, Javas and class lists that the archive would not fit, and for users that it would
    not belong to. Pure."""
    parts = (repr(list(stamps)).encode(), java.encode(), class_list, str(uid).encode())
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]

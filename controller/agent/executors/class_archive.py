"""Class archives: an executor's JVM maps the classes it needs, parsed and verified, instead of taking them from 200 jars.

The JDK's class data sharing (`java -Xshare:dump`) makes the file, once per Spark, Java and submitter, before the first
executor that could use it starts. An archive is code: it is made by its submitter and used only by the submitter's executors.
It is a gain, never a need: whatever goes wrong, executors start without. Reasons: docs/decisions/0013-class-archive.md. Not
here: the choice of classes (`experiments.bench.class_list` makes the list again).
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from controller.machine.class_sharing import KEPT, archive_key, dump, file_stamp, jar_stamps, trial, use
from controller.machine.files import cache_root, locked
from controller.runtime.base import Bind, JavaProgram, Launch, Program, Starter
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger("sparkpace.agent")

CLASS_LIST = Path(__file__).with_name("executor_classes.txt.gz")
TIMEOUT_S = 120.0
"""Longest time to make an archive: an executor waits for it."""
LEAST_CORES, LEAST_BYTES = 0.5, 1 << 30
"""Least cores and memory for making an archive, which uses those of the executor that waits for it: with less, it would take
minutes or might not fit."""
MOST_BYTES = 1 << 30
"""Size of the largest file that can be an archive of ours."""
COMPRESSED_HEAP_MB = 32 << 10
"""Heap from which on a JVM has pointers of another size, with which no archive of a smaller heap can be used."""


def archive_root() -> Path:
    """Return the folder of class archives: a cache for all clusters of this user, because an archive's name says what it
    fits."""
    return cache_root() / "class-archives"


def class_path_of(argv: Sequence[str]) -> str | None:
    """Return the class path of an executor if it has only the bridge and Spark's jars, and archives suit the heap."""
    match argv:
        case [_, "-cp", path, heap, *_] if re.fullmatch(r"/[^:*]+\.jar:/[^:*]+/\*", path):
            size = re.fullmatch(r"-Xmx(\d+)m", heap)
            return path if size is not None and int(size[1]) < COMPRESSED_HEAP_MB else None
    return None


class ClassArchives:
    """The archives below `root`, in a folder per submitter: `KEY.CONTENT.jsa`, where CONTENT is of the file's SHA-256.

    `root` is shared by the agents of one home; making an archive is given up after `timeout_s`. Only the launcher's thread
    uses this."""

    def __init__(self, runtime: Starter, root: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._runtime, self._root, self._timeout_s = runtime, root, timeout_s
        self._failed: set[str] = set()
        self._sound: dict[Path, tuple[int, ...]] = {}

    def add_to(self, launch: Launch, java: JavaProgram) -> Launch:
        """Return `launch` with its archive, which is made now if it is missing; unchanged where no archive can be made."""
        class_path = class_path_of(launch.argv)
        if class_path is None:
            return launch
        folder, key = self._root / str(launch.uid), ""
        try:
            class_list = CLASS_LIST.read_bytes()
            key = archive_key(jar_stamps(*_places(class_path)), java.identity, class_list, launch.uid)
            if key in self._failed:
                return launch
            archive = self._find(folder, key, launch.uid)
            if archive is None:
                if launch.cores < LEAST_CORES or launch.memory_bytes < LEAST_BYTES:
                    return launch
                with locked(self._root / "lock", 2 * TIMEOUT_S):
                    # another agent may have made it while this one waited
                    archive = self._find(folder, key, launch.uid) or self._make(folder, key, launch, class_path)
        except (RuntimeFailed, RuntimeRefused, OSError) as error:
            self._failed.add(key)
            log.warning(
                "executors of uid %d start without a class archive, more slowly than they could: %s", launch.uid, error
            )
            return launch
        # the folder and not the file, which a newer one may replace before a container has it
        return replace(launch, argv=[launch.argv[0], *use(archive), *launch.argv[1:]], binds=[*launch.binds, Bind(folder)])

    def _find(self, folder: Path, key: str, uid: int) -> Path | None:
        """Return the archive of `key`. A JVM believes archives, so a changed archive is removed."""
        for path in folder.glob(f"{key}.*.jsa"):
            with suppress(FileNotFoundError):
                now = file_stamp(path.lstat())
                if self._sound.get(path) == now:
                    return path
                if path.name == f"{key}.{_content(path, uid)}.jsa":
                    self._sound[path] = now
                    return path
                log.warning("class archive %s was damaged and is removed", path)
                path.unlink()
        return None

    def _make(self, folder: Path, key: str, launch: Launch, class_path: str) -> Path:
        """Make the archive of `key`. Raise `RuntimeRefused`, `RuntimeFailed`, `OSError`."""
        began_s = time.monotonic()
        for directory in (self._root, folder):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o755)
        for rest in folder.glob(".new-*"):
            _remove(rest)
        with _scratch(folder, launch) as scratch:
            made = scratch / "archive.jsa"
            program = Program(
                argv=[launch.argv[0], *dump(scratch / "classes", made, class_path)],
                uid=launch.uid,
                gid=launch.gid,
                binds=[*_binds(launch, class_path), Bind(scratch, writable=True)],
                image=launch.image,
                cores=launch.cores,
                memory_bytes=launch.memory_bytes,
                timeout_s=self._timeout_s,
            )
            self._runtime.run_program(program)
            # a Java whose archives do not work so is found out here, not by executors
            self._runtime.run_program(replace(program, argv=[launch.argv[0], *trial(made, class_path)]))
            ours = folder / f"{scratch.name}.jsa"
            made.rename(ours)  # out of its maker's directory, then looked at
        archive = folder / f"{key}.{_content(ours, launch.uid)}.jsa"
        ours.rename(archive)
        for old in sorted(folder.glob("*.jsa"), key=lambda path: path.lstat().st_mtime_ns, reverse=True)[KEPT:]:
            _remove(old)
        size_mb = archive.lstat().st_size >> 20
        log.info("made class archive %s (%d MiB) in %.0f s", archive, size_mb, time.monotonic() - began_s)
        return archive


@contextmanager
def _scratch(folder: Path, launch: Launch) -> Iterator[Path]:
    """Provide a directory of the submitter's with the list of classes in it."""
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    try:
        classes = scratch / "classes"
        classes.write_bytes(gzip.decompress(CLASS_LIST.read_bytes()))
        classes.chmod(0o644)
        if os.geteuid() == 0:
            os.chown(scratch, launch.uid, launch.gid)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _binds(launch: Launch, class_path: str) -> list[Bind]:
    """Return the executor's mounts that the class path needs, read-only."""
    places = _places(class_path)
    return [
        replace(bind, writable=False) for bind in launch.binds if any(place.is_relative_to(bind.path) for place in places)
    ]


def _places(class_path: str) -> tuple[Path, Path]:
    """Return the bridge's path and the directory of Spark's jars."""
    bridge, jars = class_path.removesuffix("/*").split(":")
    return Path(bridge), Path(jars)


def _content(path: Path, uid: int) -> str:
    """Return 16 digits of the file's SHA-256. Raise `RuntimeRefused` for a file that is no archive of that submitter, who
    could put any file there."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid or found.st_size > MOST_BYTES:
            raise RuntimeRefused(f"{path} is not a class archive of uid {uid}")
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)

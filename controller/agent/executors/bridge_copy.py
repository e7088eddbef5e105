"""The agent's own copy of a driver's bridge jar: executors are shown this copy, which no one changes behind the agent's back.

A registration may name any path. A file that is no bridge of some release of Sparkpace's, or that its submitter cannot read,
is refused.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

from controller.agent.executors.as_user import with_rights_of
from controller.machine.files import write_whole
from controller.runtime.held import FD, HeldPath
from controller.submit.bridge_jar import SETTINGS
from stage_model.errors import RuntimeRefused

MOST_BYTES = 8 << 20
KEPT = 8
"""Number of copies kept; the oldest go. A running executor keeps its own."""


def own_copy(jar: HeldPath, uid: int, gid: int, folder: Path) -> HeldPath:
    """Return the copy in the agent's `folder`. Raise `RuntimeRefused` for a file that is no bridge jar, and `OSError`."""
    content = with_rights_of(uid, gid, lambda: _content(jar)) if jar.file else b""
    if not _is_bridge(content):
        raise RuntimeRefused(
            f"bridge jar {str(jar.real)!r} is not one of Sparkpace's, or over {MOST_BYTES >> 20} MiB; use the jar that "
            f"`sparkpace conf` names"
        )
    # by time, too: a JVM takes a class archive only with the very jar, of that time, that it was made with
    copy = folder / f"{hashlib.sha256(content).hexdigest()[:32]}-{jar.found.st_mtime_ns}.jar"
    if not copy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in sorted(folder.glob("*.jar"), key=lambda path: path.stat().st_ctime_ns)[: -KEPT + 1]:
            old.unlink()
        write_whole(copy, content, lasting=False)
        os.utime(copy, ns=(jar.found.st_mtime_ns, jar.found.st_mtime_ns))
        copy.chmod(0o644)
    return HeldPath(os.open(copy, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))


def _content(jar: HeldPath) -> bytes:
    with (FD / str(jar.descriptor)).open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _is_bridge(content: bytes) -> bool:
    if len(content) > MOST_BYTES:
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return SETTINGS in archive.NameToInfo
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False

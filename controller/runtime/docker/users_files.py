"""Names for users in containers: an /etc/passwd for each submitter, because an image knows none of them.

Hadoop's login, which every executor goes through, fails for a uid that has no name.
"""

from __future__ import annotations

import pwd
import tempfile
from pathlib import Path

from controller.machine.files import write_whole
from stage_model.errors import RuntimeFailed


class UsersFiles:
    """The files, in `folder`, which is private to the agent; None: in a temporary one, which goes with `close`. `home` is the
    users'."""

    def __init__(self, folder: Path | None, home: str) -> None:
        self._folder, self._home = folder, home
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def of(self, uid: int, gid: int) -> Path | None:
        """Return the file that names the user; None for root, who has a name everywhere. Raise `RuntimeFailed`."""
        if uid == 0:
            return None
        if self._folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="sparkpace-users-")
            self._folder = Path(self._temporary.name)
        path, content = self._folder / f"users-{uid}-{gid}", _content(uid, gid, self._home)
        try:
            if not path.exists() or path.read_bytes() != content:
                self._folder.mkdir(parents=True, mode=0o700, exist_ok=True)
                write_whole(path, content, lasting=False)
                path.chmod(0o644)
        except OSError as error:
            raise RuntimeFailed(f"the file that names uid {uid} was not written ({error}); try later") from error
        return path

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()


def _content(uid: int, gid: int, home: str) -> bytes:
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid-{uid}"
    return f"root:x:0:0:root:/root:/bin/sh\n{name}:x:{uid}:{gid}::{home}:/bin/sh\n".encode()

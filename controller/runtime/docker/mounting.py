"""The files that a container sees of this host: mounts, what masks parts of them, and a file with a name for the user.

An image knows none of the submitters, and Hadoop's login, which every executor goes through, fails for a uid that has no
name. So each submitter has an /etc/passwd.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
from collections.abc import Callable, Sequence
from pathlib import Path

from docker.types import DriverConfig, Mount

from controller.machine.files import write_whole
from controller.runtime.base import Bind, Program
from controller.runtime.docker.client import EngineClients
from controller.runtime.held import HeldPath
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger(__name__)

USERS = "/etc/passwd"
MASK_BYTES = 1 << 20
"""Size of a masked directory, which holds mount points at most."""


def mounts(binds: Sequence[Bind], *, hold: bool = False) -> list[Mount]:
    """Return bind mounts, same path inside, and their masks. A path given twice is writable if one of the two is; a missing
    path is an error. The engine mounts shorter paths first, so a mask hides what is bound above it and not what is bound
    below. `hold`: the engine finds this process's descriptors (`Holding`)."""
    writable: dict[str, bool] = {}
    for bind in binds:
        writable[str(bind.path)] = bind.writable or writable.get(str(bind.path), False)
    last = {str(bind.path): bind for bind in binds}
    shown = [_shown(last[path], writable=rw, hold=hold) for path, rw in writable.items()]
    masks = {str(mask.path): mask.folder for bind in binds for mask in bind.masks}
    return [*shown, *(_mask(path, folder) for path, folder in masks.items() if path not in writable)]


def _shown(bind: Bind, *, writable: bool, hold: bool) -> Mount:
    """Return the mount of one bind. A held directory whose path may lead elsewhere by then is a volume of the engine's, which
    mounts the descriptor in the host's own file system: a container's may not mount what lies there (EINVAL). The volume goes
    with its container. A file has no volume: `changed` looks at it."""
    if bind.held is None or bind.firm or not (hold and bind.held.folder):
        source = str(bind.path if bind.held is None else bind.held.real)
        return Mount(target=str(bind.path), source=source, type="bind", read_only=not writable)
    options = {"type": "none", "o": "rbind" if writable else "rbind,ro", "device": bind.held.name}
    # "ro" is the mount's own: an engine takes no volume without a name as read-only
    return Mount(str(bind.path), None, type="volume", no_copy=True, driver_config=DriverConfig("local", options))


def changed(binds: Sequence[Bind], pid: int) -> Bind | None:
    """Return the first of `binds` in whose place process `pid`, a container's, sees something else than what was held; None
    also where that cannot be seen: the process has ended, or this one is not root."""
    for bind in binds:
        if bind.held is not None:
            with contextlib.suppress(OSError):
                if not os.path.samestat(os.lstat(f"/proc/{pid}/root{bind.path}"), bind.held.found):
                    return bind
    return None


def _mask(path: str, folder: bool) -> Mount:
    """Return an empty directory in which the engine can still make mount points, or an empty file."""
    if folder:
        return Mount(path, None, type="tmpfs", read_only=True, tmpfs_size=MASK_BYTES, tmpfs_mode=0o555)
    return Mount(path, os.devnull, type="bind", read_only=True)


class Holding:
    """The check for whether the Docker engine mounts what this process holds open, so that it cannot be swapped after it was
    checked; the answer is kept. `run` runs a program in a container of an image with held files and returns what it wrote.

    The engine must see this process's number and have the same mounts: it is not remote, and neither is in a container.
    """

    def __init__(self, engine: EngineClients, run: Callable[[str, Program], str]) -> None:
        self._engine, self._run = engine, run
        self._holds: bool | None = None

    def used_for(self, binds: Sequence[Bind], image: str) -> bool:
        """Return True if held files are used for these binds; the engine is asked only if there is something to hold. Raise
        the client's errors."""
        if all(bind.firm or bind.held is None or not bind.held.folder for bind in binds):
            return False
        if self._holds is None:
            self._holds = self._find_out(image)
            if not self._holds:
                log.warning(
                    "the Docker engine does not see what this agent holds open (it is remote, or one of the two is in a "
                    "container), so paths that their owners can change are mounted by name"
                )
        return self._holds

    def _find_out(self, image: str) -> bool:
        pid = self._engine.pid()
        if pid is None:
            return False
        try:
            return all(Path(f"/proc/{pid}/ns/{kind}").samefile(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt"))
        except OSError:  # another user's process: tried with a file that stays
            own = HeldPath(os.open(Path(__file__).parent, os.O_PATH | os.O_CLOEXEC))
            seen = Program(["/bin/ls", "/held"], os.getuid(), os.getgid(), [Bind(Path("/held"), held=own, firm=False)])
            try:
                listed = self._run(image, seen)
            except RuntimeRefused:
                return False
            return Path(__file__).name in listed.split()


def users_file(folder: Path, uid: int, gid: int, home: str) -> Path | None:
    """Return the file that names the user and the user's `home`, in `folder`, which is private to the agent; None for root,
    which every image knows. Raise `RuntimeFailed`."""
    if uid == 0:
        return None
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid-{uid}"
    content = f"root:x:0:0:root:/root:/bin/sh\n{name}:x:{uid}:{gid}::{home}:/bin/sh\n".encode()
    path = folder / f"users-{uid}-{gid}"
    try:
        if not path.exists() or path.read_bytes() != content:
            folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            write_whole(path, content, lasting=False)
            path.chmod(0o644)
    except OSError as error:
        raise RuntimeFailed(f"the file that names uid {uid} was not written ({error}); try later") from error
    return path

"""Locks, so that there is one master on a home, one agent on a worker, and one `up` or `down` at a time.

A service holds flock(2) on a 0600 file of the home for as long as it lives; the kernel drops the lock with the process,
however that ends. The file names its holder, so `up` and `down` find services that they did not start. A file that a dead
process left behind holds nothing and does no harm.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from controller.home import Home
from controller.machine.files import no_space
from controller.machine.process import Process, find_process
from controller.machine.waiting import wait_until
from stage_model.decoding import UNREADABLE
from stage_model.errors import Unavailable

SETTLE_S = 1.0
"""Longest time that an unknown holder may have a lock: it is writing its name into the file, or just looks."""
ORPHAN_S = 12.0
"""Time from SIGTERM to SIGKILL of a child whose supervisor died: a clean stop opens the quotas first."""
LOOK_S = 0.05


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a lock. `process` is None for a process that cannot be reached from here: on another host, or in another
    namespace of process numbers. `note` is what it says of itself: a master its URL, an agent's child its runtime."""

    process: Process | None
    note: str = ""


def holder(path: Path) -> Holder | None:
    """Return the holder of the lock `path` now; None when the lock is free."""
    until = time.monotonic() + SETTLE_S
    while True:
        said = last_holder(path)
        if said is not None and said.process is not None and said.process.is_alive():
            return said
        if not _is_held(path):
            return None
        if time.monotonic() > until:
            return Holder(process=None, note=said.note if said is not None else "")
        time.sleep(LOOK_S)


def last_holder(path: Path) -> Holder | None:
    """Return the last holder of the lock, dead or alive; None when it was never taken, or was given back."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (FileNotFoundError, *UNREADABLE):
        return None


@contextlib.contextmanager
def held(path: Path, refusal: str, note: str = "") -> Iterator[int]:
    """Hold the lock. Raise `Unavailable` when another process does: `refusal` with "{who}" in it."""
    descriptor = _take(path, refusal, note)
    try:
        yield descriptor
    finally:
        os.ftruncate(descriptor, 0)
        os.close(descriptor)


def master_lock(home: Home, url: str) -> contextlib.AbstractContextManager[int]:
    said = f"home {home.path} has a master already ({{who}}); end it with `sparkpace down`, or name another --home"
    return held(home.master_lock, said, url)


def child_lock(home: Home, worker_id: str, runtime: str) -> contextlib.AbstractContextManager[int]:
    said = f"worker {worker_id} of {home.path} has an agent's child already ({{who}}); end that one first"
    return held(home.child_lock(worker_id), said, runtime)


@contextlib.contextmanager
def agent_lock(home: Home, worker_id: str) -> Iterator[int]:
    """Hold the lock of the worker's supervisor; a child that outlived an earlier one is ended, its executors go on.

    The supervisor keeps it over exec, and no child of it has it. Raise `Unavailable` when the worker has an agent."""
    said = f"worker {worker_id} of {home.path} has an agent already ({{who}}); end that one, or name another --worker-id"
    with held(home.agent_lock(worker_id), said) as descriptor:
        orphan = holder(home.child_lock(worker_id))
        if orphan is not None and orphan.process is not None:
            end((orphan.process,), ORPHAN_S)
        os.set_inheritable(descriptor, True)
        yield descriptor


@contextlib.contextmanager
def turn(home: Home) -> Iterator[None]:
    """Hold the home itself as the lock of `up` and `down`. Raise `Unavailable` while another `up` or `down` is under way."""
    descriptor = os.open(home.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable(
                f"another `sparkpace up` or `sparkpace down` of {home.path} is under way; wait until it has ended"
            ) from None
        yield
    finally:
        os.close(descriptor)


def end(processes: tuple[Process, ...], grace_s: float) -> tuple[Process, ...]:
    """Send SIGTERM, after `grace_s` SIGKILL; return the processes that live all the same."""
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, SETTLE_S)):
        for process in processes:
            process.send(number)
        wait_until(lambda: not any(process.is_alive() for process in processes), wait_s, LOOK_S)
    return tuple(process for process in processes if process.is_alive())


def _take(path: Path, refusal: str, note: str) -> int:
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                other = holder(path)
            if other is not None:
                who = f"process {other.process.pid}" if other.process is not None else "a process out of reach from here"
                raise Unavailable(refusal.format(who=who))
        said = msgspec.json.encode(Holder(process=find_process(os.getpid()), note=note))
        try:
            said = said[: os.pwrite(descriptor, said, 0)]
        except OSError as error:
            if not no_space(error):
                raise
            said = b""  # a full disk: the lock is held all the same, and its holder stays unknown
        os.ftruncate(descriptor, len(said))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False

"""All processes of one executor, by their session: executors start in a session of their own, and the processes that they
fork stay in it.

Python workers change their process group, not their session.

An executor that another service has started has no session of its own: its processes are its descendants. The module is used
where no control group does the accounting. Linux only. Not here: pacing (`pacer`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

import psutil

from controller.machine import proc
from controller.machine.process import Process, find_process


def members(leader: Process) -> tuple[int, ...]:
    """Return the pids of the session that `leader` began, also after its death. Empty when the number now means another
    process."""
    now = proc.start_ticks(leader.pid)
    if now is not None and now != leader.start_ticks:
        return ()
    return tuple(pid for pid in psutil.pids() if _session(pid) == leader.pid)


def descendants(leader: Process) -> tuple[int, ...]:
    """Return the pids of the process and of its descendants, as far as no process in between has ended. Empty when the number
    now means another process."""
    try:
        found = psutil.Process(leader.pid).children(recursive=True)
    except psutil.Error:
        return ()
    if proc.start_ticks(leader.pid) != leader.start_ticks:
        return ()
    return (leader.pid, *(process.pid for process in found))


def ancestors(process: Process) -> tuple[int, ...]:
    """Return the pids of the process's parent, of that one's parent, and so on."""
    try:
        return tuple(one.pid for one in psutil.Process(process.pid).parents())
    except psutil.Error:
        return ()


def resident(process: Process) -> int:
    """Return the resident bytes of only that process; 0 when it is gone."""
    try:
        return int(psutil.Process(process.pid).memory_info().rss)
    except psutil.Error:
        return 0


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def signal_all(pids: tuple[int, ...], number: int) -> None:
    """Send a signal to the processes that are there and that this process may signal."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def may_signal(process: Process) -> bool:
    try:
        os.kill(process.pid, 0)
    except OSError:
        return False
    return True


def kill(leader: Process) -> None:
    """Send SIGKILL to the session, and again for processes that were forked meanwhile."""
    for _ in range(3):
        left = tuple(pid for pid in members(leader) if find_process(pid) is not None)
        if not left:
            return
        signal_all(left, signal.SIGKILL)


def cpu_clock_s(pid: int) -> float | None:
    """Return the CPU seconds of one process (all threads, nanosecond steps), from its POSIX CPU clock; None when it is
    gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) encodes it
    except OSError:
        return None


def usage(pids: tuple[int, ...]) -> tuple[float, int]:
    """Return the CPU seconds (ended children included, in clock ticks) and resident bytes (shared pages count often) of
    `pids`."""
    cpu_s, resident = 0.0, 0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            times = process.cpu_times()
            cpu_s += times.user + times.system + times.children_user + times.children_system
            resident += process.memory_info().rss
    return cpu_s, resident

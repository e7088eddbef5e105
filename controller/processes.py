"""The services' processes as cluster.json names them: a reused pid is never mistaken for the one that was meant.

Covers asking and signalling, and what a service asks of the system for itself; starting is `controller.local.cluster`'s. How
a process is told from its successor: `controller.runtime.process_identity`.
"""

from __future__ import annotations

import contextlib
import os
import resource

import msgspec

from controller.runtime import process_identity


class ProcessId(msgspec.Struct, frozen=True, kw_only=True):
    """A pid, its start in clock ticks since boot, and the boot."""

    pid: int
    start: int
    boot_id: str


def identify(pid: int) -> ProcessId | None:
    """The process as it is now; None when it has ended."""
    found = process_identity.of(pid)
    return None if found is None else ProcessId(pid=found.pid, start=found.start_ticks, boot_id=found.boot_id)


def alive(process: ProcessId) -> bool:
    """Whether exactly this process still runs."""
    return process_identity.is_alive(process_identity.ProcessIdentity(process.pid, process.start, process.boot_id))


def send(process: ProcessId, signal_number: int) -> None:
    """Signals the process; does nothing when it is gone."""
    if alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal_number)


def send_group(process: ProcessId, signal_number: int) -> None:
    """Signals the process group led by `process`: itself and the children it started in its own session.

    Does nothing once the leader is gone, since its number may then belong to somebody else.
    """
    if alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)


def allow_files() -> int:
    """As many open files as the system lets this process have, and how many that is: of 1,024, an agent's would end at some
    150 executors, which keep six each, and the master's at as many connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most

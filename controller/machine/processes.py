"""The services' processes as cluster.json names them: a reused pid is never mistaken for the process that was meant.

Covers asking and signalling, and a service's own requests to the system; starting is `controller.local.cluster`'s.
`controller.machine.process_identity` distinguishes a process from its successor.
"""

from __future__ import annotations

import contextlib
import os
import resource

import msgspec

from controller.machine import process_identity


class ProcessId(msgspec.Struct, frozen=True, kw_only=True):
    """A pid, its start in clock ticks since boot, and the boot."""

    pid: int
    start: int
    boot_id: str


def identify(pid: int) -> ProcessId | None:
    """Return the process as it is now; None when it has ended."""
    found = process_identity.of(pid)
    return None if found is None else ProcessId(pid=found.pid, start=found.start_ticks, boot_id=found.boot_id)


def alive(process: ProcessId) -> bool:
    """Return True if exactly this process still runs."""
    return process_identity.is_alive(process_identity.ProcessIdentity(process.pid, process.start, process.boot_id))


def send(process: ProcessId, signal_number: int) -> None:
    """Signal the process; do nothing when it is gone."""
    if alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal_number)


def send_group(process: ProcessId, signal_number: int) -> None:
    """Signal the process group led by `process`: itself and the children it started in its own session.

    Do nothing once the leader is gone, since its number may then belong to another process.
    """
    if alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)


def allow_files() -> int:
    """Let this process have as many open files as the system allows; return their number. Of 1,024, an agent's would end at
    some 150 executors, which keep six each, and the master's at as many connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most

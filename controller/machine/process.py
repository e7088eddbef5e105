"""One process, which is never mistaken for a later one of its number: whether it lives, signals to it; and the number of
files that this process may open.

`controller.machine.proc` reads the facts of a number in /proc; `controller.machine.process_tree` finds the processes that a
process has started.
"""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress

import msgspec

from controller.machine import proc


class Process(msgspec.Struct, frozen=True):
    """A process: a number, a start (in clock ticks after the boot, field 22 of /proc/PID/stat) and a boot together are never
    used twice. `pid` counts in `pid_namespace` ("pid:[NUMBER]"); empty: not known, and taken for this process's own."""

    pid: int
    start_ticks: int
    boot_id: str
    pid_namespace: str = ""

    def is_this_boot(self) -> bool:
        return self.boot_id == proc.boot_id()

    def is_numbered_here(self) -> bool:
        """Return True if its number means the same here as in its own namespace; else nothing is known of its life."""
        return self.pid_namespace in ("", proc.pid_namespace())

    def is_alive(self) -> bool:
        """Return True if that very process still runs (a zombie does not). It has to be numbered here."""
        return self.is_this_boot() and proc.start_ticks(self.pid, zombie=False) == self.start_ticks

    def send(self, number: int) -> bool:
        """Send a signal to that very process, or to none if it is gone; return False where this process may not."""
        descriptor = _descriptor(self.pid)
        try:
            if self.is_alive():
                if descriptor is None:
                    os.kill(self.pid, number)
                else:
                    signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return True

    def send_group(self, number: int) -> None:
        """Signal the process group that this process leads: itself and the children it started in its own session.

        Do nothing once the leader is gone, since its number may then belong to another process."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


def find_process(pid: int) -> Process | None:
    """Return the process that has the number now; None when it is gone (a zombie is gone)."""
    started = proc.start_ticks(pid, zombie=False)
    return None if started is None else Process(pid, started, proc.boot_id())


def allow_files() -> int:
    """Let this process have as many open files as the system allows; return their number. With 1,024 files, an agent could
    have only some 150 executors, each of which keeps six open, and the master only about 1,000 connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _descriptor(pid: int) -> int | None:
    """Return a descriptor of the process that has the number now; None where the kernel makes none."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None

"""The outcome of an application, decided from what is known about its driver, and how many ended in which way. Pure.

The driver decides: `sparkpace submit` knows its exit code, and the bridge sees how its JVM ends. Where neither has reported
anything, the jobs decide. Not covered: how long a report is waited for (`lifecycle`).
"""

from __future__ import annotations

import signal
from bisect import bisect_left
from collections import Counter
from enum import StrEnum

from controller.master.core.summary import error_pct
from controller.wire.states import Outcome

SHELL_SIGNAL = 128
"""An exit code above this number is this number plus that of the signal that ended the process."""
ASKING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Signals that ask a process to end."""
SERVERS = frozenset(
    (
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
    )
)
"""Main classes that serve until they are asked to end."""
ERROR_BOUNDS = (-0.5, -0.2, -0.1, -0.05, -0.02, -0.01, 0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Upper bounds of the deadline error, as a share of the deadline; negative is early."""


class DriverEnd(StrEnum):
    """The end of the driver's JVM, as the bridge in that JVM sees it."""

    TO_COME = "to_come"
    """The SparkContext has ended, the JVM goes on, and the bridge will say how it ends."""
    WELL = "well"
    """Its main program came to its end."""
    FAILED = "failed"
    """Its main program ended with an error."""
    ASKED = "asked"
    """A signal asked it to end."""
    UNKNOWN = "unknown"
    """The JVM ends by an exit, whose code cannot be seen from inside it."""


def driver_end(said: str) -> DriverEnd:
    """Return the end that a bridge reports; a word of a newer release that is not known here counts as `UNKNOWN`."""
    return DriverEnd(said) if said in set(DriverEnd) else DriverEnd.UNKNOWN


REASONS = {Outcome.KILLED: "it was killed", Outcome.DRIVER_DIED: "its driver died"}
"""The reasons, for people, of applications that were ended from outside."""


def judge(
    cut_off: Outcome | None, exit_code: int | None, seen_end: DriverEnd | None, *, server: bool, seems_well: bool
) -> tuple[Outcome, str]:
    """Return the outcome of an application that has ended, and the reason for people: empty for success, and where it was
    given when the application was ended. `cut_off`: how it was ended, None if it ended by itself. `exit_code` is the
    driver's (None: not reported), `seen_end` the end that its bridge saw (None: it saw none); `server`: its main class is one
    of `SERVERS`; `seems_well`: its jobs show no failure at its end."""
    if cut_off in (Outcome.KILLED, Outcome.STOPPED):
        return cut_off, ""
    if exit_code is not None:
        return _of_exit_code(exit_code, server=server)
    match seen_end:
        case DriverEnd.WELL:
            return Outcome.SUCCEEDED, ""
        case DriverEnd.FAILED:
            return Outcome.FAILED, "its driver failed"
        case DriverEnd.ASKED:
            return _asked("a signal", server=server)
        case DriverEnd.TO_COME:
            return Outcome.DRIVER_DIED, REASONS[Outcome.DRIVER_DIED]
    if cut_off is not None:
        return cut_off, ""
    if seems_well:
        return Outcome.SUCCEEDED, ""
    return Outcome.UNKNOWN, "no one saw how its driver ended, and its last job failed or was under way then"


def _of_exit_code(code: int, *, server: bool) -> tuple[Outcome, str]:
    number = code - SHELL_SIGNAL
    if code == 0:
        return Outcome.SUCCEEDED, ""
    if number in ASKING:
        return _asked(signal.Signals(number).name, server=server)
    if number in signal.valid_signals():
        return Outcome.DRIVER_DIED, REASONS[Outcome.DRIVER_DIED]
    return Outcome.FAILED, f"its driver ended with exit code {code}"


def _asked(by: str, *, server: bool) -> tuple[Outcome, str]:
    return (Outcome.SUCCEEDED, "") if server else (Outcome.KILLED, f"its driver was ended by {by}")


class Tally:
    """Counts of how applications ended, in one life of the master. Records survive a restart; these counts do not."""

    def __init__(self) -> None:
        self.ended: Counter[Outcome] = Counter()
        self.errors = [0] * (len(ERROR_BOUNDS) + 1)
        """Number of errors up to each of the `ERROR_BOUNDS` and above the one before; the last number is those above all."""

    def take(self, outcome: Outcome, ended_s: float, deadline_s: float | None) -> None:
        """Count an outcome that has just been settled. If the application did not succeed, its deadline does not count."""
        self.ended[outcome] += 1
        error = error_pct(ended_s, deadline_s)
        if outcome is Outcome.SUCCEEDED and error is not None:
            self.errors[bisect_left(ERROR_BOUNDS, error / 100)] += 1

"""The stored part of an application besides its events and executors: what it asked for, and how it ended. Pure."""

from __future__ import annotations

import re

import msgspec

from controller.asks.job_options import JobOptions
from controller.master.core.outcome import DriverEnd
from controller.wire.basis import Basis, Lateness, Untaught
from controller.wire.driver import Registration
from controller.wire.states import Outcome
from placement.data_wait import DataWait

LEFT_OUT = 1000
"""Executor numbers that a new life of the master leaves out, at most."""
ID = re.compile(r"pace-[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
"""An id that the master has given."""
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]")
"""Form of a host whose address may be given to other jobs: a name, an IPv4 address, or an IPv6 address in brackets."""


class AppliedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an application by `sparkpace set`, `at_s` after submission."""

    at_s: float
    deadline_s: float | None
    priority: int
    labels: str = ""
    """Labels asked of workers."""


class ApplicationRecord(msgspec.Struct, kw_only=True):
    """The stored part of an application besides its events and executors.

    `started_monotonic_s` counts only in the boot `boot_id` of the machine; `started_epoch_s`, of the wall clock, is for
    people and for another boot."""

    application_id: str
    token_hash: str
    registration: Registration
    started_epoch_s: float
    started_monotonic_s: float
    boot_id: str
    options: JobOptions
    ended_s: float | None = None
    end_reason: str = ""
    """The reason for the end, for people; empty for success."""
    cut_off: Outcome | None = None
    """The way the application was ended, if it did not end by itself."""
    driver_end: DriverEnd | None = None
    exit_code: int | None = None
    """The exit code of its driver, from `sparkpace submit`."""
    outcome: Outcome | None = None
    """The way the application ended; None until that is settled."""
    next_executor: int = 1
    changes: list[AppliedChange] = []
    data_waits: list[DataWait] = []
    profile_key: str = ""
    planned: bool = False
    """True if the application had a profile."""
    outlived: bool = False
    """True if the application was running already when a master that had lost its memory took it in."""
    unrecorded: str = ""
    """The reason why its record could not be written, if it could not."""
    comes_after: dict[str, str] = {}
    """Ids of the applications that this one comes after, by the word that the user said, as far as they were found."""
    spark_application_id: str = ""
    """The name of an attached application at its cluster manager."""
    serves: int | None = None
    """The port at which its driver serves others, or served last; None before it does."""
    basis: Basis | None = None
    """The basis of its forecast when it ended."""
    lateness: Lateness | None = None
    untaught: Untaught | None = None
    """The reason why the application taught nothing; None also before its record is written."""

    @property
    def address(self) -> str:
        """The address at which its driver serves others, or served last; empty before it does, and if its host does not have
        the form `HOST`: the host comes from the driver and reaches the environment of other jobs, so its form is checked."""
        host = self.registration.host
        return f"{host}:{self.serves}" if self.serves is not None and HOST.fullmatch(host) else ""

    @property
    def succeeded(self) -> bool:
        return self.outcome is Outcome.SUCCEEDED

    def drop_environment(self) -> None:
        """Forget the environment, which may hold secrets of the user's and is needed only as long as executors start."""
        self.registration = msgspec.structs.replace(self.registration, environment={})

    @property
    def names(self) -> tuple[str, ...]:
        """Names that other jobs may use for this application: its own name, the name given at submission if that differs,
        and the id of its submission if that waited."""
        return tuple(filter(None, (self.registration.name, self.submitted_name, self.options.waited)))

    @property
    def submitted_name(self) -> str:
        """The name that the application was submitted with if its program has set another one; else empty."""
        given = self.options.name or ""
        return "" if given == self.registration.name else given


def skip_unknown_ids(next_executor: int) -> int:
    """Return the number of the next executor in a new life of the master: a worker may later show one of an earlier life that
    was not stored (`executors.take_over`), and no two executors may have one number."""
    return next_executor + LEFT_OUT - (next_executor - 1) % LEFT_OUT

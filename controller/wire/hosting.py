"""Messages about hosted drivers: what a submitter asks for, what people see of a driver, what an agent should run and what it
has run. See docs/protocol.md."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from controller.machine.process import Process
from controller.wire.limits import DRIVERS, PathText, Text, Words
from controller.wire.message import Message

Arguments = Annotated[tuple[str, ...], msgspec.Meta(max_length=10_000)]
"""Words of a command line; the limit of the body bounds their size."""
Uid = Annotated[int, msgspec.Meta(ge=0, lt=2**32 - 1)]
STARTS = 4 * DRIVERS
"""Most starts of drivers that a report names: some may be of drivers that run elsewhere by now."""


class DriverState(StrEnum):
    """The state of a hosted driver, in the words of Spark's standalone manager (org.apache.spark.deploy.master.DriverState).
    Its UNKNOWN does not occur here."""

    SUBMITTED = "SUBMITTED"
    RUNNING = "RUNNING"
    RELAUNCHING = "RELAUNCHING"
    FINISHED = "FINISHED"
    KILLED = "KILLED"
    FAILED = "FAILED"
    ERROR = "ERROR"
    """The state of a driver that could not be started, or whose worker is lost."""


FINAL = frozenset({DriverState.FINISHED, DriverState.KILLED, DriverState.FAILED, DriverState.ERROR})


class HostRequest(Message, frozen=True, kw_only=True):
    """POST /v1/drivers (scope submit): a driver that a worker should host. `words` are those of `sparkpace submit` on that
    worker, without the submission's id. It starts in `working_dir` with `environment` as the user `uid` of group `gid`; the
    files `needs` must be readable there. `process` is that of the submitter, by which the user is vouched for. `supervise`:
    a driver that fails is started again."""

    name: Text
    words: Arguments
    environment: Words
    working_dir: PathText
    needs: Annotated[tuple[PathText, ...], msgspec.Meta(max_length=100)] = ()
    uid: Uid
    gid: Uid
    process: Process
    supervise: bool = False


class HostedView(Message, frozen=True, kw_only=True):
    """GET /v1/drivers/ID (scope submit), and the answer to POST /v1/drivers. `attempt` counts the starts of the driver, of
    which the last one has the submission id `submission` (empty: none yet). `exit_code` is that of the last start that has
    ended (None: not known), `reason` says in a clause why the driver is in its state, where that needs a reason. `refused`:
    its worker could not start it as it was submitted."""

    driver_id: str
    name: str
    state: DriverState
    attempt: int = 0
    submission: str = ""
    worker_id: str = ""
    host: str = ""
    exit_code: int | None = None
    reason: str = ""
    refused: bool = False


class HostedList(Message, frozen=True, kw_only=True):
    """GET /v1/drivers (scope submit), in the order in which they were submitted."""

    drivers: tuple[HostedView, ...] = ()


class HostedSpec(Message, frozen=True, kw_only=True):
    """A driver that an agent should start, as in `HostRequest`. `submission` is the id of this start of it."""

    submission: Text
    words: Arguments
    environment: Words
    working_dir: PathText
    needs: tuple[PathText, ...] = ()
    uid: Uid
    gid: Uid


class HostedReport(Message, frozen=True, kw_only=True):
    """An agent's report on one start of a driver, sent until the master no longer lists it. `ended`: no process of it is
    left; then `exit_code` is None where no one has seen it. `refused` is the sentence on why it cannot be started there,
    empty if it was started."""

    submission: Text
    ended: bool = False
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    refused: Text = ""

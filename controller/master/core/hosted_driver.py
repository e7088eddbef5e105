"""One hosted driver: what is stored of it, and what its state becomes when a start of it has ended."""

from __future__ import annotations

import msgspec

from controller.machine.back_off import BackOff
from controller.wire.hosting import FINAL, DriverState, HostedSpec, HostedView

STEADY_S = 60.0
"""Seconds after which a start counts as steady, however the driver ends: its failure is the first in a row again."""
MOST_FAILURES = 10
"""Failures in a row after which a supervised driver is not started again."""
BACK_OFF = BackOff(first_s=1.0, most_s=60.0)
"""Waits of a supervised driver that has failed."""
PREFIX = "driver-"


class HostedDriver(msgspec.Struct, kw_only=True):
    """A driver as it is stored. `attempt` numbers its last start (0: none yet), which is on `worker_id` (empty: it waits for
    a worker). `own_code` is the exit code that the driver's own `sparkpace submit` has reported of this start, `failures`
    counts the starts that failed in a row, `killed`: it is to end, or has ended, because someone asked for that."""

    driver_id: str
    name: str
    words: tuple[str, ...]
    environment: dict[str, str]
    working_dir: str
    needs: tuple[str, ...]
    uid: int
    gid: int
    supervise: bool = False
    state: DriverState = DriverState.SUBMITTED
    attempt: int = 0
    worker_id: str = ""
    host: str = ""
    own_code: int | None = None
    exit_code: int | None = None
    failures: int = 0
    killed: bool = False
    refused: bool = False
    reason: str = ""

    @property
    def final(self) -> bool:
        return self.state in FINAL

    @property
    def submission(self) -> str:
        """The submission id of the last start; empty before the first."""
        return f"{self.driver_id.removeprefix(PREFIX)}-{self.attempt}" if self.attempt else ""

    def view(self) -> HostedView:
        return HostedView(
            driver_id=self.driver_id,
            name=self.name,
            state=self.state,
            attempt=self.attempt,
            submission=self.submission,
            worker_id=self.worker_id,
            host=self.host,
            exit_code=self.exit_code,
            reason=self.reason,
            refused=self.refused,
        )

    def spec(self) -> HostedSpec:
        """Return the order to run the last start."""
        return HostedSpec(
            submission=self.submission,
            words=self.words,
            environment=self.environment,
            working_dir=self.working_dir,
            needs=self.needs,
            uid=self.uid,
            gid=self.gid,
        )

    def start_on(self, worker_id: str, host: str) -> None:
        """Have the next start of the driver happen on a worker."""
        self.attempt += 1
        self.worker_id, self.host, self.own_code, self.reason = worker_id, host, None, ""

    def end(self, state: DriverState, reason: str = "") -> None:
        """Move to a final state; what only a further start needs is dropped, because it may be secret."""
        self.state, self.reason = state, reason
        self.words, self.environment, self.needs = (), {}, ()

    def ended(self, code: int | None, ran_s: float) -> float | None:
        """Take in that its last start has ended after `ran_s` seconds; return the seconds to wait before it is started again,
        None if it is not."""
        self.exit_code = self.own_code if code is None else code
        how = "its exit code is not known" if self.exit_code is None else f"its exit code was {self.exit_code}"
        if self.killed:
            self.end(DriverState.KILLED, "it was killed")
        elif self.exit_code == 0:
            self.end(DriverState.FINISHED)
        else:
            return self.failed(how, ran_s)
        return None

    def failed(self, why: str, ran_s: float, state: DriverState = DriverState.FAILED) -> float | None:
        """Take in that its last start has failed; `why` is a clause. Return the seconds to wait before it is started again;
        None if it is not, and has `state`."""
        if not self.supervise:
            self.end(state, why)
            return None
        self.failures = 1 if ran_s >= STEADY_S else self.failures + 1
        if self.failures >= MOST_FAILURES:
            self.end(state, f"{why}; it has failed {self.failures} times in a row and is not started again")
            return None
        self.state, self.worker_id, self.host, self.reason = DriverState.RELAUNCHING, "", "", why
        return BACK_OFF.wait_s(self.failures)

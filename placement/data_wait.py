"""The wait of an executor for a worker that has its application's input, where only others are free (document 002;
docs/placement.md, Data).

An application waits once. The expectation, and what came, is kept (`DataWait`). Whether waiting is worth it is forecast as in
document 002 (RFD; docs/design.md, section 4): E is the number of requests that machines with unprocessed blocks of the job
are expected to make within the time that moving one block takes, E = TT * S * K / t. With E of 1 or more, waiting is worth
it. Machines that jobs ahead in the queue want, too, are left to those jobs, as the document's text argues; its formula 5, as
printed, counts only these machines (`experiments.simulator.waiting` has both).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import structs

from placement.worker import WorkerState

WORTH = 1.0
"""Expectation from which on waiting is worth it."""
PATIENCE = 3.0
"""Longest wait in times of moving the input: with an expectation of one arrival in that time, none comes in three of them
with a chance of e^-3, one in twenty."""
PATIENT_SHARE = 0.1
"""Share of its deadline that an application waits for its data at most."""


@dataclass(frozen=True, slots=True)
class DataOutlook:
    """`move_s`: TT, seconds to move one block; `slots`: S of a machine; `task_s`: t, mean time of a task; `machines`: K,
    machines that hold unprocessed blocks of the job; `shared`: R, those of them that jobs ahead want too."""

    move_s: float
    slots: float
    task_s: float
    machines: int
    shared: int = 0
    ahead: bool = False
    """True if a job is ahead in the queue."""


def expected_requests(outlook: DataOutlook) -> float:
    """Return E, requests of machines with data: TT * S * (K - R) / t with jobs ahead, TT * S * K / t without."""
    machines = outlook.machines - outlook.shared if outlook.ahead else outlook.machines
    if outlook.task_s <= 0:
        # such tasks ask for the next task all the time
        return math.inf if machines else 0.0
    return outlook.move_s * outlook.slots * machines / outlook.task_s


class DataWait(msgspec.Struct, frozen=True, kw_only=True):
    """One wait for a worker that has the application's input, from `from_s` after submission on: `expected` such workers were
    to become free within `move_s` when the wait began; `local` says whether one did in time, None as long as the application
    waits."""

    from_s: float
    expected: float
    move_s: float
    waited_s: float = 0.0
    local: bool | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """The way in which an application waits for its input, in seconds.

    `wait` is "forecast", or the longest wait; `move_s` is the time that moving the input of one wave of its first stage's
    `tasks` takes. `elapsed_s` is the time since submission, `last` the wait under way or before. `duration_s` returns how
    long an application takes, None where the time is not known; `ahead` returns the shares of input by host of the
    applications that come first. Both are asked only when a wait may begin."""

    wait: str | float
    move_s: float
    tasks: int
    deadline_s: float | None
    elapsed_s: float
    last: DataWait | None
    duration_s: Callable[[str], float | None]
    ahead: Callable[[], Sequence[Mapping[str, float]]]

    @property
    def under_way(self) -> DataWait | None:
        return self.last if self.last is not None and self.last.local is None else None

    def most_s(self, wait: DataWait) -> float:
        """Return the longest wait: no large part of the deadline, however slow moving the input is."""
        if not isinstance(self.wait, str):
            return self.wait
        return min(PATIENCE * wait.move_s, math.inf if self.deadline_s is None else PATIENT_SHARE * self.deadline_s)


def data_wait(patience: Patience, chosen: WorkerState | None, near: Sequence[WorkerState]) -> DataWait | None:
    """Return the wait as it is now, begun, going on or just over (`local` is not None); None without a wait.

    `chosen` is the worker that the executor would go to (None: no worker is free), `near` are the workers with its input that
    could take it sooner or later."""
    wait, local = patience.under_way, chosen in near
    if wait is None and chosen is not None and near and not local and patience.last is None:
        wait = _begun(patience, near)
    if wait is None:
        return None
    waited_s = round(patience.elapsed_s - wait.from_s, 3)
    goes_on = near and not local and waited_s < patience.most_s(wait)
    return structs.replace(wait, waited_s=waited_s, local=None if goes_on else local)


def _begun(patience: Patience, near: Sequence[WorkerState]) -> DataWait | None:
    """Return a new wait if that is worth it."""
    outlook = _outlook(patience, near)
    forecast = expected_requests(outlook)
    if isinstance(patience.wait, str) and forecast < WORTH:
        return None
    return DataWait(from_s=round(patience.elapsed_s, 3), expected=round(forecast, 3), move_s=round(outlook.move_s, 3))


def _outlook(patience: Patience, near: Sequence[WorkerState]) -> DataOutlook:
    """Return the outlook on workers with the input, which become free as their executors end: `task_s` is how long these take
    on average, `slots` their number on a worker. Moving the input takes `move_s` for each wave of its tasks."""
    there = dict.fromkeys(name for worker in near for name in worker.by_application)
    times = [took_s for name in there if (took_s := patience.duration_s(name)) is not None]
    slots = sum(max(1, math.ceil(worker.cores)) for worker in near)
    ahead = patience.ahead()
    wanted = {host for prefer in ahead for host in prefer}
    return DataOutlook(
        move_s=patience.move_s * math.ceil(patience.tasks / max(1, slots)),
        slots=sum(len(worker.occupants) for worker in near) / len(near),
        # where no executor's end is known, none is expected
        task_s=sum(times) / len(times) if times else math.inf,
        machines=len(near),
        shared=sum(worker.host in wanted for worker in near),
        ahead=bool(ahead),
    )

"""Whether an executor waits for a worker that has its application's input, where only others are free (document 002;
docs/placement.md, Data).

An application waits once. What was expected, and what came, is kept (`DataWait`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import structs

from placement.locality import PATIENCE, WORTH, DataOutlook, expected_requests
from placement.worker import WorkerState

PATIENT_SHARE = 0.1
"""Of its deadline an application waits for its data at most."""


class DataWait(msgspec.Struct, frozen=True, kw_only=True):
    """One wait for a worker that has the application's input, from `from_s` after submission on: `expected` such workers were
    to become free within `move_s` when it began; `local` says whether one did in time, None as long as it waits."""

    from_s: float
    expected: float
    move_s: float
    waited_s: float = 0.0
    local: bool | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How an application waits for its input, in seconds.

    `wait` is "forecast", or how long it waits at most; `move_s` is what moving the input of one wave of
    its first stage's `tasks` takes. `elapsed_s` is the time since submission, `last` the wait under way or before.
    `duration_s` says of an application how long it takes, None where nobody knows; `ahead` gives the shares of input by host
    of those that come first. Both are asked only when a wait may begin."""

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
        """How long it waits at most: no large part of its deadline, however slow moving its input is."""
        if not isinstance(self.wait, str):
            return self.wait
        return min(PATIENCE * wait.move_s, math.inf if self.deadline_s is None else PATIENT_SHARE * self.deadline_s)


def data_wait(patience: Patience, chosen: WorkerState | None, near: Sequence[WorkerState]) -> DataWait | None:
    """The wait as it is now, begun, going on or just over (`local` is not None); None where there is none.

    `chosen` is the worker that it would go to (None: none is free), `near` are those with its input that could take it sooner
    or later."""
    wait, local = patience.under_way, chosen in near
    if wait is None and chosen is not None and near and not local and patience.last is None:
        wait = _begun(patience, near)
    if wait is None:
        return None
    waited_s = round(patience.elapsed_s - wait.from_s, 3)
    goes_on = near and not local and waited_s < patience.most_s(wait)
    return structs.replace(wait, waited_s=waited_s, local=None if goes_on else local)


def _begun(patience: Patience, near: Sequence[WorkerState]) -> DataWait | None:
    """A new wait if it is worth it."""
    outlook = _outlook(patience, near)
    forecast = expected_requests(outlook)
    if isinstance(patience.wait, str) and forecast < WORTH:
        return None
    return DataWait(from_s=round(patience.elapsed_s, 3), expected=round(forecast, 3), move_s=round(outlook.move_s, 3))


def _outlook(patience: Patience, near: Sequence[WorkerState]) -> DataOutlook:
    """Workers with the input become free as those that are there end: `task_s` is how long they take on average, `slots`
    how many there are on a worker. Moving the input takes `move_s` for each wave of its tasks."""
    there = dict.fromkeys(name for worker in near for name in worker.by_application)
    times = [took_s for name in there if (took_s := patience.duration_s(name)) is not None]
    slots = sum(max(1, math.ceil(worker.cores)) for worker in near)
    ahead = patience.ahead()
    wanted = {host for prefer in ahead for host in prefer}
    return DataOutlook(
        move_s=patience.move_s * math.ceil(patience.tasks / max(1, slots)),
        slots=sum(len(worker.occupants) for worker in near) / len(near),
        # where nobody is whose end is known, none is expected
        task_s=sum(times) / len(times) if times else math.inf,
        machines=len(near),
        shared=sum(worker.host in wanted for worker in near),
        ahead=bool(ahead),
    )

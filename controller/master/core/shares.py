"""The users' shares of the cluster: whose limits count for an application, what its user has now, and what follows from both
by `share_rules`.

Cores are those that deadlines take from now on, by what is left of their applications' work. Memory is the least that each
executor needs: off-heap memory that the master divides is no promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.asks.job_setting import PREFIX
from controller.asks.user_limits import UserLimits
from controller.master.core.application import Application
from controller.master.core.changes import Changes
from controller.master.core.guard import guarded
from controller.master.core.life import LifeState
from controller.master.core.needs import counts
from controller.master.core.remaining import promises
from controller.master.core.share_rules import (
    LOWEST,
    InUse,
    cores_of,
    executor_refusal,
    executors_left,
    memory_wait,
    over_limits,
    share_refusal,
    share_wait,
)
from controller.master.core.workers import Workers
from controller.wire.command import UserShare
from stage_model.errors import BadInput, InfeasibleDeadline
from stage_model.forecast.promises import Claim

SHOWN_S = 1.0
"""Age up to which promised cores are shown again: many may look at them each second."""


class UserShares:
    """The shares; without limits nothing is refused and nothing waits."""

    def __init__(
        self, limits: Sequence[UserLimits], applications: Mapping[str, Application], workers: Workers, changes: Changes
    ) -> None:
        self.applications, self.workers, self.changes = applications, workers, changes
        self._own = {one.uid: one for one in limits if one.uid is not None}
        self._default = next((one for one in limits if one.uid is None), None)
        self._placed: dict[int, tuple[int, InUse]] = {}
        """The use of each user without cores, with the number of changes when it was counted."""
        self._shown: dict[int, tuple[float, float]] = {}
        """Promised cores that were shown, with the time when they were worked out."""

    @property
    def limited(self) -> bool:
        """True if there are limits of any user."""
        return bool(self._own) or self._default is not None

    def limits_of(self, uid: int) -> UserLimits | None:
        """Return the limits that count for a user; None without any."""
        own = self._own.get(uid)
        if own is not None or self._default is None:
            return own
        return replace(self._default, user=str(uid), uid=uid)

    # ------------------------------------------------------------------ what is asked for

    def check_priority(self, uid: int, priority: int) -> None:
        """Raise `BadInput` for a priority over the highest of a user."""
        limits = self.limits_of(uid)
        if limits is not None and (sentence := share_refusal(limits, InUse(), priority=priority)):
            raise BadInput(sentence)

    def admit_priority(self, application: Application) -> None:
        """Check the priority of an application that is not in the registry yet. Without a priority of its own, an application
        has normal priority, or the highest of its user if that is lower. An application that outlived the master's memory is
        not refused: its priority becomes at most the highest of its user. Raise `BadInput`."""
        said = application.record.registration
        limits = self.limits_of(said.uid)
        lowers = application.outlived or f"{PREFIX}priority" not in said.conf
        if limits is not None and limits.priority is not None and lowers:
            lowered = min(application.options.priority, limits.priority)
            application.record.options = replace(application.options, priority=lowered)
        self.check_priority(said.uid, application.options.priority)

    def check_executor(self, application: Application, executor_mb: int) -> None:
        """Raise `BadInput` for an executor that is larger than all the memory that its user may have."""
        limits = self.limits_of(application.uid)
        if limits is not None and (sentence := executor_refusal(limits, executor_mb)):
            raise BadInput(sentence)

    def check_deadline(self, uid: int, claim: Claim, most_cores: float, now_s: float, held: float = 0.0) -> None:
        """Raise `InfeasibleDeadline` for a promise of more cores than the user has left. `held` are those that are promised
        to the same application already; a promise that takes no more than these is never refused."""
        limits = self.limits_of(uid)
        if limits is None or limits.cores is None:
            return
        more = cores_of(claim, most_cores) - held
        asked = None if held > 0 and more <= 0 else more
        if sentence := share_refusal(limits, self.in_use(uid, now_s), cores=asked):
            raise InfeasibleDeadline(sentence)

    def job_refusal(self, application: Application, priority: int | None, now_s: float) -> str:
        """Return the refusal of a single job's deadline, with that priority of its own; empty if the job may have it. The
        cores that it takes are not known when it starts."""
        limits = self.limits_of(application.uid)
        if limits is None:
            return ""
        has = InUse() if limits.cores is None else self.in_use(application.uid, now_s)
        return share_refusal(limits, has, priority, cores=0.0)

    # ------------------------------------------------------------------ what waits

    def obstacle(self, application: Application, executor_mb: int) -> str:
        """Return the reason why an application may not have its first executor, of that size, yet; empty if it may, or has
        had one. Executors of an attached application are not ours."""
        limits = self.limits_of(application.uid)
        if limits is None or application.attached or runs(application):
            return ""
        return share_wait(limits, self._counted(application.uid), executor_mb)

    def room(self, application: Application, executor_mb: int, wanted: int) -> tuple[int, str]:
        """Return how many of the `wanted` executors of that size the user has memory left for, and what is lacking."""
        limits = self.limits_of(application.uid)
        if limits is None:
            return wanted, ""
        has = self._counted(application.uid)
        left = executors_left(limits, has, executor_mb)
        return (wanted, "") if left is None or left >= wanted else (left, memory_wait(limits, has, executor_mb))

    # ------------------------------------------------------------------ what a user has

    def in_use(self, uid: int, now_s: float) -> InUse:
        """Return what a user has now."""
        cores = sum(self.cores(one, now_s) for one in self._live(uid))
        return replace(self._counted(uid), cores=cores)

    def cores(self, application: Application, now_s: float) -> float:
        """Return the cores that the deadlines which govern an application take from now on; 0 without a profile."""
        most, cores = self.workers.capacity(application, now_s), 0.0
        grown = self.workers.awaited_capacity(application, most, now_s)
        with guarded(application, "working out what it was promised"):
            cores = sum(cores_of(claim, grown.cores) for claim in promises(application, most, now_s, grown))
        return min(cores, grown.cores) if grown.cores > 0 else cores

    def over(self, now_s: float) -> list[str]:
        """Return a sentence for each user that has more than the limits allow."""
        users = dict.fromkeys(one.uid for one in self.applications.values() if not one.ended)
        found = ((limits, self.in_use(uid, now_s)) for uid in users if (limits := self.limits_of(uid)))
        return [sentence for limits, has in found if (sentence := over_limits(limits, has))]

    def shown(self, uid: int, now_s: float) -> UserShare | None:
        """Return a user's share as people see it; None for a user without limits."""
        limits = self.limits_of(uid)
        if limits is None:
            return None
        at_s, cores = self._shown.get(uid, (-SHOWN_S, 0.0))
        if now_s - at_s >= SHOWN_S:
            cores = self.in_use(uid, now_s).cores
            self._shown[uid] = now_s, cores
        has = self._counted(uid)
        return UserShare(
            user=limits.user,
            cores=round(cores, 2),
            most_cores=limits.cores,
            memory_mb=has.memory_mb,
            most_memory_mb=limits.memory_mb,
            applications=has.applications,
            most_applications=limits.applications,
            highest_priority=limits.priority,
        )

    def all_shown(self, now_s: float) -> list[UserShare]:
        """Return the share of each user with limits of its own, and of each other user with limits whose applications have
        not all ended."""
        live = (one.uid for one in self.applications.values() if not one.ended)
        users = dict.fromkeys([*self._own, *live]) if self.limited else {}
        return [share for uid in users if (share := self.shown(uid, now_s)) is not None]

    def _live(self, uid: int) -> list[Application]:
        return [one for one in self.applications.values() if one.uid == uid and not one.ended]

    def _counted(self, uid: int) -> InUse:
        """Return what a user has without cores: counted once as long as nothing changes."""
        version, known = self._placed.get(uid, (-1, InUse()))
        if version != self.changes.version:
            live = self._live(uid)
            known = InUse(
                memory_mb=sum(map(_memory_mb, live)),
                applications=sum(map(runs, live)),
                priority=max((one.options.priority for one in live), default=LOWEST),
            )
            self._placed[uid] = self.changes.version, known
        return known


def runs(application: Application) -> bool:
    """Return True if an executor of the application is there, or has run."""
    there = application.executors.values()
    return application.life.state is LifeState.RUNNING or any(counts(application, executor) for executor in there)


def _memory_mb(application: Application) -> int:
    """Return the least memory of the application's executors that the master has started; MiB."""
    there = (e.record.spec for e in application.executors.values() if counts(application, e))
    return sum(spec.memory_mb + (spec.off_heap_floor_mb or 0) for spec in there if spec is not None)

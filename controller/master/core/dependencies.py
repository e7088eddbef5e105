"""Applications that start after others: found by id or name, held back until those have ended, or serve
(`placement.dependencies`).

A name means the newest job that has it, or was submitted with it, when the name is first found; later looks keep to that job.
The name of a service means the newest live application of the same user that serves, else the newest that may yet serve. A
job that was not submitted yet is waited for. The driver of a submission starts only after all of these (`submissions`); an
application whose driver was started otherwise gets no executors before then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from controller.master.core.application import Application
from controller.master.core.application_record import ID, ApplicationRecord
from controller.master.core.life import LifeState
from controller.wire.command import PlanRequest
from controller.wire.driver import NOBODY_UID
from placement.dependencies import After, check_acyclic, parse_after
from stage_model.errors import BadInput
from stage_model.forecast.virtual_time import Forecast
from stage_model.nearest import nearest_names

STARTING_S = 120.0
"""Longest time from the start of a driver to its registration; a loaded machine took 47 s to the first task."""


@dataclass(frozen=True, slots=True)
class Past:
    """The facts that are kept of an application that has ended."""

    name: str
    succeeded: bool
    served: bool = False
    names: tuple[str, ...] = ()


def past_of(record: ApplicationRecord) -> Past:
    """Return what is kept of an application that ended."""
    return Past(record.registration.name, record.succeeded, bool(record.address), record.names)


@dataclass(slots=True)
class WaitingJob:
    """A submission whose driver does not run yet; `id` is that of the submission. `started_s` (of its clock: its submission),
    `due_s` (the end that was asked for), `heard_s` and `let_go_s` (since then its driver may start) are monotonic seconds.
    `pipeline` is None without an end for the whole; `ended`: it will not start, for the reason in `held_back`. It has never
    `outlived` the master's memory, as an application may have."""

    uid: int
    after: tuple[After, ...]
    started_s: float
    due_s: float | None
    priority: int
    pipeline: str | None
    attached: bool
    forecast: Forecast | None
    id: str = ""
    name: str = ""
    comes_after: dict[str, str] = field(default_factory=dict)
    heard_s: float = 0.0
    held_back: str = ""
    let_go_s: float | None = None
    ended: bool = False
    outlived: bool = False

    @classmethod
    def of(cls, request: PlanRequest, forecast: Forecast | None, uid: int, started_s: float) -> WaitingJob:
        """Return the job that a plan was asked for, by that user. Raise `BadInput` for `after` that cannot be read."""
        return cls(
            uid=uid,
            after=parse_after(request.after),
            started_s=started_s,
            due_s=None if request.deadline_s is None else started_s + request.deadline_s,
            priority=request.priority,
            pipeline=request.pipeline if request.deadline_s is not None else None,
            attached=request.attached,
            forecast=forecast,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names that other jobs may use for this one; empty once it has ended, because it was never an application."""
        return () if self.ended else (self.name,)


Job = Application | WaitingJob


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """All that a job may come after: `applications` by id, the kept facts of `past` applications, and the `waiting` jobs by
    submission. The master began at `begun_s`."""

    applications: Mapping[str, Application]
    past: Mapping[str, Past]
    waiting: Mapping[str, WaitingJob]
    begun_s: float

    def find(self, word: str, but: str = "") -> str:
        """Return the id of the job with that id, else of the newest with that name, except for `but`, the job that asks;
        empty without such a job."""
        if word in self.applications or word in self.past or word in self.waiting:
            return word
        named = [past_id for past_id, one in self.past.items() if word in one.names]
        named += [one.id for one in self.present() if word in one.names and one.id != but]
        return named[-1] if named else ""

    def first(self, job: Job, after: After) -> str:
        """Return the id of the job that another one comes `after`; empty if it was not submitted yet. The answer stays the
        job that was found before, unless that is a service which has come again under its name."""
        found_before = job.comes_after.get(after.application, "")
        if after.up:
            return self._service(after.application, job.uid, job.id) or found_before
        return self.find(found_before or after.application, job.id) or found_before

    def _service(self, word: str, uid: int, but: str = "") -> str:
        """Return the id of the application that is to serve a job of that user; empty without such an application. An id is
        returned as it is. A name stands for the newest live application that serves, else for the newest live job, except
        for `but`, the job that asks. Only the user's own jobs count by name: other users could take the name, and would get
        the data that are meant for the service."""
        if word in self.applications or word in self.past or word in self.waiting:
            return word
        live = (one for one in self.present() if not one.ended and one.uid == uid and one.id != but)
        named = (one for one in live if word in one.names)
        in_order = sorted(named, key=lambda one: isinstance(one, Application) and bool(one.address))
        return in_order[-1].id if in_order else ""

    def addresses(self, after: Iterable[After], uid: int) -> dict[str, str]:
        """Return the addresses of the services among what a job of that user comes after, by the words that asked for them,
        as far as they serve."""
        found = {one: self.applications.get(self._service(one.application, uid)) for one in after if one.up}
        return {one.application: first.address for one, first in found.items() if first is not None and first.address}

    def predecessors(self, job: Job) -> list[str]:
        """Return the ids of the applications whose ends this one comes after, as far as they are known by now."""
        return list(filter(None, (self.first(job, after) for after in job.after if not after.up)))

    def obstacle(self, job: Job, now_s: float) -> tuple[str, bool]:
        """Return the reason why a job may not start yet, empty if it may, and whether it never will. Its `comes_after` notes
        what is found. A job that has outlived the master's memory runs already, so what it came after has ended."""
        reason = ""
        for after in job.after:
            first_id = self.first(job, after)
            if not first_id:
                lacking = ", which does not run yet" if after.up else ", which was not submitted yet"
                reason = reason if job.outlived else f"it comes after {after.application!r}{lacking}"
                continue
            job.comes_after[after.application] = first_id
            found, never = (self._unserved if after.up else self._before)(after, first_id, now_s)
            if never:
                return found, True
            reason = found or reason
        return reason, False

    def _before(self, after: After, first_id: str, now_s: float) -> tuple[str, bool]:
        """Return as `obstacle` does, for one job whose end comes first."""
        first = self._known(first_id)
        if not self._ended(first_id, now_s):
            return f"it comes after {_label(first_id, first)}, which has not ended", False
        if after.success and not (isinstance(first, Application | Past) and first.succeeded):
            return f"it comes after the success of {_label(first_id, first)}, which did not succeed", True
        return "", False

    def _unserved(self, after: After, first_id: str, now_s: float) -> tuple[str, bool]:
        """Return as `obstacle` does, for one service. After it has served and ended, it may come again under its name."""
        first = self._known(first_id)
        if isinstance(first, Application) and first.address:
            return "", False
        if not self._ended(first_id, now_s):
            return f"it comes after {_label(first_id, first)}, which does not serve yet", False
        if after.application != first_id and isinstance(first, Application | Past) and first.served:
            return f"it comes after {after.application!r}, which has ended and is to serve again", False
        return f"it comes after the service of {_label(first_id, first)}, which has ended", True

    def waits(self) -> dict[str, list[After]]:
        """Return by name and id what each job that is held back comes after: by id as soon as it was found."""
        return {
            name: [After(one.comes_after.get(after.application, after.application)) for after in one.after]
            for one in self.present()
            if one.held_back and not one.ended
            for name in (*one.names, one.id)
        }

    def present(self) -> Iterator[Job]:
        """Yield all jobs whose driver runs, has ended of late, or is to start."""
        yield from self.applications.values()
        yield from self.waiting.values()

    def _known(self, first_id: str) -> Job | Past | None:
        return self.applications.get(first_id) or self.past.get(first_id) or self.waiting.get(first_id)

    def _ended(self, first_id: str, now_s: float) -> bool:
        """Return True if that job has ended. A job that is not known may ask or register yet where the master has just
        started."""
        if (first := self.applications.get(first_id)) is not None:
            return first.finished
        if (job := self.waiting.get(first_id)) is not None:
            return job.ended
        return first_id in self.past or now_s - self.begun_s >= STARTING_S


def _label(first_id: str, first: Job | Past | None) -> str:
    return f"{first_id} ({'its record is gone' if first is None else first.name})"


NEWEST = 100
"""Applications whose ids are compared with an unknown id: comparing thousands would keep others waiting."""


def check_dependencies(newcomer: Job, jobs: KnownJobs) -> None:
    """Raise `BadInput` for an id that is not known, for the name of a service where the newcomer's user is not known, or if
    the newcomer would wait for itself: the jobs that it comes after may be submitted later, by name."""
    unknown = [after for after in newcomer.after if not jobs.first(newcomer, after)]
    for after in unknown:
        if not newcomer.outlived and ID.fullmatch(after.application):
            raise BadInput(
                f"spark.pace.after {after}: no such application is known here; "
                f"{nearest_names(after.application, list(jobs.applications)[-NEWEST:])}, or give a name"
            )
    # drivers whose user is not known are not one user's
    for after in newcomer.after if newcomer.uid == NOBODY_UID and not newcomer.outlived else ():
        if after.up and jobs.first(newcomer, after) != after.application:
            raise BadInput(
                f"spark.pace.after {after}: no one vouches for this job's user, and a name means a service of the same user; "
                "give the service's id, or submit with a user's own token (`sparkpace token --user NAME`)"
            )
    # an application of its own name that is there already is an earlier one
    mine = [after for after in newcomer.after if after in unknown or after.application not in newcomer.names]
    for name in newcomer.names:
        check_acyclic(name, mine, jobs.waits(), option="spark.pace.after")


def obstacle(application: Application, jobs: KnownJobs, now_s: float) -> tuple[str, bool]:
    """Return the reason why the application may not start yet, empty if it may or runs already, and whether it never will."""
    return ("", False) if application.life.state is LifeState.RUNNING else jobs.obstacle(application, now_s)

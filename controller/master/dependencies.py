"""Applications that start after others: found by id or name, held back until those have ended (`placement.dependencies`).

A name means the newest job that has it, or was submitted with it, when it is first found; that one is kept to. A job that was
not submitted yet is waited for. The driver of a submission starts only then (`submissions`); an application whose driver was
started otherwise gets no executors before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from controller.master.application import ID, Application, ApplicationRecord
from controller.master.outcome import HowEnded
from placement.dependencies import After, check_acyclic
from stage_model.errors import BadInput
from stage_model.forecast.virtual_time import Forecast
from stage_model.nearest import nearest_names

STARTING_S = 120.0
"""Longest time from the start of a driver to its registration; a loaded machine took 47 s to the first task."""


@dataclass(frozen=True, slots=True)
class Past:
    """An application that ended, of which only this is kept."""

    name: str
    succeeded: bool
    names: tuple[str, ...] = ()


def past_of(record: ApplicationRecord) -> Past:
    """What is kept of it."""
    return Past(record.registration.name, record.outcome is HowEnded.SUCCEEDED, _names(record))


@dataclass(slots=True)
class WaitingJob:
    """A submission whose driver does not run yet; `id` is that of the submission. `started_s` (of its clock: its submission),
    `due_s` (the end that was asked for), `heard_s` and `let_go_s` (since then its driver may start) are monotonic seconds.
    `pipeline` is None without an end for the whole; `ended`: it will not start, for the reason in `held_back`."""

    id: str
    name: str
    uid: int
    after: tuple[After, ...]
    started_s: float
    due_s: float | None
    priority: int
    pipeline: str | None
    forecast: Forecast | None
    heard_s: float
    comes_after: dict[str, str] = field(default_factory=dict)
    held_back: str = ""
    let_go_s: float | None = None
    ended: bool = False
    attached: bool = False
    """It never is: drivers of attached applications wait for none."""


Job = Application | WaitingJob


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """All that a job may come after: `applications` by id, what is left of `past` ones, and the `waiting` by submission. The
    master began at `begun_s`."""

    applications: Mapping[str, Application]
    past: Mapping[str, Past]
    waiting: Mapping[str, WaitingJob]
    begun_s: float

    def find(self, word: str, but: str = "") -> str:
        """Id of the application, or the submission that waits, with that id, else of the newest with that name or submission,
        except for the one that asks, `but`; empty if there is none."""
        if word in self.applications or word in self.past or word in self.waiting:
            return word
        named = [past_id for past_id, one in self.past.items() if word in one.names]
        named += [one.id for one in self.applications.values() if word in _names(one.record) and one.id != but]
        named += [job.id for job in self.waiting.values() if word == job.name and job.id != but and not job.ended]
        return named[-1] if named else ""

    def first(self, after: After, comes_after: Mapping[str, str], but: str = "") -> str:
        """Id of what somebody comes `after`; `comes_after` has those that were found before, by name. Empty if it was not
        submitted yet."""
        found_before = comes_after.get(after.application, "")
        return self.find(found_before or after.application, but) or found_before

    def ended(self, first_id: str, now_s: float) -> bool:
        """One that is not known may come yet where the master has just started."""
        if (first := self.applications.get(first_id)) is not None:
            return first.finished
        if (job := self.waiting.get(first_id)) is not None:
            return job.ended
        return first_id in self.past or now_s - self.begun_s >= STARTING_S

    def succeeded(self, first_id: str) -> bool:
        first = self.applications.get(first_id) or self.past.get(first_id)
        return first is not None and first.succeeded

    def label(self, first_id: str) -> str:
        """The id, and the name where it is known."""
        first = self.applications.get(first_id) or self.past.get(first_id) or self.waiting.get(first_id)
        return f"{first_id} ({first.name if first is not None else 'its record is gone'})"

    def obstacle(
        self, after: Iterable[After], comes_after: dict[str, str], but: str, now_s: float, *, outlived: bool = False
    ) -> tuple[str, bool]:
        """The reason why a job may not start yet, empty if it may, and whether it never will. Notes in `comes_after` what is
        found. One that has `outlived` the master's memory runs already, so what it came after has ended."""
        reason = ""
        for one in after:
            first_id = self.first(one, comes_after, but)
            if not first_id:
                reason = reason if outlived else f"it comes after {one.application!r}, which was not submitted yet"
                continue
            comes_after[one.application] = first_id
            if not self.ended(first_id, now_s):
                reason = f"it comes after {self.label(first_id)}, which has not ended"
            elif one.success and not self.succeeded(first_id):
                return f"it comes after the success of {self.label(first_id)}, which did not succeed", True
        return reason, False


NEWEST = 100
"""Applications whose ids are compared with one that is not known: comparing thousands would keep others waiting."""


def check_dependencies(newcomer: Job, jobs: KnownJobs) -> None:
    """Raises `BadInput` for an id that is not known, or if the newcomer would wait for itself: what it comes after may be
    submitted later, by name."""
    if isinstance(newcomer, WaitingJob):
        names, asked, found, outlived = (newcomer.name,), newcomer.after, newcomer.comes_after, False
    else:
        names, asked = _names(newcomer.record), newcomer.options.placement.after
        found, outlived = newcomer.record.comes_after, newcomer.record.outlived
    unknown = [after for after in asked if not jobs.first(after, found, newcomer.id)]
    for after in unknown:
        if not outlived and ID.fullmatch(after.application):
            raise BadInput(
                f"spark.pace.after {after}: no such application is known here; "
                f"{nearest_names(after.application, list(jobs.applications)[-NEWEST:])}, or give a name"
            )
    # one of its own name that is there already is an earlier one
    mine = [after for after in asked if after in unknown or after.application not in names]
    known = dict(_waits(jobs, newcomer.id))
    for name in names:
        check_acyclic(name, mine, known, option="spark.pace.after")


def _waits(jobs: KnownJobs, but: str) -> Iterator[tuple[str, list[After]]]:
    """By name and id, what each job that waits comes after and was not found yet."""
    for one in jobs.applications.values():
        if one.held_back and not one.ended:
            left = [after for after in one.options.placement.after if after.application not in one.record.comes_after]
            yield from ((name, left) for name in (*_names(one.record), one.id))
    for job in jobs.waiting.values():
        if job.id != but and job.let_go_s is None:
            left = [after for after in job.after if after.application not in job.comes_after]
            yield from ((name, left) for name in (job.name, job.id))


def settle(application: Application, jobs: KnownJobs, now_s: float) -> bool:
    """Says in `held_back` why it may not start yet, empty if it may; True if it never will."""
    application.held_back = ""
    if any(executor.ran for executor in application.executors.values()):
        return False
    record, asked = application.record, application.options.placement.after
    application.held_back, never = jobs.obstacle(asked, record.comes_after, application.id, now_s, outlived=record.outlived)
    return never


def predecessors(job: Job, jobs: KnownJobs) -> list[str]:
    """The ids of what it comes after, as far as they are known by now."""
    if isinstance(job, WaitingJob):
        asked, found = job.after, job.comes_after
    else:
        asked, found = job.options.placement.after, job.record.comes_after
    first = (jobs.first(after, found, job.id) for after in asked)
    return [first_id for first_id in first if first_id]


def _names(record: ApplicationRecord) -> tuple[str, ...]:
    """All that an application is found by besides its id: its names, and its submission if that one waited for others."""
    waited = record.options.waited
    return record.names if waited is None else (*record.names, waited)

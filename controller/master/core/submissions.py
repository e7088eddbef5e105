"""Submissions that come after others: each one asks whether its driver may start, until it may or never will.

A submission is kept in memory for as long as it asks: after a restart of the master it sends all of its data again.
"""

from __future__ import annotations

from controller.master.core.dependencies import STARTING_S, WaitingJob, check_dependencies
from controller.master.core.registry import Registry
from controller.wire.command import SUBMISSION_ID, ApplicationView, StartReply, StartRequest
from controller.wire.states import ApplicationState
from placement.dependencies import parse_after
from stage_model.errors import BadInput, Unavailable
from stage_model.forecast.virtual_time import Forecast

SILENT_S = 30.0
"""A submission that has not asked for this long has gone."""
MOST_WAITING = 1000
"""Most submissions that wait: each looks for what it comes after every few seconds."""


class Submissions:
    def __init__(self, registry: Registry) -> None:
        self.registry, self.waiting = registry, registry.waiting

    def take(self, submission: str, asked: StartRequest, forecast: Forecast | None, uid: int, now_s: float) -> None:
        """Take in a submission of that user which brings its plan, made with that forecast. Raise `BadInput` for a submission
        that cannot come after another one, `Unavailable` where too many wait."""
        assert asked.plan is not None
        job = WaitingJob.of(asked.plan, forecast, uid, now_s - asked.elapsed_s)
        job.id, job.name, job.comes_after, job.heard_s = submission, asked.name, dict(asked.comes_after), now_s
        if not SUBMISSION_ID.fullmatch(job.id):
            raise BadInput(f"submission {job.id[:80]!r} is not usable; it must be a UUID")
        if len(self.waiting) >= MOST_WAITING:
            raise Unavailable(f"{MOST_WAITING} submissions wait for others; submit this one again once some have started")
        check_dependencies(job, self.registry.jobs)
        self.waiting[job.id] = job

    def answer(self, submission: str, now_s: float) -> StartReply:
        """Return whether the driver of a submission may start."""
        job = self.waiting.get(submission)
        if job is None:
            return StartReply(known=False)
        job.heard_s = now_s
        if job.let_go_s is None and not job.ended:
            job.held_back, job.ended = self.registry.jobs.obstacle(job, now_s)
            if not job.held_back:
                job.let_go_s = now_s
        addresses = dict[str, str]() if job.held_back else self.registry.jobs.addresses(job.after, job.uid)
        return StartReply(reason=job.held_back, never=job.ended, comes_after=job.comes_after, addresses=addresses)

    def addresses(self, after: str, uid: int) -> dict[str, str]:
        """Return the addresses of the services among what a job of that user comes after, by the words that asked for them.
        Raise `BadInput` for words that cannot be read."""
        return self.registry.jobs.addresses(parse_after(after), uid)

    def end(self, submission: str, why: str) -> bool:
        """Keep the driver of a waiting submission from ever starting; return False without such a submission. A clause says
        why."""
        job = self.waiting.get(submission)
        if job is None:
            return False
        if not job.ended:
            job.let_go_s, job.ended, job.held_back = None, True, why
        return True

    def forget(self, now_s: float) -> None:
        """Drop submissions that no longer ask, and submissions whose drivers had the time to register."""
        for job in list(self.waiting.values()):
            gone = job.let_go_s is None and now_s - job.heard_s > SILENT_S
            if gone or (job.let_go_s is not None and now_s - job.let_go_s > STARTING_S):
                del self.waiting[job.id]

    def views(self, now_s: float) -> list[ApplicationView]:
        """Return the views of submissions that wait, or never start; not of those whose drivers are about to register."""
        return [self._view(job, now_s) for job in self.waiting.values() if job.let_go_s is None]

    def view(self, submission: str, now_s: float) -> ApplicationView | None:
        """Return the view of a submission; None where no such submission waits."""
        job = self.waiting.get(submission)
        return None if job is None or job.let_go_s is not None else self._view(job, now_s)

    def _view(self, job: WaitingJob, now_s: float) -> ApplicationView:
        """Return a view whose application id is that of the submission."""
        return ApplicationView(
            application_id=job.id,
            name=job.name,
            state=ApplicationState.ENDED if job.ended else ApplicationState.WAITING,
            law="",
            priority=job.priority,
            submission=job.id,
            deadline_s=None if job.due_s is None else round(job.due_s - job.started_s, 3),
            elapsed_s=round(now_s - job.started_s, 3),
            pipeline=job.pipeline or "",
            reason=job.held_back,
            finished=job.ended,
        )

"""People's requests to the master: what runs and why there, another deadline or priority, other labels, an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from controller.master.application import ID, Application
from controller.master.change import change, check_claim, claim_after
from controller.master.explanation import explanation
from controller.master.finish import stage_spans
from controller.master.guard import guarded
from controller.master.lifecycle import Lifecycle
from controller.master.off_loop import OffLoop
from controller.master.registry import AT_A_TIME, Registry
from controller.master.storage.recorder import Recorder
from controller.master.submissions import Submissions
from controller.master.view import application_view, bare_view
from controller.runs.course import ended_runs, read_course
from controller.wire.command import ApplicationView, Change, Explanation
from controller.wire.course import Course, EndedRun
from controller.wire.states import Outcome
from placement.topology import Topology
from stage_model.errors import BadInput, NotStored


class Commands:
    """The commands of people. Each raises `BadInput` for an application or a worker that is not known."""

    def __init__(self, registry: Registry, lifecycle: Lifecycle, recorder: Recorder, submissions: Submissions) -> None:
        self.registry, self.lifecycle, self.recorder, self.submissions = registry, lifecycle, recorder, submissions

    # ------------------------------------------------------------------ what is shown

    async def views(self, now_s: float) -> list[ApplicationView]:
        """Return the views of all applications; other tasks have their turn in between."""
        found = []
        for number, application in enumerate(list(self.registry.applications.values()), 1):
            found.append(self._view(application, now_s))
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
        return found + self.submissions.views(now_s)

    def view(self, application_id: str, now_s: float) -> ApplicationView:
        """Return the view of an application. Raise `BadInput` for an unknown one."""
        if (waiting := self.submissions.view(application_id, now_s)) is not None:
            return waiting
        return self._view(self.registry.known(application_id), now_s)

    def _view(self, application: Application, now_s: float) -> ApplicationView:
        with guarded(application, "showing it"):
            position = self.lifecycle.placing.queue.position(application)
            return application_view(application, f"{self.recorder.runs}/{application.id}", now_s, position)
        return bare_view(application)

    def explain(self, application_id: str, now_s: float) -> Explanation:
        """Return for every worker why the application's next executor would go there or not. Raise `BadInput`."""
        application = self.registry.known(application_id)
        return explanation(application, self.lifecycle.placing, now_s)

    async def course(
        self, application_id: str, samples: int, quotas: int, since_s: float, off_loop: OffLoop = asyncio.to_thread
    ) -> Course:
        """Return the course of an application, also where only its run folder is left."""
        application = self.registry.applications.get(application_id)
        folder = self.recorder.folder(application_id)
        if application is None and not (ID.fullmatch(application_id) and folder.is_dir()):
            raise BadInput(
                f"no application or run {application_id!r:.80} is known; try one of `sparkpace ps` once its driver runs"
            )
        spans = None if application is None or application.finished else stage_spans(application)
        return await off_loop(lambda: read_course(folder, samples, quotas, since_s, spans))

    async def ended_runs(self, off_loop: OffLoop = asyncio.to_thread) -> tuple[EndedRun, ...]:
        return await off_loop(lambda: ended_runs(self.recorder.runs))

    # ------------------------------------------------------------------ what is changed

    def kill(self, application_id: str, now_s: float) -> None:
        """End an application, also where that cannot be stored yet; its driver learns of it with its next sync. An
        application that has ended stays as it is. A submission whose driver has not started ends, too."""
        if self.submissions.end(application_id, "it was killed"):
            return
        application = self.registry.known(application_id)
        if not application.ended:
            with self.lifecycle.changing(now_s):
                self.registry.end(application, now_s, Outcome.KILLED)

    def driver_ended(self, submission: str, exit_code: int, now_s: float) -> None:
        """Keep the exit code of a submission's driver for each of its applications whose outcome is still open. A second call
        changes nothing. Raise `NotStored`; the caller should then call again."""
        with self.lifecycle.changing(now_s):
            for application in self.registry.applications.values():
                if application.options.submission == submission and not application.judged:
                    application.record.exit_code = exit_code
                    self.registry.save(application)
        if self.registry.store.failing:
            raise NotStored(self.registry.store.failing)

    async def change(
        self, application_id: str, asked: Change, clock: Callable[[], float], off_loop: OffLoop = asyncio.to_thread
    ) -> None:
        """Do what `sparkpace set` asks. Raise `BadInput`, `InfeasibleDeadline` and `NotStored`; then nothing has changed."""
        if asked == Change(force=asked.force):  # also where all that it says is unknown here
            raise BadInput("nothing to change was given; give deadline_s, no_deadline, priority or labels")
        async with self.registry.promising:
            now_s = clock()
            application = self.registry.known(application_id)
            most = self.registry.workers.capacity(application, now_s)
            # a new priority by itself is never refused: it helps a job that would be late
            if asked.deadline_s is not None and not asked.force and (claim := claim_after(application, asked, most, now_s)):
                others, elapsed_s = await self.registry.promised(now_s, but=application_id), application.elapsed_s(now_s)
                await off_loop(lambda: check_claim(claim, others, most, elapsed_s))
                now_s = clock()
            with self.lifecycle.changing(now_s) as changes:
                change(application, asked, most, now_s, self.registry.keep)
                changes.application(application)
                changes.room()

    def label(self, worker_id: str, changes: Mapping[str, str | None], now_s: float) -> Mapping[str, str]:
        """Change labels of a worker, which count at once for applications that wait; return all it has. Raise `BadInput`."""
        with self.lifecycle.changing(now_s) as noted:
            labels = self.registry.workers.relabel(worker_id, changes)
            noted.room()
        return labels

    def locate_by(self, topology: Topology, now_s: float) -> None:
        """Take another topology, which counts from now on."""
        with self.lifecycle.changing(now_s) as changes:
            self.lifecycle.placing.locate_by(topology)
            changes.room()

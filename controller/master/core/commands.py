"""People's requests to the master: what runs and why there, another deadline or priority, other labels, an end."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from msgspec import structs

from controller.master.core.application import Application
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.capacity import Capacity
from controller.master.core.guard import guarded
from controller.master.core.hosting import Hosting
from controller.master.core.placing import Placing
from controller.master.core.registry import AT_A_TIME, Registry
from controller.master.core.set_command import change, claim_after
from controller.master.core.submissions import Submissions
from controller.master.core.view import application_view, bare_view, explanation
from controller.master.core.workers import Labels
from controller.wire.command import ApplicationView, Change, Explanation
from controller.wire.states import Outcome
from placement.topology import Topology
from stage_model.errors import BadInput
from stage_model.forecast.promises import Claim
from stage_model.units import parse_priority


class Commands:
    """The commands of people. Each raises `BadInput` for an application or a worker that is not known. Run folders are in
    `runs`, by the ids of applications."""

    def __init__(self, registry: Registry, placing: Placing, submissions: Submissions, hosting: Hosting, runs: str) -> None:
        self.registry, self.placing, self.submissions, self.hosting = registry, placing, submissions, hosting
        self.runs = runs

    def views(self, now_s: float) -> Generator[None, None, list[ApplicationView]]:
        """Return the views of all applications. The work pauses where other work may have its turn."""
        found = []
        for number, application in enumerate(list(self.registry.applications.values()), 1):
            found.append(self._view(application, now_s))
            if number % AT_A_TIME == 0:
                yield
        return found + self.submissions.views(now_s)

    def view(self, application_id: str, now_s: float) -> ApplicationView:
        if (waiting := self.submissions.view(application_id, now_s)) is not None:
            return waiting
        return self._view(self.registry.known(application_id), now_s)

    def _view(self, application: Application, now_s: float) -> ApplicationView:
        with guarded(application, "showing it"):
            position = self.placing.queue.position(application)
            view = application_view(application, f"{self.runs}/{application.id}", now_s, position)
            share = None if application.ended else self.registry.shares.shown(application.uid, now_s)
            return view if share is None else structs.replace(view, share=share)
        return bare_view(application)

    def explain(self, application_id: str, now_s: float) -> Explanation:
        """Return for every worker why the application's next executor would go there or not. Raise `BadInput`."""
        return explanation(self.registry.known(application_id), self.placing, now_s)

    # ------------------------------------------------------------------ what is changed

    def kill(self, application_id: str, now_s: float) -> None:
        """End an application; its driver learns of it with its next sync. An application that has ended stays as it is. A
        submission whose driver has not started ends, too. A hosted driver is not started again."""
        if not self.submissions.end(application_id, "it was killed"):
            application = self.registry.known(application_id)
            if not application.ended:
                self.hosting.kill_with(application)
            self.registry.end(application, now_s, Outcome.KILLED)

    def driver_ended(self, submission: str, exit_code: int) -> None:
        """Keep the exit code of a submission's driver for each of its applications whose outcome is still open."""
        self.hosting.driver_ended(submission, exit_code)
        for application in self.registry.applications.values():
            if application.options.submission == submission and not application.judged:
                application.record.exit_code = exit_code
                self.registry.save(application)

    def claim(self, application: Application, asked: Change, now_s: float) -> tuple[Claim, Capacity] | None:
        """Return the claim of a change that is to be judged, and the most that the application can get; None where there is
        nothing to judge: a new priority by itself is refused only if it is over the highest of its user, because it helps a
        job that would be late. Raise `BadInput` for a change that cannot be, `InfeasibleDeadline` for a deadline that the
        share of its user does not allow."""
        if asked == Change(force=asked.force):  # also where all that it says is unknown here
            raise BadInput("nothing to change was given; give deadline_s, no_deadline, priority or labels")
        shares, uid = self.registry.shares, application.uid
        if asked.priority is not None:
            shares.check_priority(uid, parse_priority(asked.priority))
        most = self.registry.workers.capacity(application, now_s)
        judged = asked.deadline_s is not None and (shares.limited or not asked.force)
        claim = claim_after(application, asked, most, now_s) if judged else None
        if claim is not None and shares.limited:
            shares.check_deadline(uid, claim, most.cores, now_s, held=shares.cores(application, now_s))
        return None if claim is None or asked.force else (claim, most)

    def change(self, application: Application, record: ApplicationRecord | None, now_s: float) -> None:
        """Do what `sparkpace set` asks; `record`, the `changed_record`, is stored. None: nothing changes."""
        if record is not None:
            change(application, record, now_s)
        self.registry.changes.application(application)
        self.registry.changes.room()

    def relabel(self, worker_id: str, labels: Labels) -> Mapping[str, str]:
        """Take `Workers.relabelled` labels, which are stored and count at once for applications that wait; return all that
        the worker has."""
        self.registry.changes.room()
        return self.registry.workers.relabel(worker_id, labels)

    def end_worker(self, worker_id: str) -> None:
        self.registry.workers.end(worker_id)
        self.registry.changes.log(f"worker {worker_id} is to end")

    def locate_by(self, topology: Topology) -> None:
        """Take another topology, which counts from now on."""
        self.placing.states.locate_by(topology)
        self.registry.changes.room()

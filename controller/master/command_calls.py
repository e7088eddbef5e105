"""People's calls: they go into the core (`core.commands`) once what must be is stored or judged; run folders are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from controller.master.admitting import Admitting
from controller.master.core import commands
from controller.master.core.application_record import ID
from controller.master.core.promised import promised
from controller.master.core.run_ending import stage_spans
from controller.master.core.set_command import changed_record, check_claim
from controller.master.off_loop import OffLoop, in_turns
from controller.master.outside import Outside
from controller.runs.run_folders import ended_runs, read_course
from controller.runs.watched_runs import NewestSavings
from controller.wire.command import ApplicationView, Change
from controller.wire.course import Course, EndedRun, SavingsReply
from placement.topology import Topology
from stage_model.errors import BadInput, NotStored


class CommandCalls:
    """The commands of people. Each raises `BadInput` for an application or a worker that is not known."""

    def __init__(self, core: commands.Commands, admission: Admitting, outside: Outside) -> None:
        self.core, self.admission, self.outside = core, admission, outside
        self._savings = NewestSavings(outside.recorder.runs, admission.profiles)
        self._working_out = asyncio.Lock()

    # ------------------------------------------------------------------ what is shown

    async def views(self, now_s: float) -> list[ApplicationView]:
        """Return the views of all applications; other tasks have their turn in between."""
        return await in_turns(self.core.views(now_s))

    async def course(self, application_id: str, samples: int, quotas: int, since_s: float) -> Course:
        """Return the course of an application, also where only its run folder is left."""
        application = self.core.registry.applications.get(application_id)
        folder = self.outside.recorder.folder(application_id)
        if application is None and not (ID.fullmatch(application_id) and folder.is_dir()):
            raise BadInput(
                f"no application or run {application_id!r:.80} is known; try one of `sparkpace ps` once its driver runs"
            )
        spans = None if application is None or application.finished else stage_spans(application)
        return await asyncio.to_thread(read_course, folder, samples, quotas, since_s, spans)

    async def ended_runs(self) -> tuple[EndedRun, ...]:
        return await asyncio.to_thread(ended_runs, self.outside.recorder.runs)

    async def savings(self, off_loop: OffLoop = asyncio.to_thread) -> SavingsReply:
        """Return the savings of the newest watched runs, worked out for one caller at a time."""
        async with self._working_out:
            return await off_loop(self._savings.find)

    # ------------------------------------------------------------------ what is changed

    def kill(self, application_id: str, now_s: float) -> None:
        """End an application (`Commands.kill`), also where that cannot be stored yet."""
        with self.outside.changing(now_s):
            self.core.kill(application_id, now_s)

    def driver_ended(self, submission: str, exit_code: int, now_s: float) -> None:
        """Keep a driver's exit code (`Commands.driver_ended`). Raise `NotStored`; the caller should then call again."""
        with self.outside.changing(now_s):
            self.core.driver_ended(submission, exit_code)
        if self.outside.store.failing:
            raise NotStored(self.outside.store.failing)

    async def change(
        self, application_id: str, asked: Change, clock: Callable[[], float], off_loop: OffLoop = asyncio.to_thread
    ) -> None:
        """Do what `sparkpace set` asks. Raise `BadInput`, `InfeasibleDeadline` and `NotStored`; then nothing has changed."""
        async with self.admission.promising:
            now_s, registry = clock(), self.core.registry
            application = registry.known(application_id)
            to_judge = self.core.claim(application, asked, now_s)
            if to_judge is not None:
                (claim, most), elapsed_s = to_judge, application.elapsed_s(now_s)
                others = await in_turns(promised(registry, now_s, but=application_id))
                await off_loop(lambda: check_claim(claim, others, most, elapsed_s))
                now_s = clock()
            with self.outside.changing(now_s):
                record = changed_record(application, asked, now_s)
                if record is not None:
                    self.outside.store_application(record)
                self.core.change(application, record, now_s)

    def label(self, worker_id: str, changes: Mapping[str, str | None], now_s: float) -> Mapping[str, str]:
        """Change labels of a worker, which count at once for applications that wait; return all labels of the worker. Raise
        `BadInput` for an unknown worker or an impossible label, `NotStored`; then nothing has changed."""
        with self.outside.changing(now_s):
            labels = self.core.registry.workers.relabelled(worker_id, changes)
            self.outside.store_labels(labels)
            return self.core.relabel(worker_id, labels)

    def end_worker(self, worker_id: str, now_s: float) -> None:
        """Have the agent of a worker end, on whichever machine; the agent learns of this with its next report. Raise
        `BadInput`."""
        with self.outside.changing(now_s):
            self.core.end_worker(worker_id)

    def locate_by(self, topology: Topology, now_s: float) -> None:
        with self.outside.changing(now_s):
            self.core.locate_by(topology)

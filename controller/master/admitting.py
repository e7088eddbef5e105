"""The shell of admission: the core judges (`core.admission`); profiles are read and deadlines judged off the loop."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable
from datetime import datetime

from controller.machine.local_zone import local_zone
from controller.master.core.admission import Admission
from controller.master.core.application import Application
from controller.master.core.arrival import Arrival, make_application, new_record
from controller.master.core.plan_reply import plan_reply
from controller.master.core.promised import check_feasible, promised
from controller.master.core.submissions import Submissions
from controller.master.off_loop import OffLoop, in_turns
from controller.master.profiles import look_up, profile_of
from controller.runs.profile_store import ProfileStore
from controller.wire.command import PlanReply, PlanRequest, StartReply, StartRequest
from controller.wire.driver import NOBODY_UID, Registration


class Admitting:
    def __init__(self, core: Admission, submissions: Submissions, profiles: ProfileStore) -> None:
        self.core, self.registry, self.submissions, self.profiles = core, core.registry, submissions, profiles
        self.promising = asyncio.Lock()
        """A lock that is held while a deadline is judged alongside the promises, until it is one of them or is refused."""

    async def admit(
        self, registration: Registration, token_hash: str, clock: Callable[[], float], off_loop: OffLoop
    ) -> Application:
        """Return the application of a registration, which is not in the registry yet. The caller holds `promising`. Raise
        `BadInput` and `InfeasibleDeadline`."""
        local = datetime.now(local_zone(os.environ))
        arrival = Arrival(new_id(), token_hash, time.time(), local, clock())
        boot_id, observe = self.registry.life.boot_id, self.core.observe
        record = new_record(registration, arrival, boot_id, self.core.default_law, observe=observe)
        started_s, untaught, outlived = record.started_monotonic_s, self.registry.untaught, record.outlived
        application = await off_loop(
            lambda: make_application(record, look_up(record, self.profiles), untaught, started_s, clock(), restored=outlived)
        )
        now_s = clock()
        most = self.core.check(application, now_s)
        if most is not None:
            offers = self.core.offers(application, now_s)
            others = await in_turns(promised(self.registry, now_s, attached=application.attached))
            needed = await off_loop(lambda: check_feasible(application, most, now_s, others, offers))
            if needed is not None:
                self.core.ask(application, *needed, now_s)
        return application

    async def plan(self, request: PlanRequest, now_s: float, uid: int = NOBODY_UID) -> PlanReply:
        """Return feasibility, cores and the least possible deadline of a profile on this cluster as it is, alongside the
        other jobs of a pipeline of `uid`'s. Raise `BadInput`, and `InfeasibleDeadline` for what the share of `uid` does not
        allow."""
        reply = await self._planned(request, now_s, uid)
        self.core.check_share(request, reply, uid, now_s)
        return reply

    async def _planned(self, request: PlanRequest, now_s: float, uid: int) -> PlanReply:
        cluster = self.core.check_plan(request, now_s)
        others = await in_turns(promised(self.registry, now_s, attached=request.attached))

        def planned() -> PlanReply:
            profile = profile_of(request, self.profiles)
            return plan_reply(request, profile, cluster, others, () if profile else self.profiles.list())

        return self.core.with_pipeline(request, await asyncio.to_thread(planned), uid, now_s)

    async def ask(self, submission: str, asked: StartRequest, uid: int, clock: Callable[[], float]) -> StartReply:
        """Answer whether the driver of a submission of that user may start. Raise `BadInput` for a submission that cannot be
        planned, or cannot come after another one, `Unavailable` where too many wait."""
        if asked.plan is not None:
            plan = await self._planned(asked.plan, clock(), uid)
            self.submissions.take(submission, asked, plan.forecast, uid, clock())
        return self.submissions.answer(submission, clock())


def new_id() -> str:
    return f"pace-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"

"""The judgement of what asks to be admitted, on the cluster as it is: executors that fit, limits of users.

`arrival` checks a registration by itself, and `promised` judges a deadline alongside others. The shell
reads the profile in between (`controller.master.admitting`)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.master.core.application import Application
from controller.master.core.capacity import Capacity
from controller.master.core.dependencies import WaitingJob, check_dependencies
from controller.master.core.feasibility import Offer
from controller.master.core.fitting import check_executors, check_memory, check_working_dir, needed_by
from controller.master.core.growing import Growing
from controller.master.core.pipelines import Pipelines
from controller.master.core.placing import Placing
from controller.master.core.plan_reply import ClusterNow, planned_capacity
from controller.master.core.promised import claim_of, to_be_judged
from controller.master.core.registry import Registry
from controller.master.core.share_rules import LOWEST
from controller.wire.command import PlanReply, PlanRequest
from controller.wire.driver import NOBODY_UID, ExecutorWish
from controller.wire.worker import WorkerInfo
from stage_model.forecast.promises import Claim
from stage_model.units import NORMAL_PRIORITY


class Admission:
    """The checks, on the cluster as it is. `default_law` is that of applications that name none; `observe`: every application
    is only watched, so a deadline is refused only by a user's limits. `growing` is the part that starts workers, if there is
    one."""

    def __init__(
        self, registry: Registry, placing: Placing, pipelines: Pipelines, default_law: str, *, observe: bool = False
    ) -> None:
        self.registry, self.placing, self.pipelines = registry, placing, pipelines
        self.default_law, self.observe = default_law, observe
        self.growing: Growing | None = None

    def check(self, application: Application, now_s: float) -> Capacity | None:
        """Check all but the deadline of an application that is not in the registry yet; of the deadline, only what its user's
        share says. Return the most that it can get if its deadline is to be judged by that; else None. Raise `BadInput` and
        `InfeasibleDeadline`."""
        check_dependencies(application, self.registry.jobs)
        shares = self.registry.shares
        shares.admit_priority(application)
        if application.outlived:  # how much of a running application is done is not known
            return None
        if not application.attached:
            check_executors(application, self.placing, self.growing, now_s)
            wanted = application.placement.wanted or {"0": ExecutorWish()}
            for name, wish in wanted.items() if shares.limited else ():
                shares.check_executor(application, self.placing.most_mb(application, name, wish))
        self.pipelines.admit(application, now_s)
        most = self.registry.workers.capacity(application, now_s)
        judged = shares.limited and not application.options.observe
        if judged and (claim := claim_of(application, most, now_s)) is not None:
            shares.check_deadline(application.uid, claim, most.cores, now_s)
        return most if to_be_judged(application, most) else None

    def check_plan(self, request: PlanRequest, now_s: float) -> ClusterNow:
        """Return the cluster that a plan counts on. Raise `BadInput` for a submission that could not run there."""
        grows = self.growing is not None and not request.attached
        workers = self.registry.workers.expected(now_s, adopts=request.attached)
        if request.working_dir is not None and not request.attached:
            check_working_dir(request.working_dir, workers)
        if request.conf is not None and not request.attached:
            # for an executor that is too large for all workers, another worker may be started
            check_memory(request.conf, ExecutorWish(), "0", [] if grows else workers, python=request.python)
        offer = self._offer_for(request, workers, now_s) if grows else None
        return ClusterNow(workers, grows, self.default_law, dict(self.registry.untaught), offer)

    def _offer_for(self, request: PlanRequest, workers: Sequence[WorkerInfo], now_s: float) -> Offer | None:
        """Return the further workers that could be started for the deadline of a job to come; None where none may be."""
        asks = request.deadline_s is not None and request.priority > LOWEST and not self._watches(request)
        if self.growing is None or not asks or not workers or not self.registry.workers.all_heard(now_s):
            return None
        return self.growing.deadlines.offer_for(
            request.priority,
            lambda cores: needed_by(request, cores),
            lambda further: planned_capacity(request, [*workers, *further]),
            now_s,
        )

    def offers(self, application: Application, now_s: float) -> list[Offer]:
        """Return the further workers that could be started for the deadline of an application that is not in the registry
        yet, as `DeadlineGrowth.offers` has them."""
        return [] if self.growing is None else self.growing.deadlines.offers(application, now_s)

    def ask(self, application: Application, offer: Offer, number: int, now_s: float) -> None:
        """Have the first `number` of the offered workers started for the application. Raise `InfeasibleDeadline` where the
        share of its user does not allow their cores."""
        shares, grown = self.registry.shares, offer.grown[number - 1]
        if shares.limited and (claim := claim_of(application, grown, now_s)) is not None:
            shares.check_deadline(application.uid, claim, grown.cores, now_s)
        if self.growing is not None:
            self.growing.deadlines.ask(application, offer, number, now_s)

    def check_share(self, request: PlanRequest, reply: PlanReply, uid: int, now_s: float) -> None:
        """Raise `BadInput` and `InfeasibleDeadline` for a plan that the share of `uid` does not allow. Normal priority may
        not have been named, and the user may be unknown: the registration judges both."""
        if uid == NOBODY_UID or request.most_cores is not None:
            return
        if request.priority != NORMAL_PRIORITY:
            self.registry.shares.check_priority(uid, request.priority)
        if reply.forecast is not None and request.deadline_s is not None and not self._watches(request):
            claim = Claim(reply.forecast, request.deadline_s, request.priority)
            self.registry.shares.check_deadline(uid, claim, reply.cluster_cores, now_s)

    def _watches(self, request: PlanRequest) -> bool:
        """Return True if the job would only be watched."""
        return request.observe or (self.observe and request.submits is not None)

    def with_pipeline(self, request: PlanRequest, reply: PlanReply, uid: int, now_s: float) -> PlanReply:
        """Return a plan alongside the other jobs of a pipeline of `uid`'s. A submission gets no verdict on its deadline where
        every application is only watched."""
        if self.observe and request.submits is not None:
            return msgspec.structs.replace(reply, feasible=None)
        if reply.forecast is None:
            return reply
        reason = self.pipelines.refusal(WaitingJob.of(request, reply.forecast, uid, now_s), now_s)
        return msgspec.structs.replace(reply, feasible=False, reason=reason) if reason else reply

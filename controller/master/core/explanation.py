"""The answer to `sparkpace explain`: why an application's executors are where they are, and where the next one would go. The
reason why a run was late is `lateness`'s."""

from __future__ import annotations

from controller.master.core.application import Application
from controller.master.core.findings import basis_of, bounds_of
from controller.master.core.placing import Placing
from controller.wire.command import Explanation, Refusal, WorkerExplanation
from controller.wire.driver import ExecutorWish


def explanation(application: Application, placing: Placing, now_s: float) -> Explanation:
    """Return the explanation as of now, for the wish with the lowest profile id."""
    profile_id, wish = min(application.placement.wanted.items(), default=("0", ExecutorWish()))
    request, memory, whys = placing.why(application, profile_id, wish, now_s)
    here: dict[str, list[str]] = {}
    for executor in application.live_executors():
        here.setdefault(executor.record.worker_id, []).append(executor.record.executor_id)
    return Explanation(
        application_id=application.id,
        name=application.name,
        policy=placing.policy_of(application),
        priority=request.priority,
        cores=round(request.cores, 3),
        least_mb=memory.least_mb,
        prefer=dict(request.prefer),
        wanted=wish.count,
        waiting=application.record.end_reason if application.ended else application.placement.waiting,
        workers=tuple(
            WorkerExplanation(
                worker_id=why.worker_id,
                executors=tuple(here.get(why.worker_id, ())),
                refused=tuple(Refusal(filter=name, reason=reason) for name, reason in why.refused),
                scores=why.scores,
                available=why.available,
                free_cores=why.free_cores,
                local=why.local,
                crowded=why.crowded,
                kept=why.kept,
            )
            for why in whys
        ),
        evicted=tuple(
            f"executor {e.record.executor_id} on worker {e.record.worker_id} for {e.record.evicted_for}"
            for e in application.executors.values()
            if e.record.evicted_for
        ),
        basis=application.record.basis or basis_of(application),
        lateness=application.record.lateness,
        untaught=application.record.untaught,
        largest_stages=bounds_of(application),
    )

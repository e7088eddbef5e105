"""The application as people see it: the view that `ps` and the progress line show, a summary of what the master knows now;
and the answer to `sparkpace explain`, why its executors are where they are, and where the next one would go."""

from __future__ import annotations

from msgspec import structs

from controller.master.core.application import Application
from controller.master.core.executor_state import Executor
from controller.master.core.findings import basis_of, bounds_of
from controller.master.core.placing import Placing
from controller.master.core.remaining import Remaining
from controller.wire.command import ApplicationView, Explanation, Refusal, WorkerExplanation
from controller.wire.driver import ExecutorWish
from controller.wire.states import ExecutorState


def application_view(application: Application, run_dir: str, now_s: float, position: int | None = None) -> ApplicationView:
    """Return the view at `now_s` (monotonic seconds); `position` is among the applications that wait for memory."""
    run, target = application.run, application.target()
    running = _running(application)
    active = run.active_stages()
    done = sum(1 for s in run.attempts.values() if s.completed_ms is not None and s.failure is None)
    # one walk: the live page's viewers ask for all applications each second
    demand = granted = used = 0.0
    memory_mb = off_heap_mb = 0
    for executor in running:
        if (report := executor.report) is not None:
            demand += report.demand_cores
            granted += report.quota_cores
            memory_mb += report.memory_limit_mb
            off_heap_mb += report.off_heap_mb or 0
        if executor.sample is not None:
            used += executor.sample.usage or 0.0
    return structs.replace(
        bare_view(application),
        priority=application.priority(),
        deadline_s=None if target is None else round(target.due_s, 3),
        elapsed_s=round(application.elapsed_s(now_s), 3),
        forecast_end_s=_latest_end_s(running),
        stage=active[-1].info.name if active else None,
        stages_done=done,
        stages_total=max(done, len(application.estimate.stages)) if application.estimate else None,
        progress=_progress(application),
        demand_cores=round(demand, 3),
        granted_cores=round(granted, 3),
        used_cores=round(used, 3),
        debt_core_s=round(application.debt_core_s(), 3),
        memory_mb=memory_mb,
        off_heap_mb=off_heap_mb,
        queue_position=position,
        executors=len(running),
        ui_url=application.record.registration.ui_url,
        run_dir=run_dir,
        profile=application.profile_key,
        profile_runs=application.profile_runs,
        reason=_reason(application),
        basis=application.record.basis or basis_of(application),
        lateness=application.record.lateness,
        untaught=application.record.untaught,
    )


def forecast_end_s(application: Application) -> float | None:
    """Return the latest end that its executors' agents expect, seconds after submission; None without a forecast."""
    return _latest_end_s(_running(application))


def demanded_and_granted(application: Application) -> tuple[float, float]:
    """Return the cores that its running executors ask for, and the cores that they have."""
    reports = [executor.report for executor in _running(application) if executor.report is not None]
    return sum(report.demand_cores for report in reports), sum(report.quota_cores for report in reports)


def bare_view(application: Application) -> ApplicationView:
    """Return what can be shown of any application, whatever is wrong with it."""
    pipeline = application.options.pipeline
    return ApplicationView(
        application_id=application.id,
        name=application.name,
        state=application.life.shown,
        law=application.options.law,
        priority=application.options.priority,
        submission=application.options.submission,
        submitted_name=application.record.submitted_name,
        pipeline=pipeline.name if pipeline else "",
        address=application.address,
        reason=application.record.end_reason or "what it does cannot be shown, see the master's log",
        outcome=application.record.outcome,
        notices=tuple(application.notices.lines),
        faults=application.faults,
        finished=application.finished,
    )


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


def _latest_end_s(running: list[Executor]) -> float | None:
    found = [executor.sample.forecast_end_s for executor in running if executor.sample]
    return max((end_s for end_s in found if end_s is not None), default=None)


def _running(application: Application) -> list[Executor]:
    return [e for e in application.present_executors() if e.report and e.report.state is ExecutorState.RUNNING]


def _reason(application: Application) -> str:
    over = "; ".join(filter(None, (application.record.end_reason, application.record.unrecorded)))
    return over if over or application.ended else application.placement.waiting or _starting_reason(application)


def _starting_reason(application: Application) -> str:
    """Return why none of the application's executors has started yet, as far as an agent says."""
    reports = [e.report for e in application.live_executors() if e.report]
    if any(report.state is not ExecutorState.STARTING for report in reports):
        return ""
    return next((report.reason for report in reports if report.reason), "")


def _progress(application: Application) -> float | None:
    """Return expected work done / expected work of the application; None without a profile."""
    if application.ended:
        return 1.0 if application.succeeded and application.estimate is not None else None
    remaining = Remaining.of(application)
    return None if remaining is None else remaining.share_done()

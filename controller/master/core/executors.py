"""The executors of an application: brought to what Spark wants, where `placing` has room for them, and seen to end."""

from __future__ import annotations

from collections import Counter

from controller.master.core.application import Application
from controller.master.core.changes import Changes
from controller.master.core.executor_spec import executor_slots, executor_spec
from controller.master.core.executor_state import Executor, ExecutorRecord
from controller.master.core.placing import Placing
from controller.master.core.registry import Registry
from controller.runtime.base import ExecutorKey
from controller.wire.driver import ExecutorGone, ExecutorWish
from controller.wire.limits import EXECUTORS
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport, WorkerInfo
from placement.plan import Evict, Placed, Squeeze
from placement.resources import find_all

MOST_FAILURES = 10
"""Executors that may fail in a row before the application is ended."""
STEADY_S = 60.0
"""An executor that lived longer than this breaks the row."""


def too_many_failures(application: Application) -> str:
    """Return the reason why the application must be ended; empty if it need not."""
    if application.placement.failures_in_a_row <= MOST_FAILURES:
        return ""
    logs = next((e.record.log_dir for e in reversed(application.executors.values()) if e.record.log_dir), "")
    last = next((e.record.gone.reason for e in reversed(application.executors.values()) if e.record.gone), "")
    return f"{application.placement.failures_in_a_row} executors failed in a row (the last one: {last}), see {logs}/stderr"


def reconcile(application: Application, registry: Registry, placing: Placing, obstacle: str, now_s: float) -> bool:
    """Bring the executors to what Spark wants, one per worker at most; return True if the application has as many as that.
    `obstacle` is the reason why it is held back, if it is. Executors of an attached application are not ours to bring
    about."""
    if application.attached:
        return True
    for executor_id in application.placement.unwanted:
        executor = application.executors.get(executor_id)
        if executor and executor.live and not executor.record.planned_end:
            executor.record.planned_end = True
            registry.save_executor(application, executor)
    # the rules for packets are settled before an executor starts; this takes Spark some 0.1 s
    opening = application.record.registration.ports == () and any(
        info.own_networks for info in registry.workers.starting(now_s).values()
    )
    application.placement.waiting = obstacle or ("its driver is opening its ports" if opening else "")
    if opening:
        return False
    if not application.held_back:
        for profile_id, wish in sorted(application.placement.wanted.items()):
            _add_missing(application, profile_id, wish, registry, placing, now_s)
    if application.held_back or application.placement.over_share:
        application.placement.keep_none()
        application.placement.infeasible = None
    if application.placement.waiting and application.stream.first_task_ms is None:
        application.placement.waited_for = application.placement.waiting
    position = placing.queue.position(application)
    # for the terminal of a stock spark-submit; `submit` says it from the view
    if position is not None and application.placement.waiting and application.options.submission is None:
        application.notify(f"waits, place {position}: {application.placement.waiting}")
    further = application.placement.further
    if further is not None:  # it begins on the workers that are there: no reason for a late start
        application.placement.waiting = application.placement.waiting or further.waiting
    return not application.held_back and has_all_executors(application)


def has_all_executors(application: Application) -> bool:
    """Return True if the application has as many executors of each profile as Spark wants."""
    have = Counter(e.record.profile_id for e in application.live_executors() if not e.record.planned_end)
    return application.placement.satisfied_by(have)


def _add_missing(
    application: Application, profile_id: str, wish: ExecutorWish, registry: Registry, placing: Placing, now_s: float
) -> None:
    placing.refresh(now_s)
    live = [e for e in application.live_executors() if not e.record.planned_end]
    have = sum(e.record.profile_id == profile_id for e in live)
    if wish.count is not None and have >= wish.count:
        application.placement.keep_none()
        return
    if len(application.executors) >= EXECUTORS:
        application.placement.waiting = f"it has had {EXECUTORS} executors, as many as an application may"
        return
    fresh = registry.workers.starting(now_s)
    # an executor on a silent worker takes no place from executors on fresh workers
    missing = len(fresh) - sum(e.record.worker_id in fresh for e in live if e.record.profile_id == profile_id)
    missing = missing if wish.count is None else min(missing, wish.count - have)
    if missing > 0 and registry.shares.limited:
        missing = _within_share(application, placing.most_mb(application, profile_id, wish), missing, registry)
    if missing > 0 and (reason := placing.behind_others(application, profile_id, wish)):
        application.placement.infeasible = None
        application.placement.waiting = application.placement.waiting if live else reason
        return
    added = False
    for _ in range(missing):
        outcome = placing.choose(application, profile_id, wish, now_s)
        if isinstance(outcome, Evict):
            _evict(application, outcome, registry)
        if not isinstance(outcome, Placed | Squeeze):
            break
        application.placement.keep_no_more(outcome.worker_id)
        executor = _new(application, outcome.worker_id, profile_id, wish, placing, now_s)
        if isinstance(outcome, Squeeze):
            registry.changes.log(f"{application.id} squeezes on worker {outcome.worker_id}: {', '.join(outcome.keys)}")
        registry.place(application, executor)
        registry.save(application)
        registry.save_executor(application, executor)
        added = True
    application.placement.infeasible = None
    if not added and not live and (missing > 0 or not fresh):
        application.placement.waiting = placing.why_waiting(application, profile_id, wish, now_s)
        application.placement.infeasible = placing.needed_type(application, profile_id, wish, now_s)


def _within_share(application: Application, executor_mb: int, missing: int, registry: Registry) -> int:
    """Return how many of the missing executors its user has memory left for. An application that could have none for that
    reason keeps no other out of the workers that it wants."""
    left, lacking = registry.shares.room(application, executor_mb, missing)
    application.placement.waiting = lacking or application.placement.waiting
    if application.placement.over_share != (left == 0):
        application.placement.over_share = left == 0
        registry.changes.order(application)
    return left


def _new(
    application: Application, worker_id: str, profile_id: str, wish: ExecutorWish, placing: Placing, now_s: float
) -> Executor:
    worker = placing.fleet.get(worker_id)
    assert worker is not None
    executor_id = str(application.record.next_executor)
    application.record.next_executor += 1
    slots = executor_slots(application.record.registration.conf, wish, profile_id, worker.cores)
    held = find_all(worker.pools, application.options.placement.pieces) or {}
    spec = executor_spec(application.record, executor_id, wish, profile_id, slots, held)
    record = ExecutorRecord(
        executor_id=executor_id,
        worker_id=worker_id,
        profile_id=profile_id,
        spec=spec,
        created_s=application.elapsed_s(now_s),
        held={name: dict(pieces) for name, pieces in held.items()},
    )
    placing.registry.changes.log(f"{application.id} executor {executor_id} goes to worker {worker_id} with {slots} slots")
    return Executor(record)


def take_over(application: Application, info: WorkerInfo, report: ExecutorReport, registry: Registry) -> None:
    """Take over an executor that runs on a worker and that the master does not know: its application outlived the master's
    memory, or it was placed while nothing could be stored, before the master died. It is taken for one of Spark's default
    profile; its pieces of resources are not known."""
    known = application.ended or application.attached or report.executor_id in application.executors
    if known or report.state is not ExecutorState.RUNNING or not report.executor_id.isdecimal():
        return
    wish = application.placement.wanted.get("0") or ExecutorWish()
    slots = executor_slots(application.record.registration.conf, wish, "0", info.cores)
    record = ExecutorRecord(
        executor_id=report.executor_id,
        worker_id=info.worker_id,
        profile_id="0",
        spec=executor_spec(application.record, report.executor_id, wish, "0", slots),
    )
    application.record.next_executor = max(application.record.next_executor, int(report.executor_id) + 1)
    registry.place(application, Executor(record, ran=True))
    registry.save(application)
    registry.save_executor(application, registry.applications[application.id].executors[report.executor_id])
    registry.changes.log(f"{application.id} executor {report.executor_id} on worker {info.worker_id} is taken over")


def _evict(application: Application, outcome: Evict, registry: Registry) -> None:
    """End the executors that must give way (`--evict`). Their drivers get them back when there is room."""
    for key in outcome.keys:
        other_id, executor_id = ExecutorKey.parse(key)
        other = registry.applications[other_id]
        executor = other.executors[executor_id]
        executor.record.planned_end, executor.record.evicted_for = True, application.id
        application.placement.evicting.add(executor.record.worker_id)
        registry.save_executor(other, executor)
        line = f"executor {executor_id} on worker {executor.record.worker_id} was evicted for {application.id}"
        other.notify(f"{line}, which has a higher priority and was submitted with --evict")
        registry.changes.log(f"{other_id} {line}", "warning")


def stopped(application: Application, executor: Executor) -> bool:
    """Return True if the executor's agent should end it."""
    return application.ended or executor.record.planned_end or not executor.live


def gone(application: Application, executor: Executor, code: int | None, reason: str, changes: Changes, now_s: float) -> None:
    """Record that an executor has ended, or is as good as ended; an end that no one had asked for is a failure."""
    planned = executor.record.planned_end or application.ended
    executor.record.gone = last_word(executor, code, reason)
    lived_s = application.elapsed_s(now_s) - executor.record.created_s
    ended = ("ended" if code is None else f"ended with code {code}") + (f": {reason}" if reason else "")
    changes.log(f"{application.id} executor {executor.record.executor_id} {ended}")
    if not planned and not application.attached:
        application.placement.fail(steady=lived_s > STEADY_S)


def lose(application: Application, executor: Executor, reason: str, registry: Registry) -> None:
    """Count an executor as gone because its worker is lost or was short of room. Its application is not to blame for that."""
    executor.record.gone = last_word(executor, None, reason)
    application.placement.lost += not executor.record.planned_end
    application.notify(f"executor {executor.record.executor_id} is given up: {reason}")
    registry.save_executor(application, executor)


def last_word(executor: Executor, code: int | None, reason: str) -> ExecutorGone:
    """Return the executor's end, for its driver."""
    # 137 and 143 are SIGKILL and SIGTERM: somebody outside ended it, so it is no fault of the application's
    return ExecutorGone(
        executor_id=executor.record.executor_id,
        exit_code=code,
        planned=executor.record.planned_end,
        by_application=code is not None and code not in (137, 143, -9, -15),
        reason=reason or f"exit code {code}",
    )

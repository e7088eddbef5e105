"""The executors of an application: brought to what Spark wants, where memory allows, and seen to end."""

from __future__ import annotations

import logging
import time

from controller.master import memory
from controller.master.application import Application, Executor, ExecutorRecord
from controller.master.executor_spec import executor_slots, executor_spec
from controller.master.registry import Registry
from controller.messages import ExecutorGone, ExecutorWish
from placement.spread import choose

log = logging.getLogger("sparkpace.master")

MOST_FAILURES = 10
"""Executors that may fail in a row before the application is ended."""
STEADY_S = 60.0
"""An executor that lived so long breaks the row."""


def too_many_failures(application: Application) -> str:
    """Why the application must be ended; empty if it need not."""
    if application.failures_in_a_row <= MOST_FAILURES:
        return ""
    logs = next((e.record.log_dir for e in reversed(application.executors.values()) if e.record.log_dir), "")
    return f"{application.failures_in_a_row} executors failed in a row, see {logs}/stderr"


def reconcile(application: Application, registry: Registry, now_s: float) -> bool:
    """Brings the executors to what Spark wants, one per worker at most; says whether anything changed."""
    changed = False
    for executor_id in application.unwanted:
        executor = application.executors.get(executor_id)
        if executor and executor.live and not executor.record.planned_end:
            executor.record.planned_end = True
            registry.save_executor(application, executor)
            changed = True
    application.waiting = ""
    for profile_id, wish in sorted(application.wanted.items()):
        changed = _add_missing(application, profile_id, wish, registry, now_s) or changed
    if line := memory.waiting_line(application, registry.applications.values()):
        application.notify(line)
    return changed


def _add_missing(application: Application, profile_id: str, wish: ExecutorWish, registry: Registry, now_s: float) -> bool:
    live = [e for e in application.live_executors() if not e.record.planned_end]
    have = sum(e.record.profile_id == profile_id for e in live)
    if wish.count is not None and have >= wish.count:
        return False
    workers = {info.worker_id: info for info in registry.workers.fresh(now_s)}
    missing = (len(workers) if wish.count is None else min(wish.count, len(workers))) - have
    if missing <= 0:
        return False
    registration = application.record.registration
    slots = {name: executor_slots(registration.conf, wish, profile_id, info) for name, info in workers.items()}
    asked = (application, wish, profile_id, list(workers.values()))
    others = (registry.applications.values(), registry.on)
    chosen = choose(memory.rooms(*asked, *others), missing, memory.least_mb(*asked))
    if not chosen and not live:
        application.waiting = memory.why_waiting(*asked, *others)
    for worker_id in chosen:
        executor = _new(application, worker_id, profile_id, wish, slots[worker_id])
        registry.place(application, executor)
        registry.save(application)
        registry.save_executor(application, executor)
    return bool(chosen)


def _new(application: Application, worker_id: str, profile_id: str, wish: ExecutorWish, slots: int) -> Executor:
    executor_id = str(application.record.next_executor)
    application.record.next_executor += 1
    spec = executor_spec(
        application.id, executor_id, application.record.registration, application.options, wish, profile_id, slots
    )
    record = ExecutorRecord(
        executor_id=executor_id, worker_id=worker_id, profile_id=profile_id, spec=spec, created_epoch_s=time.time()
    )
    log.info("%s executor %s goes to worker %s with %d slots", application.id, executor_id, worker_id, slots)
    return Executor(record)


def stopped(application: Application, executor: Executor) -> bool:
    """Whether its agent should end it."""
    return application.ended or executor.record.planned_end or not executor.live


def gone(application: Application, executor: Executor, code: int | None, reason: str) -> None:
    """An executor has ended, or is as good as ended; one that nobody had asked to is a failure."""
    planned = executor.record.planned_end or application.ended
    executor.record.gone = last_word(executor, code, reason)
    lived_s = time.time() - executor.record.created_epoch_s
    log.info("%s executor %s ended with code %s %s", application.id, executor.record.executor_id, code, reason)
    if not planned:
        steady = lived_s > STEADY_S
        application.executors_lost += 1
        application.failures_in_a_row = 1 if steady else application.failures_in_a_row + 1


def last_word(executor: Executor, code: int | None, reason: str) -> ExecutorGone:
    """How it ended, for its driver."""
    # 137 and 143 are SIGKILL and SIGTERM: somebody outside ended it, so it is no fault of the application's
    return ExecutorGone(
        executor_id=executor.record.executor_id,
        exit_code=code,
        planned=executor.record.planned_end,
        by_application=code is not None and code not in (137, 143, -9, -15),
        reason=reason or f"exit code {code}",
    )

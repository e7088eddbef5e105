"""The report to the master on one executor: pure."""

from __future__ import annotations

from typing import NamedTuple

from controller.agent.core.step import ExecutorHistory
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport
from master_memory.resize import Container


class Standing(NamedTuple):
    """State of an executor and the reason, as in `ExecutorReport`."""

    state: ExecutorState
    reason: str = ""
    exit_code: int | None = None


def report_of(
    key: ExecutorKey,
    standing: Standing,
    seen: Observed | None,
    held: ExecutorHistory | None,
    container: Container | None,
    log_dir: str,
    since_s: float,
) -> ExecutorReport:
    """Return the report. `held`, `container`: memory of core and of resizing on the executor. Stages that ran after `since_s`
    (monotonic) are reported."""
    decision = held.decision if held else None
    running = container if container and container.running else None
    answer = running.answer if running else None
    return ExecutorReport(
        application_id=key.application_id,
        executor_id=key.executor_id,
        state=standing.state,
        exit_code=standing.exit_code,
        reason=standing.reason,
        quota_cores=(seen.quota_cores or 0.0) if seen else 0.0,
        demand_cores=decision.demand if decision else 0.0,
        cpu_core_s=seen.cpu_s if seen else 0.0,
        throttled_s=seen.throttled_s if seen else None,
        memory_bytes=seen.memory_bytes if seen else 0,
        memory_limit_mb=running.claim_mb if running else 0,
        off_heap_mb=answer.budget_mb if answer else None,
        off_heap_execution_mb=answer.execution_mb if answer else 0,
        off_heap_storage_mb=answer.storage_mb if answer else 0,
        log_dir=log_dir,
        stages=tuple(held.account.uses(since_s)) if held else (),
        risk=seen.risk if seen else "",
    )

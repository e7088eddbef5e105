"""The end of executors that outlived their agent, for runtimes that know their executors from records."""

from __future__ import annotations

from controller.machine.waiting import wait_until
from controller.runtime.base import Runtime
from stage_model.errors import RuntimeFailed

GONE_S = 20.0
"""Longest wait for executors to be gone."""


def end_recorded(runtime: Runtime) -> int:
    """End and remove the runtime's executors, and close the runtime; return how many ran. Raise `RuntimeFailed` for executors
    that stay."""
    try:
        ran = sum(seen.running for seen in runtime.observe().values())
        if not wait_until(lambda: not _left(runtime), GONE_S) and (left := _left(runtime)):
            raise RuntimeFailed(left)
        return ran
    finally:
        runtime.close()


def _left(runtime: Runtime) -> str:
    """End the executors that run and remove executors that have ended; return a sentence on an executor that is still
    there."""
    left = ""
    for key, seen in runtime.observe().items():
        try:
            if seen.running:
                why = f" ({seen.remark})" if seen.remark else ""
                left = f"executor {key.executor_id} of {key.application_id} does not end{why}; run `sparkpace down` again"
                runtime.stop(key)
            else:
                runtime.remove(key)
        except RuntimeFailed as error:
            left = str(error)
    return left

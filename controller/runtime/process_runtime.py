"""The row `process`: executors as processes of this machine, without isolation. Ends those that outlived their agent."""

from __future__ import annotations

from controller.runtime.process import ProcessRuntime
from controller.runtime.table import Owner
from controller.waiting import wait_until
from stage_model.errors import RuntimeFailed

GONE_S = 20.0
"""Longest wait for processes to be gone."""


def check() -> None:
    """Works everywhere."""


def make(owner: Owner) -> ProcessRuntime:
    return ProcessRuntime(owner.cluster_id, owner.worker_id, owner.folder / "processes")


def driver_address() -> str:
    """They are processes of this machine."""
    return "127.0.0.1"


def end_all(owner: Owner) -> int:
    """How many ran. Raises `RuntimeFailed` for those that do not end."""
    runtime = make(owner)
    try:
        found = runtime.observe()
        for key in found:
            runtime.stop(key)
        if not wait_until(lambda: not _left(runtime), GONE_S) and (left := _left(runtime)):
            raise RuntimeFailed(left)
        return sum(seen.running for seen in found.values())
    finally:
        runtime.close()


def _left(runtime: ProcessRuntime) -> str:
    """Removes those that have ended; a sentence on what is there still."""
    left = ""
    for key, seen in runtime.observe().items():
        if seen.running:
            left = f"executor {key.executor_id} of {key.application_id} does not end; run `sparkpace down` again"
            continue
        try:
            runtime.remove(key)
        except RuntimeFailed as error:
            left = str(error)
    return left

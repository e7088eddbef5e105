"""The row `process`: executors as processes of this machine, without isolation. Ends those that outlived their agent."""

from __future__ import annotations

import time

from controller.runtime.base import ExecutorKey, Runtime
from controller.runtime.process import ProcessRuntime
from controller.runtime.table import Owner
from stage_model.errors import RuntimeFailed

GONE_S = 20.0
"""Longest wait for processes to be gone."""
LOOK_S = 0.1


def check() -> None:
    """Works everywhere."""


def make(owner: Owner) -> Runtime:
    return _of(owner)


def end_all(owner: Owner) -> int:
    """How many ran. Raises `RuntimeFailed` for those that do not end."""
    runtime = _of(owner)
    try:
        found = runtime.observe()
        ran = sum(seen.running for seen in found.values())
        for key in found:
            runtime.stop(key)
        until = time.monotonic() + GONE_S
        while found := runtime.observe():
            for key, seen in found.items():
                if not seen.running:
                    _try_remove(runtime, key, last=time.monotonic() > until)
            if any(seen.running for seen in found.values()) and time.monotonic() > until:
                raise RuntimeFailed(f"{len(found)} executors do not end within {GONE_S:g} s; run `sparkpace down` again")
            time.sleep(LOOK_S)
        return ran
    finally:
        runtime.close()


def _of(owner: Owner) -> ProcessRuntime:
    return ProcessRuntime(owner.cluster_id, owner.worker_id, owner.folder / "processes")


def _try_remove(runtime: ProcessRuntime, key: ExecutorKey, *, last: bool) -> None:
    try:
        runtime.remove(key)
    except RuntimeFailed:
        if last:
            raise

"""The row `process`: executors as processes of this machine, not isolated. The row ends those that outlived their agent."""

from __future__ import annotations

from pathlib import Path

from controller.runtime import ending
from controller.runtime.process.executors import ProcessRuntime
from controller.runtime.table import Owner


def check(namespace: str | None) -> str:  # noqa: ARG001 - Kubernetes' only
    """Return nothing: `process` works everywhere."""
    return ""


def make(owner: Owner) -> ProcessRuntime:
    return ProcessRuntime(owner.cluster_id, owner.worker_id, process_records(owner.folder))


def process_records(folder: Path) -> Path:
    """Return the folder of the records of executors, within a worker's folder."""
    return folder / "processes"


def end_all(owner: Owner) -> int:
    return ending.end_recorded(make(owner))

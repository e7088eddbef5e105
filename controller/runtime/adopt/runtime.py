"""The row `adopt`: executors that another cluster manager has started on this machine. The row lets go of those it paces."""

from __future__ import annotations

from pathlib import Path

from controller.runtime import ending
from controller.runtime.adopt.executors import AdoptRuntime
from controller.runtime.table import Owner


def check(namespace: str | None) -> str:  # noqa: ARG001 - Kubernetes' only
    """Return nothing: `adopt` works everywhere. What it can do about an executor is known when there is one."""
    return ""


def make(owner: Owner) -> AdoptRuntime:
    return AdoptRuntime(owner.cluster_id, owner.worker_id, records_of(owner.folder), signals=owner.signals)


def records_of(folder: Path) -> Path:
    """Return the folder of the records of executors, within a worker's folder."""
    return folder / "adopted"


def end_all(owner: Owner) -> int:
    return ending.end_recorded(make(owner))

"""The row `process`: executors as processes of this machine, not isolated. The row ends those that outlived their agent."""

from __future__ import annotations

from controller.runtime import ending
from controller.runtime.process.executors import ProcessRuntime
from controller.runtime.table import Owner


def check() -> None:
    """Do nothing: `process` works everywhere."""


def make(owner: Owner) -> ProcessRuntime:
    return ProcessRuntime(owner.cluster_id, owner.worker_id, owner.folder / "processes")


def driver_address() -> str:
    """Return the loopback address: executors are processes of this machine."""
    return "127.0.0.1"


def end_all(owner: Owner) -> int:
    return ending.end_recorded(make(owner))

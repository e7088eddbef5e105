"""The row `adopt`: executors that another cluster manager has started on this machine. Lets go of those it paces."""

from __future__ import annotations

from controller.runtime import ending
from controller.runtime.adopt import AdoptRuntime
from controller.runtime.table import Owner


def check() -> None:
    """Works everywhere: what it can do about an executor is known when there is one."""


def make(owner: Owner) -> AdoptRuntime:
    return AdoptRuntime(owner.cluster_id, owner.worker_id, owner.folder / "adopted", signals=owner.signals)


def driver_address() -> str:
    """Drivers are where their cluster manager has them."""
    return "127.0.0.1"


def end_all(owner: Owner) -> int:
    return ending.end_recorded(make(owner))

"""The promises to running applications, alongside which a deadline is judged."""

from __future__ import annotations

from collections.abc import Generator

from controller.master.core import remaining
from controller.master.core.guard import guarded
from controller.master.core.registry import AT_A_TIME, Registry
from stage_model.forecast.promises import Claim, Promised


def promised(registry: Registry, now_s: float, but: str = "", *, attached: bool = False) -> Generator[None, None, Promised]:
    """Return what the running applications, but one, were promised: those that share workers with an application that is
    `attached`, or is not. The work pauses where other work may have its turn."""
    claims: list[Claim] = []
    for number, other in enumerate(list(registry.applications.values()), 1):
        if number % AT_A_TIME == 0:
            yield
        if other.id != but and other.attached == attached:
            with guarded(other, "working out what it was promised"):
                claims += remaining.promises(other, registry.workers.capacity(other, now_s), now_s)
    cores = sum(info.cores for info in registry.workers.expected(now_s, adopts=attached))
    return Promised(claims, cores)

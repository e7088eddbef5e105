"""The promises to running applications, alongside which a deadline is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import replace

from msgspec import structs

from controller.master.core import remaining
from controller.master.core.guard import guarded
from controller.master.core.registry import AT_A_TIME, Registry
from placement.growth import WorkerType
from stage_model.forecast.promises import Claim, Promised


def promised(registry: Registry, now_s: float, but: str = "", *, attached: bool = False) -> Generator[None, None, Promised]:
    """Return what the running applications, but one, were promised: those that share workers with an application that is
    `attached`, or is not. The work pauses where other work may have its turn."""
    claims: list[Claim] = []
    claimed = Counter[WorkerType]()
    # a worker that several deadlines wait for counts for the first of the highest priority
    for number, other in enumerate(sorted(registry.applications.values(), key=lambda one: -one.priority()), 1):
        if number % AT_A_TIME == 0:
            yield
        if other.id != but and other.attached == attached:
            with guarded(other, "working out what it was promised"):
                most = registry.workers.capacity(other, now_s)
                found = remaining.promises(other, most, now_s, registry.workers.awaited_capacity(other, most, now_s))
                further = other.placement.further
                if found and further is not None and further.awaited:
                    own, claimed = Counter(further.awaited) - claimed, claimed | Counter(further.awaited)
                    found[-1] = _with_own(found[-1], own, max(0.0, further.comes_s - now_s))
                claims += found
    cores = sum(info.cores for info in registry.workers.expected(now_s, adopts=attached))
    return Promised(claims, cores)


def _with_own(claim: Claim, own: Counter[WorkerType], start_s: float) -> Claim:
    """Return a claim that counts on its `own` workers, which come in `start_s`, and on no work before that."""
    forecast = structs.replace(claim.forecast, fixed_s=claim.forecast.fixed_s + start_s)
    return replace(claim, forecast=forecast, own_cores=sum(kind.cores * count for kind, count in own.items()))

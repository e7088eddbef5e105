"""Whether an executor waits for a worker that has its application's input, where only others are free (document 002;
docs/placement.md, Data).

An application waits once. What was expected, and what came, is kept (`DataWait`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from controller.master import memory
from controller.master.application import Application, DataWait
from controller.master.registry import Registry
from placement.choose import Places
from placement.locality import PATIENCE, WORTH, Outlook, expected
from placement.places import Place, Request

PATIENT_SHARE = 0.1
"""Of its deadline an application waits for its data at most."""


def data_shares(application: Application) -> dict[str, float]:
    """Each host's share of the input: as Hadoop told it, else the hosts that the user prefers, alike."""
    whole = sum(application.data.values())
    if whole:
        return {host: size / whole for host, size in application.data.items()}
    hosts = application.options.placement.prefer
    return {host: 1 / len(hosts) for host in hosts}


def with_data(request: Request, places: Places) -> list[Place]:
    """Workers that have some of its input and could take a further executor of it sooner or later."""
    if not request.prefer:
        return []
    there = (place for place in places.ever(request) if request.prefer.get(place.host))
    return [place for place in there if request.application_id not in place.by_application]


def rather_waits(
    application: Application, chosen: Place | None, near: Sequence[Place], registry: Registry, now_s: float
) -> bool:
    """Whether it waits for one of `near`, which have its input, rather than go to the worker chosen, or, where none is free
    (None), make room for itself. Its wait begins, is measured and ends here."""
    wait, waits = application.options.placement.wait, application.record.data_waits
    if wait == "none" or not (near or application.waits_for_data):
        return False
    local, elapsed_s = chosen in near, application.elapsed_s(now_s)
    under_way = waits[-1] if application.waits_for_data else None
    if chosen is not None and near and not local and not waits:
        outlook = data_outlook(application, near, registry)
        forecast = expected(outlook, "printed" if wait == "forecast-printed" else "intended")
        if not isinstance(wait, str) or forecast >= WORTH:
            under_way = DataWait(from_s=round(elapsed_s, 3), expected=round(forecast, 3), move_s=round(outlook.move_s, 3))
            waits.append(under_way)
            registry.save(application)
    if under_way is None:
        return False
    under_way.waited_s = round(elapsed_s - under_way.from_s, 3)
    limit_s = _patience_s(application, under_way) if isinstance(wait, str) else wait
    if near and not local and under_way.waited_s < limit_s:
        return True
    under_way.local = local
    registry.save(application)
    return False


def data_outlook(application: Application, near: Sequence[Place], registry: Registry) -> Outlook:
    """Workers with the input become free as those that are there end: `task_s` is how long they take on average, `slots`
    how many there are on a worker. Moving the input takes `move_s` for each wave of its tasks."""
    there = {name for place in near for name in place.by_application}
    times = [_duration_s(registry.applications[name]) for name in there if name in registry.applications]
    first = application.estimate.stages[0].tasks if application.estimate and application.estimate.stages else 1
    slots = sum(max(1, math.ceil(place.cores)) for place in near)
    ahead = memory.ahead(application, registry.applications.values())
    wanted = {host for other in ahead for host in data_shares(other)}
    return Outlook(
        move_s=application.options.placement.move_s * math.ceil(first / max(1, slots)),
        slots=sum(len(place.occupants) for place in near) / len(near),
        # where nobody is whose end is known, none is expected
        task_s=sum(times) / len(times) if times else math.inf,
        machines=len(near),
        shared=sum(place.host in wanted for place in near),
        ahead=bool(ahead),
    )


def _duration_s(application: Application) -> float:
    """How long it takes, as far as anybody knows: its deadline, else what its profile says, else as long as it has taken."""
    if application.options.deadline_s is not None:
        return application.options.deadline_s
    if application.estimate is not None:
        return max(1.0, sum(stage.duration_s for stage in application.estimate.stages))
    return max(1.0, application.heard_s - application.started_s)


def _patience_s(application: Application, wait: DataWait) -> float:
    """How long it waits at most: no large part of its deadline, however slow moving its input is."""
    deadline_s = application.options.deadline_s
    return min(PATIENCE * wait.move_s, math.inf if deadline_s is None else PATIENT_SHARE * deadline_s)

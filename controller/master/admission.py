"""The check that admits an application: settings that can be read, executors that fit somewhere, a deadline that can be met.

`Admission` puts the checks together, on the cluster as it is; `sparkpace plan` asks it beforehand."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from controller.asks.job_options import MOST_CHARACTERS, job_options
from controller.asks.job_setting import PREFIX
from controller.machine.local_zone import local_zone
from controller.machine.proc import boot_id
from controller.master.access.vouching import NOBODY
from controller.master.application import ID, Application, ApplicationRecord, skip_unknown_ids
from controller.master.capacity import Capacity
from controller.master.dependencies import WaitingJob, check_dependencies
from controller.master.executor_spec import executor_memory, executor_slots, executor_spec
from controller.master.feasibility import feasibility, plan_reply
from controller.master.from_record import make_application
from controller.master.growing import Growing
from controller.master.off_loop import OffLoop
from controller.master.pipelines import Pipelines
from controller.master.placing import Placing
from controller.master.registry import Registry
from controller.runtime.shown_paths import not_shown
from controller.runtime.table import MOUNTING
from controller.wire.command import PlanReply, PlanRequest
from controller.wire.driver import ExecutorWish, Registration
from controller.wire.worker import WorkerInfo
from master_memory.room import check_fits_somewhere
from placement.resources import SCALE, amount
from stage_model.errors import BadInput, InfeasibleDeadline
from stage_model.forecast.promises import Promised
from stage_model.units import is_time, parse_deadline

HIGHEST_ID = 2**31 - 1
"""The highest id of users, groups and processes."""


class Admission:
    """The checks, put together. `default_law` is that of applications that name none; `growing` gives the part that starts
    workers, if there is one."""

    def __init__(
        self,
        registry: Registry,
        placing: Placing,
        pipelines: Pipelines,
        default_law: str,
        growing: Callable[[], Growing | None],
    ) -> None:
        self.registry, self.placing, self.pipelines = registry, placing, pipelines
        self.default_law, self._growing = default_law, growing

    async def admit(
        self, registration: Registration, token_hash: str, clock: Callable[[], float], off_loop: OffLoop
    ) -> Application:
        """Return the application of a registration, which is not in the registry yet. Profiles are read and deadlines judged
        off the loop, while the caller holds `Registry.promising`. Raise `BadInput` and `InfeasibleDeadline`."""
        now_s = clock()
        # a bridge that outlived the master's memory keeps its id and the executors that agents show, with new numbers for new
        # ones; what runs already is not judged again
        outlived, age_s = registration.application_id is not None, registration.age_s
        record = ApplicationRecord(
            application_id=checked_id(registration.application_id) if registration.application_id else new_id(),
            token_hash=token_hash,
            registration=registration,
            started_epoch_s=time.time() - age_s,
            started_monotonic_s=now_s - age_s,
            boot_id=boot_id(),
            next_executor=skip_unknown_ids(1) if outlived else 1,
            outlived=outlived,
            options=job_options(
                registration.conf,
                submitted=_submitted(registration),
                working_dir=Path(registration.working_dir),
                default_law=self.default_law,
                attached=registration.attached,
            ),
        )
        asked, deadline_s = registration.conf.get(f"{PREFIX}deadline", ""), record.options.deadline_s
        if not outlived and deadline_s is not None and deadline_s <= age_s and is_time(asked):
            raise BadInput(f"{PREFIX}deadline {asked!r} has passed since the submission; give a later time")
        started_s, profiles, untaught = record.started_monotonic_s, self.registry.profiles, self.registry.untaught
        application = await off_loop(
            lambda: make_application(record, started_s, profiles, untaught, clock(), restored=outlived)
        )
        now_s = clock()
        check_dependencies(application, self.registry.jobs)
        if not outlived:  # how much of a running application is done is not known
            if not application.attached:
                self._check_executors(application, now_s)
            self.pipelines.admit(application, now_s)
            most = self.registry.workers.capacity(application, now_s)
            if to_be_judged(application, most):
                promised = await self.registry.promised(now_s, attached=application.attached)
                await off_loop(lambda: check_feasible(application, most, now_s, promised))
        return application

    def _check_executors(self, application: Application, now_s: float) -> None:
        """Raise `BadInput` for executors that cannot be, or that fit no worker there is and none that could be started.
        Labels may still be given to a worker: an application that asks for a label without a worker waits, where no worker
        can be started. All applications wait, just after a restart, for workers that have not reported yet."""
        registration, wishes = application.record.registration, application.wanted or {"0": ExecutorWish()}
        for profile_id, wish in wishes.items():
            # settings that cannot be read
            executor_spec(application.id, "0", registration, application.options, wish, profile_id, slots=1)
        check_working_dir(registration.working_dir, self.registry.workers.expected(now_s))
        self.placing.refresh(now_s)
        growing, all_heard = self._growing(), self.registry.workers.all_heard(now_s)
        workers = self.registry.workers.known(now_s)
        for profile_id, wish in wishes.items():
            kind = self.placing.needed_type(application, profile_id, wish, now_s, labels=growing is not None)
            if growing is None and workers:
                check_fits(application, profile_id, wish, workers)
                if kind is not None and all_heard and len(self.placing.fleet):
                    raise BadInput(
                        f"no single worker has what an executor of this application needs ({kind}); "
                        "lower --executor-memory or the resources, or add a larger worker"
                    )
            elif growing and kind and all_heard and (reason := growing.refuses(kind)):
                raise BadInput(f"no worker has what an executor of this application needs, and {reason}; lower its needs")

    async def plan(
        self, request: PlanRequest, now_s: float, off_loop: OffLoop = asyncio.to_thread, uid: int = NOBODY
    ) -> PlanReply:
        """Return feasibility, cores and the least possible deadline of a profile on this cluster as it is, alongside the
        other jobs of a pipeline of `uid`'s. Raise `BadInput`."""
        attached = request.attached
        workers = self.registry.workers.expected(now_s, adopts=attached)
        grows = self._growing() is not None and not attached
        if request.working_dir is not None and not attached:
            check_working_dir(request.working_dir, workers)
        if request.conf is not None and not attached:
            # for an executor that is too large for all workers, another worker may be started
            check_memory(request.conf, ExecutorWish(), "0", [] if grows else workers, python=request.python)
        promised = await self.registry.promised(now_s, attached=attached)
        profiles, law, untaught = self.registry.profiles, self.default_law, dict(self.registry.untaught)
        reply = await off_loop(
            lambda: plan_reply(request, profiles, workers, promised, default_law=law, grows=grows, untaught=untaught)
        )
        if reply.forecast is None:
            return reply
        reason = self.pipelines.refusal(WaitingJob.of(request, reply.forecast, uid, now_s), now_s)
        return msgspec.structs.replace(reply, feasible=False, reason=reason) if reason else reply


def new_id() -> str:
    return f"pace-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"


def checked_id(given: str) -> str:
    """Return an id that a bridge says it has; it becomes part of paths and names. Raise `BadInput` for an id that is not
    ours."""
    if not ID.fullmatch(given):
        raise BadInput(f"application id {given[:60]!r} is not one of ours; give the id of the registration")
    return given


def asked_deadline_s(registration: Registration) -> float | None:
    """Return the deadline in seconds after submission; None where the user asked for none, or for an unreadable one."""
    asked = registration.conf.get(f"{PREFIX}deadline", "")
    with suppress(BadInput):
        if 0 < len(asked) <= MOST_CHARACTERS:
            return parse_deadline(asked, _submitted(registration))
    return None


def _submitted(registration: Registration) -> datetime:
    return datetime.now(local_zone(os.environ)) - timedelta(seconds=registration.age_s)


def check_usable(registration: Registration) -> None:
    """Raise `BadInput` for a registration with which no executor could be started, whatever it is used for later. Values are
    not quoted: they may be secret."""
    for name in ("uid", "gid", "pid"):
        number = getattr(registration, name)
        if not 0 <= number <= HIGHEST_ID:
            raise BadInput(f"{name} {str(number)[:40]} is out of range (0 to {HIGHEST_ID})")
    if registration.authenticated and not registration.credentials:
        raise BadInput("the driver authenticates its executors but sent no credentials for them; send both or neither")
    for where, text in _texts(msgspec.to_builtins(registration), ""):
        if "\0" in text:
            raise BadInput(f"{where[:200]!r} has a NUL character, which no command line carries; remove it")
    for name in registration.environment:
        if not name or "=" in name:
            raise BadInput(f"{name[:100]!r} is not the name of an environment variable; use a name without '='")


def _texts(value: object, where: str) -> Iterator[tuple[str, str]]:
    """Yield all texts in a value with the names they are found under, names included."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield where, name
            yield from _texts(inner, f"{where}.{name}" if where else name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, where)


def check_fits(application: Application, profile_id: str, wish: ExecutorWish, workers: Sequence[WorkerInfo]) -> None:
    """Raise `BadInput` for executors that need more memory than any worker has, or pieces that no worker has. Labels may
    still be given to a worker, so an application that asks for a label without a worker waits."""
    registration = application.record.registration
    check_memory(registration.conf, wish, profile_id, workers, python=registration.python is not None)
    known = sorted({name for worker in workers for name in worker.resources})
    for name, units in application.options.placement.resources.items() if workers else ():
        most = max(worker.resources.get(name, 0) for worker in workers)
        if not most:
            raise BadInput(
                f"resource {name!r} is asked for and no worker has any (workers have: {', '.join(known) or 'none'}); "
                f"ask for one of those, or start a worker with --resources {name}=N"
            )
        if units > most * SCALE:
            raise BadInput(f"{name}={amount(units)} is asked for and no worker has more than {most}; ask for less")


def check_working_dir(path: str, workers: Sequence[WorkerInfo]) -> None:
    """Raise `BadInput` for a directory of submission that no worker can show to executors."""
    if workers and all(worker.runtime in MOUNTING for worker in workers) and (wrong := not_shown(path)):
        raise BadInput(f"directory of submission {path[:200]!r} {wrong}")


def check_memory(
    conf: dict[str, str], wish: ExecutorWish, profile_id: str, workers: Sequence[WorkerInfo], *, python: bool
) -> None:
    """Raise `BadInput` for an executor whose memory cannot be read or fits no worker."""
    for slots in {executor_slots(conf, wish, profile_id, worker.cores) for worker in workers} or {1}:
        least_mb = executor_memory(conf, wish, slots, python=python).least_mb
        check_fits_somewhere(least_mb, (worker.memory_mb for worker in workers))


def to_be_judged(application: Application, most: Capacity) -> bool:
    """Return True if the application asks for a deadline that could be refused. Without a worker to judge it by, it waits."""
    options = application.options
    return options.deadline_s is not None and application.estimate is not None and most.cores > 0 and not options.force


def check_feasible(application: Application, most: Capacity, now_s: float, promised: Promised) -> None:
    """Raise `InfeasibleDeadline` for an application that is `to_be_judged` and whose deadline cannot be met, with the least
    deadline that can be met alongside the promises."""
    assert application.estimate is not None
    options, spent_s = application.options, application.elapsed_s(now_s)
    reply = feasibility(
        application.estimate, options.deadline_s, most, spent_s=spent_s, priority=options.priority, promised=promised
    )
    if not reply.feasible:
        raise InfeasibleDeadline(f"{reply.reason}, or --force")

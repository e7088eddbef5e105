"""The judgement of what asks to be admitted: settings that can be read, executors that fit somewhere, a deadline that can be
met. The shell reads the profile in between (`controller.master.admitting`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath

import msgspec

from controller.asks.job_options import job_options
from controller.asks.job_setting import PREFIX
from controller.master.core.application import Application
from controller.master.core.application_record import ID, ApplicationRecord, skip_unknown_ids
from controller.master.core.capacity import Capacity
from controller.master.core.dependencies import WaitingJob, check_dependencies
from controller.master.core.executor_spec import executor_memory, executor_slots, executor_spec
from controller.master.core.feasibility import feasibility
from controller.master.core.growing import Growing
from controller.master.core.pipelines import Pipelines
from controller.master.core.placing import Placing
from controller.master.core.plan_reply import ClusterNow
from controller.master.core.registry import Registry
from controller.runtime.shown_paths import not_shown
from controller.runtime.table import RUNTIMES
from controller.wire.command import PlanReply, PlanRequest
from controller.wire.driver import ExecutorWish, Registration
from controller.wire.worker import WorkerInfo
from master_memory.room import check_fits_somewhere
from placement.resources import SCALE, amount
from stage_model.errors import BadInput, InfeasibleDeadline
from stage_model.forecast.promises import Promised
from stage_model.units import is_time

HIGHEST_ID = 2**31 - 1
"""The highest id of users, groups and processes."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The arrival of a registration: the id that a new application gets, the hash of its token, and the time: seconds of the
    wall clock since the epoch, the same in the machine's zone, and monotonic seconds."""

    new_id: str
    token_hash: str
    epoch_s: float
    local: datetime
    now_s: float


class Admission:
    """The checks, on the cluster as it is. `default_law` is that of applications that name none; `growing` is the part that
    starts workers, if there is one."""

    def __init__(self, registry: Registry, placing: Placing, pipelines: Pipelines, default_law: str) -> None:
        self.registry, self.placing, self.pipelines, self.default_law = registry, placing, pipelines, default_law
        self.growing: Growing | None = None

    def record(self, registration: Registration, arrival: Arrival) -> ApplicationRecord:
        """Return the record of an application that registers. Raise `BadInput` for settings that cannot be read."""
        # a bridge that outlived the master's memory keeps its id and the executors that agents show, with new numbers for new
        # ones; what runs already is not judged again
        outlived, age_s = registration.application_id is not None, registration.age_s
        options = job_options(
            registration.conf,
            submitted=arrival.local - timedelta(seconds=age_s),
            working_dir=PurePosixPath(registration.working_dir),
            default_law=self.default_law,
            attached=registration.attached,
        )
        asked, deadline_s = registration.conf.get(f"{PREFIX}deadline", ""), options.deadline_s
        if not outlived and deadline_s is not None and deadline_s <= age_s and is_time(asked):
            raise BadInput(f"{PREFIX}deadline {asked!r} has passed since the submission; give a later time")
        return ApplicationRecord(
            application_id=checked_id(registration.application_id) if registration.application_id else arrival.new_id,
            token_hash=arrival.token_hash,
            registration=registration,
            started_epoch_s=arrival.epoch_s - age_s,
            started_monotonic_s=arrival.now_s - age_s,
            boot_id=self.registry.life.boot_id,
            next_executor=skip_unknown_ids(1) if outlived else 1,
            outlived=outlived,
            options=options,
        )

    def check(self, application: Application, now_s: float) -> Capacity | None:
        """Check all but the deadline of an application that is not in the registry yet. Return the most that it can get if
        its deadline is to be judged by that; else None. Raise `BadInput` and `InfeasibleDeadline`."""
        check_dependencies(application, self.registry.jobs)
        if application.outlived:  # how much of a running application is done is not known
            return None
        if not application.attached:
            self._check_executors(application, now_s)
        self.pipelines.admit(application, now_s)
        most = self.registry.workers.capacity(application, now_s)
        return most if to_be_judged(application, most) else None

    def _check_executors(self, application: Application, now_s: float) -> None:
        """Raise `BadInput` for executors that cannot be, or that fit no worker there is and none that could be started.
        Labels may still be given to a worker: an application that asks for a label without a worker waits, where no worker
        can be started. All applications wait, just after a restart, for workers that have not reported yet."""
        registration, wishes = application.record.registration, application.placement.wanted or {"0": ExecutorWish()}
        for profile_id, wish in wishes.items():
            # settings that cannot be read
            executor_spec(application.record, "0", wish, profile_id, slots=1)
        check_working_dir(registration.working_dir, self.registry.workers.expected(now_s))
        self.placing.refresh(now_s)
        growing, all_heard = self.growing, self.registry.workers.all_heard(now_s)
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

    def check_plan(self, request: PlanRequest, now_s: float) -> ClusterNow:
        """Return the cluster that a plan counts on. Raise `BadInput` for a submission that could not run there."""
        grows = self.growing is not None and not request.attached
        workers = self.registry.workers.expected(now_s, adopts=request.attached)
        if request.working_dir is not None and not request.attached:
            check_working_dir(request.working_dir, workers)
        if request.conf is not None and not request.attached:
            # for an executor that is too large for all workers, another worker may be started
            check_memory(request.conf, ExecutorWish(), "0", [] if grows else workers, python=request.python)
        return ClusterNow(workers, grows, self.default_law, dict(self.registry.untaught))

    def with_pipeline(self, request: PlanRequest, reply: PlanReply, uid: int, now_s: float) -> PlanReply:
        """Return a plan alongside the other jobs of a pipeline of `uid`'s."""
        if reply.forecast is None:
            return reply
        reason = self.pipelines.refusal(WaitingJob.of(request, reply.forecast, uid, now_s), now_s)
        return msgspec.structs.replace(reply, feasible=False, reason=reason) if reason else reply


def checked_id(given: str) -> str:
    """Return an id that a bridge says it has; it becomes part of paths and names. Raise `BadInput` for an id that is not
    ours."""
    if not ID.fullmatch(given):
        raise BadInput(f"application id {given[:60]!r} is not one of ours; give the id of the registration")
    return given


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
    mounting = {row.name for row in RUNTIMES.values() if row.mounts}
    if workers and all(worker.runtime in mounting for worker in workers) and (wrong := not_shown(path)):
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

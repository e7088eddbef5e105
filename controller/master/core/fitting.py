"""The refusal of executors that can be neither on a present worker nor on a worker that could be started; and the worker that
an executor needs."""

from __future__ import annotations

from collections.abc import Sequence

from controller.master.core.application import Application
from controller.master.core.executor_spec import executor_memory, executor_slots, executor_spec
from controller.master.core.growing import Growing
from controller.master.core.placing import Placing
from controller.runtime.shown_paths import not_shown
from controller.runtime.table import RUNTIMES
from controller.wire.command import PlanRequest
from controller.wire.driver import ExecutorWish
from controller.wire.worker import WorkerInfo
from master_memory.room import check_fits_somewhere
from placement.growth import WorkerType, rounded
from placement.resources import SCALE, amount
from stage_model.errors import BadInput


def check_executors(application: Application, placing: Placing, growing: Growing | None, now_s: float) -> None:
    """Raise `BadInput` for impossible executors, and for executors that fit neither a present worker nor a worker that could
    be started. Labels may still be given to a worker: an application that asks for a label without a worker waits, where no
    worker can be started. All applications wait, just after a restart, for workers that have not reported yet."""
    there = placing.registry.workers
    registration, wishes = application.record.registration, application.placement.wanted or {"0": ExecutorWish()}
    for profile_id, wish in wishes.items():
        # settings that cannot be read
        executor_spec(application.record, "0", wish, profile_id, slots=1)
    check_working_dir(registration.working_dir, there.expected(now_s))
    placing.refresh(now_s)
    all_heard, workers = there.all_heard(now_s), there.known(now_s)
    for profile_id, wish in wishes.items():
        kind = placing.needed_type(application, profile_id, wish, now_s, labels=growing is not None)
        if growing is None and workers:
            _check_fits(application, profile_id, wish, workers)
            if kind is not None and all_heard and len(placing.fleet):
                raise BadInput(
                    f"no single worker has what an executor of this application needs ({kind}); "
                    "lower --executor-memory or the resources, or add a larger worker"
                )
        elif growing and kind and all_heard and (reason := growing.refuses(kind)):
            raise BadInput(f"no worker has what an executor of this application needs, and {reason}; lower its needs")


def _check_fits(application: Application, profile_id: str, wish: ExecutorWish, workers: Sequence[WorkerInfo]) -> None:
    """Raise `BadInput` for executors that need more memory than any worker has, or pieces that no worker has."""
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


def needed_by(request: PlanRequest, cores: float) -> WorkerType:
    """Return a worker of that many cores which could take an executor of a job to come, by its memory; resources and labels
    are judged when it registers. Raise `BadInput` for unreadable sizes."""
    conf, wish = request.conf or {}, ExecutorWish()
    memory = executor_memory(conf, wish, executor_slots(conf, wish, "0", cores), python=request.python)
    return rounded(cores, memory.least_mb)

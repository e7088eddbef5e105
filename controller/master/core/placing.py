"""The master's side of placement: applications and workers as the folder `placement` sees them, and their memory as
`master_memory` does.

A worker's state is made again when something on it has changed (`Changes.dirty_workers`), and only when an application is to
be placed. `placement.plan` decides; what is done with a decision is `executors`' matter."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from controller.master.core import needs
from controller.master.core.application import Application
from controller.master.core.executor_spec import executor_memory, executor_slots
from controller.master.core.executor_state import Executor
from controller.master.core.feasibility import whole_forecast
from controller.master.core.guard import guarded
from controller.master.core.placement_state import CachedRequest, PlannedCores
from controller.master.core.queue import Queue, Workers, rank_of
from controller.master.core.registry import Registry
from controller.runtime.base import ExecutorKey, full_image_name
from controller.wire.driver import ExecutorWish, Registration
from controller.wire.worker import WorkerInfo
from master_memory.room import Newcomer
from master_memory.split import Need
from placement.data_wait import DataWait, Patience
from placement.filters import PASSING, passing
from placement.fleet import Fleet
from placement.growth import WorkerType
from placement.plan import Infeasible, PlaceAnswer, Wait, ever_fitting, needed_type, place
from placement.policies import Draw
from placement.request import Memory, Request
from placement.resources import SCALE, ResourceSet
from placement.scores import Weights
from placement.topology import Topology
from placement.why import Why, behind, explain, why_waiting
from placement.worker import Occupant, WorkerState
from stage_model.settings import QuotaSettings


class Placing:
    """The translator for the core. `policy` is that of applications that name none; `draw` gives numbers in [0, 1)."""

    def __init__(self, registry: Registry, *, policy: str, weights: Weights, draw: Draw) -> None:
        self.registry, self.policy = registry, policy
        self.topology = Topology()
        self.fleet = Fleet(weights=weights, draw=draw)
        self.queue = Queue(registry, self._wants)
        self._offers: Mapping[str, WorkerInfo] = {}
        """Offers of the workers of which the fleet was made."""
        self._needs: dict[str, list[Need]] = {}
        self._ever: dict[Hashable, Workers] = {}
        self._nowhere: dict[Hashable, str] = {}

    def locate_by(self, topology: Topology) -> None:
        """Take another topology: every worker is looked up in it."""
        self.topology = topology
        self._change_fleet([], list(self._offers.values()))

    def choose(self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float) -> PlaceAnswer:
        """Return the outcome for one more executor; a wait for data is kept."""
        self.refresh(now_s)
        cached = self._cached(application, profile_id, wish)
        if self._hopeless(application, cached):
            return Wait(tuple(sorted(cached.ever))) if cached.ever else Infeasible()
        request, memory = self._asked(application, profile_id, wish, now_s)
        outcome = place(request, self.fleet, memory)
        if outcome.data_wait is not None:
            self._keep(application, outcome.data_wait)
        return outcome

    def why(
        self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float
    ) -> tuple[Request, Memory, list[Why]]:
        """Return what was asked for, and of every worker, why it would get the next executor or not."""
        self.refresh(now_s)
        request, memory = self._asked(application, profile_id, wish, now_s)
        return request, memory, explain(request, self.fleet, memory)

    def why_waiting(self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float) -> str:
        """Return one clause that says why no worker takes an executor of the application now."""
        cached = self._cached(application, profile_id, wish)
        if cached.ever:
            request, memory = self._asked(application, profile_id, wish, now_s)
            return why_waiting(request, self.fleet, memory)
        if cached.shape not in self._nowhere:
            self._nowhere[cached.shape] = why_waiting(cached.request, self.fleet, cached.memory)
        return self._nowhere[cached.shape]

    def behind_others(self, application: Application, profile_id: str, wish: ExecutorWish) -> str:
        """Return `why_waiting` in short, where the applications ahead want every worker that would do but for memory; else
        empty."""
        cached = self._cached(application, profile_id, wish)
        if not self._hopeless(application, cached):
            return ""
        would_do = (cached.passes(worker) for name in cached.ever if (worker := self.fleet.get(name)))
        return behind(self.queue.ahead(application)) if any(would_do) else ""

    def needed_type(
        self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float, *, labels: bool = True
    ) -> WorkerType | None:
        """Return the worker that an executor of the application needs, if none that is there could ever take one. `labels`
        False: whatever labels workers have. Raise `BadInput` for an executor that cannot be on any."""
        cached = self._cached(application, profile_id, wish)
        if labels and cached.ever:
            return None
        request = replace(cached.request, cores=self.planned_cores(application, now_s))
        need_on = _need_on(application, profile_id, wish)
        return needed_type(
            request if labels else replace(request, labels=()),
            self.fleet,
            cached.memory,
            lambda cores: need_on(cores).least_mb,
        )

    def policy_of(self, application: Application) -> str:
        return application.options.placement.policy or self.policy

    # ------------------------------------------------------------------ the workers

    def refresh(self, now_s: float) -> None:
        """Bring the fleet up to date."""
        offers = self.registry.workers.starting(now_s)
        if offers is not self._offers:
            before, self._offers = self._offers, offers
            gone = [name for name in before if name not in offers]
            new = [info for name, info in offers.items() if before.get(name) is not info]
            if gone or new:
                self._change_fleet(gone, new)
        changed = self.registry.changes.dirty_workers & offers.keys()
        self.registry.changes.dirty_workers -= changed
        for worker_id in changed:
            worker = self.fleet.get(worker_id)
            assert worker is not None
            there = [placed for placed in self.registry.on(worker_id) if not placed[1].cleaned]
            worker.occupy(self._occupant(application, executor, now_s) for application, executor in there)
            self._needs[worker_id] = needs.needs(there)

    def _change_fleet(self, gone: Sequence[str], new: Sequence[WorkerInfo]) -> None:
        """Remove workers and make new ones; requests, and the workers that applications want, may be others then."""
        self.fleet.change(gone, [self._worker(info) for info in new])
        self._ever.clear()
        self._nowhere.clear()
        for application in self.registry.applications.values():
            application.placement.requests.clear()
        self.queue.workers_changed()
        self.registry.changes.dirty_workers.update(info.worker_id for info in new)

    def _worker(self, info: WorkerInfo) -> WorkerState:
        return WorkerState(
            info.worker_id,
            cores=info.cores,
            memory_mb=info.memory_mb,
            host=info.host,
            labels=info.labels,
            pieces=ResourceSet({name: count * SCALE for name, count in info.resources.items()}),
            location=self.topology.locate(info.host),
            images=info.images,
        )

    def _occupant(self, application: Application, executor: Executor, now_s: float) -> Occupant:
        """Return an executor as an occupant. An executor that is being ended holds its pieces and ports to its last moment,
        but counts no more for memory and cores."""
        options, counts, spec = application.options.placement, needs.counts(application, executor), executor.record.spec
        assert spec is not None, "executors that are adopted are on workers that nothing is placed on"
        cores = float(spec.slots)
        with guarded(application, "planning its cores"):
            cores = self.planned_cores(application, now_s)
        return Occupant(
            key=ExecutorKey(application.id, executor.record.executor_id).text,
            application_id=application.id,
            priority=application.priority(),
            cores=cores if counts else 0.0,
            least_mb=spec.memory_mb + (spec.off_heap_floor_mb or 0) if counts else 0,
            held=executor.record.held,
            ports=options.ports,
            group=_group(application),
            apart=options.apart,
            ending=not counts,
        )

    # ------------------------------------------------------------------ the request

    def _asked(self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float) -> tuple[Request, Memory]:
        """Return the request for a further executor of the application, with the applications that come first."""
        cached, mine = self._cached(application, profile_id, wish), rank_of(application)
        # an application that had others end on a worker comes first there
        others = [one for one in self.registry.applications.values() if one.placement.evicting and not one.ended]
        request = replace(
            cached.request,
            cores=self.planned_cores(application, now_s),
            patience=self._patience(application, now_s) if cached.request.prefer or application.waits_for_data else None,
            ahead=self.queue.ahead(application),
            kept=self.queue.kept(application).union(*(one.placement.evicting for one in others if rank_of(one) < mine)),
        )
        return request, cached.memory

    def _cached(self, application: Application, profile_id: str, wish: ExecutorWish) -> CachedRequest:
        """Return the request, worked out once, as long as nothing of the application and no worker changes."""
        known = application.placement.requests.get(profile_id)
        if known is None:
            request, memory = self._request(application, profile_id, wish)
            shape = (request.labels, request.pieces, memory.each_mb)
            if shape not in self._ever:
                self._ever[shape] = Workers(worker.worker_id for worker in ever_fitting(request, self.fleet, memory))
            known = CachedRequest(request, memory, passing(PASSING, request), shape, self._ever[shape])
            application.placement.requests[profile_id] = known
        return known

    def _wants(self, application: Application) -> Workers:
        """Return the workers where it may go sooner or later; an application that waits for its input wants no others
        meanwhile."""
        each = [self._cached(application, *wish).ever for wish in application.placement.wanted.items()]
        ever = each[0] if len(each) == 1 else Workers().union(*each)
        if not application.waits_for_data:
            return ever
        hosts = _data_shares(application)
        return Workers(name for name in ever if (worker := self.fleet.get(name)) and worker.host in hosts)

    def _hopeless(self, application: Application, cached: CachedRequest) -> bool:
        """Return True if the applications ahead wait for every worker that will do, if there is one. An application that
        waits for its input is asked all the same, because its patience may be over."""
        return not application.waits_for_data and self.queue.leaves_none_of(cached.ever, application)

    def _request(self, application: Application, profile_id: str, wish: ExecutorWish) -> tuple[Request, Newcomer]:
        """Return the request without applications ahead of it, its cores and its patience."""
        options, prefer = application.options.placement, _data_shares(application)
        request = Request(
            application_id=application.id,
            priority=application.priority(),
            cores=0.0,
            policy=self.policy_of(application),
            pieces=ResourceSet(options.resources),
            ports=options.ports,
            labels=options.labels,
            group=_group(application),
            apart=options.apart,
            image=full_image_name(application.options.image or ""),
            prefer=prefer,
            preferred_locations=tuple((host, self.topology.locate(host), share) for host, share in prefer.items()),
            local=self._host_of(application.record.registration),
            evict=options.evict,
        )
        return request, Newcomer(_need_on(application, profile_id, wish), self.fleet.sizes, self._needs)

    def _host_of(self, driver: Registration) -> str:
        """Return the host that the driver runs on, as workers there call it: it may have an address of its own for
        executors."""
        there = (info.host for info in self._offers.values() if info.boot_id == driver.boot_id)
        return next(there, driver.host)

    def planned_cores(self, application: Application, now_s: float) -> float:
        """Return the peak that is planned for one executor: the floor without a profile, all it can use with a profile and no
        deadline, else its share of the least cores for the deadline as they were at submission."""
        what, deadline_s = application.estimate, application.options.deadline_s
        if what is None:
            return QuotaSettings().floor
        known = application.placement.planned_cores
        if known is None or known.estimate is not what or known.deadline_s != deadline_s:
            most = self.registry.workers.capacity(application, now_s)
            cores = None if deadline_s is None else whole_forecast(what, most).least_cores(deadline_s)
            peak = most.cores if cores is None else min(cores, most.cores)
            known = PlannedCores(what, deadline_s, peak / most.executors)
            # without a worker the peak is not known yet
            application.placement.planned_cores = known if most.cores else None
        return known.cores

    # ------------------------------------------------------------------ waiting for data

    def _patience(self, application: Application, now_s: float) -> Patience | None:
        options, waits = application.options.placement, application.record.data_waits
        if options.wait == "none":
            return None
        stages = application.estimate.stages if application.estimate else ()
        return Patience(
            wait=options.wait,
            move_s=options.move_s,
            tasks=stages[0].tasks if stages else 1,
            deadline_s=application.options.deadline_s,
            elapsed_s=application.elapsed_s(now_s),
            last=waits[-1] if waits else None,
            duration_s=self._duration_s,
            ahead=lambda: [_data_shares(self.registry.applications[name]) for name in self.queue.before(application)],
        )

    def _duration_s(self, application_id: str) -> float | None:
        """Return the application's duration as far as it is known: its deadline, else what its profile says, else as long as
        it has taken."""
        application = self.registry.applications.get(application_id)
        if application is None:
            return None
        if application.options.deadline_s is not None:
            return application.options.deadline_s
        if application.estimate is not None:
            return max(1.0, sum(stage.duration_s for stage in application.estimate.stages))
        return max(1.0, application.heard_s - application.started_s)

    def _keep(self, application: Application, wait: DataWait) -> None:
        """Keep a wait, which is stored when it begins and when it is over."""
        waits, goes_on = application.record.data_waits, application.waits_for_data
        if goes_on:
            waits.pop()
        waits.append(wait)
        if not goes_on or wait.local is not None:
            self.registry.changes.order(application)
            self.registry.save(application)


def _need_on(application: Application, profile_id: str, wish: ExecutorWish) -> Callable[[float], Need]:
    """Return a function from a worker's cores to the need of a further executor there; it raises `BadInput` where the
    executor cannot run."""
    registration = application.record.registration

    def need(cores: float) -> Need:
        slots = executor_slots(registration.conf, wish, profile_id, cores)
        size = executor_memory(registration.conf, wish, slots, python=registration.python is not None)
        return Need(f"{application.id}/new", size.total_mb, size.off_heap_floor_mb, priority=application.priority())

    return need


def _data_shares(application: Application) -> dict[str, float]:
    """Return each host's share of the application's input."""
    return application.placement.shares(application.options.placement.prefer)


def _group(application: Application) -> str:
    """Return the name that others want to be apart from: the group that the application names, else its own name."""
    return application.options.placement.group or application.name

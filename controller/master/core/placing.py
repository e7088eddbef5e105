"""The master's side of placement: applications as the folder `placement` sees them, and their memory as `master_memory`
does.

The workers' states are `worker_states`'. `placement.plan` decides; what is done with a decision is `executors`' matter."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from controller.master.core import data_waits
from controller.master.core.application import Application
from controller.master.core.guard import guarded
from controller.master.core.needs import need_of_another, needs_peak, planned_peak
from controller.master.core.placement_state import CachedRequest
from controller.master.core.queue import Queue, Workers, by_rank, rank_of, waits
from controller.master.core.registry import Registry
from controller.master.core.worker_states import WorkerStates, own_group
from controller.runtime.base import full_image_name
from controller.wire.driver import ExecutorWish
from master_memory.room import NEVER_MB, Newcomer
from placement.filters import PASSING, passing
from placement.fleet import Fleet
from placement.growth import WorkerType
from placement.plan import Infeasible, PlaceAnswer, Wait, ever_fitting, needed_type, place, taking, type_for
from placement.request import Memory, Request
from placement.why import Why, behind, explain, why_waiting


class Placing:
    """The translator for the core. `policy` is that of applications that name none."""

    def __init__(self, registry: Registry, fleet: Fleet, policy: str) -> None:
        self.registry, self.fleet, self.policy = registry, fleet, policy
        self.states = WorkerStates(registry, fleet)
        self.queue = Queue(registry, self._wants)
        self._ever: dict[Hashable, Workers] = {}
        self._nowhere: dict[Hashable, str] = {}

    def refresh(self, now_s: float) -> None:
        """Bring the workers' states up to date. Requests, and the workers that applications want, follow from which workers
        there are."""
        if self.states.take_offers(now_s):
            self._ever.clear()
            self._nowhere.clear()
            for application in self.registry.applications.values():
                application.placement.requests.clear()
            self.queue.workers_changed()
            self._claim_joined()
        self.states.occupy(now_s)

    def _claim_joined(self) -> None:
        """Keep workers that have joined for the applications that asked for them, so that no other application takes them
        before: first for those that fit on no other worker, then for deadlines, of which the first to ask comes first."""
        open_ones = [one for one in self.registry.applications.values() if not one.ended]
        for application in by_rank(one for one in open_ones if one.placement.infeasible is not None and waits(one)):
            with guarded(application, "looking for a worker that has joined for it"):
                if not application.placement.claimed:
                    self._claim(application, self.ever(application), 1, open_ones)
        asking = [(one.placement.further, one) for one in open_ones if one.placement.further is not None]
        for further, application in sorted(asking, key=lambda one: one[0].comes_s):
            with guarded(application, "looking for workers that have joined for its deadline"):
                there = self.ever(application)
                number = self._claim(application, there - further.there, further.own, open_ones)
                application.placement.further = replace(further, own=further.own - number, there=there)

    def _claim(self, application: Application, joined: Workers, most: int, others: Sequence[Application]) -> int:
        """Keep up to that many of the workers that have joined for the application; return their number."""
        mine = sorted(joined.difference(*(one.placement.claimed for one in others)))[:most]
        application.placement.claimed.update(mine)
        return len(mine)

    def choose(self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float) -> PlaceAnswer:
        """Return the outcome for one more executor; a wait for data is kept."""
        self.refresh(now_s)
        cached = self._cached(application, profile_id, wish)
        if self._hopeless(application, cached):
            return Wait(tuple(sorted(cached.ever))) if cached.ever else Infeasible()
        request, memory = self._asked(application, profile_id, wish, now_s)
        outcome = place(request, self.fleet, memory)
        if outcome.data_wait is not None:
            data_waits.keep(application, outcome.data_wait, self.registry)
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
        """Return the worker that an executor of the application needs, if no present worker could ever take one. `labels`
        False: whatever labels workers have. Raise `BadInput` for an executor that can be on no worker."""
        cached = self._cached(application, profile_id, wish)
        if labels and cached.ever:
            return None
        request = replace(cached.request, cores=planned_peak(application, self.registry.workers, now_s))
        need_on = need_of_another(application, profile_id, wish)
        return needed_type(
            request if labels else replace(request, labels=()),
            self.fleet,
            cached.memory,
            lambda cores: need_on(cores).least_mb,
        )

    def further_type(self, application: Application, cores: float) -> WorkerType:
        """Return a worker of that many cores which could take an executor of the application. Raise `BadInput` for an
        executor that cannot be on any."""
        profile_id, wish = application.placement.first_wish
        need_on = need_of_another(application, profile_id, wish)
        request = replace(self._cached(application, profile_id, wish).request, cores=cores)
        return type_for(request, lambda cores: need_on(cores).least_mb)

    def ever(self, application: Application) -> Workers:
        """Return the workers that could take an executor of the application if no one else were there."""
        return self._cached(application, *application.placement.first_wish).ever

    def with_room(self, application: Application, now_s: float) -> Workers:
        """Return the workers that would take an executor of the application now."""
        self.refresh(now_s)
        profile_id, wish = application.placement.first_wish
        request, memory = self._asked(application, profile_id, wish, now_s)
        return Workers(worker.worker_id for worker in taking(request, self.fleet, memory))

    def most_mb(self, application: Application, profile_id: str, wish: ExecutorWish) -> int:
        """Return the size of the largest container that an executor of the application needs on any worker, in MiB; 0 without
        a worker."""
        each_mb = self._cached(application, profile_id, wish).memory.each_mb
        return max((mb for mb in each_mb if mb < NEVER_MB), default=0)

    def policy_of(self, application: Application) -> str:
        return application.options.placement.policy or self.policy

    # ------------------------------------------------------------------ the request

    def _asked(self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float) -> tuple[Request, Memory]:
        """Return the request for a further executor of the application, with the applications that come first."""
        cached = self._cached(application, profile_id, wish)
        waits_for_data = cached.request.prefer or application.waits_for_data
        request = replace(
            cached.request,
            cores=planned_peak(application, self.registry.workers, now_s),
            needs_peak=needs_peak(application),
            patience=data_waits.patience(application, self.queue, now_s) if waits_for_data else None,
            ahead=self.queue.ahead(application),
            kept=self._kept(application),
        )
        return request, cached.memory

    def _kept(self, application: Application) -> Workers:
        """Return the workers of which the application gets none: those that applications in line before it want, those on
        which others had executors end, and those that have joined for deadlines of others. It gets a worker that has joined
        for its own deadline, whoever waits."""
        kept, mine = self.queue.kept(application), rank_of(application)
        if application.placement.claimed:
            kept -= application.placement.claimed
        others = [
            one
            for one in self.registry.applications.values()
            if (one.placement.evicting or one.placement.claimed) and not one.ended and one is not application
        ]
        if not others:
            return kept
        evicting = (one.placement.evicting for one in others if rank_of(one) < mine)
        claimed = (one.placement.claimed for one in others if one.priority() >= application.priority())
        return kept.union(*evicting, *claimed)

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
        """Return the workers where it may go sooner or later; an application that waits for its input wants no other workers
        meanwhile."""
        each = [self._cached(application, *wish).ever for wish in application.placement.wanted.items()]
        ever = each[0] if len(each) == 1 else Workers().union(*each)
        if not application.waits_for_data:
            return ever
        hosts = data_waits.data_shares(application)
        return Workers(name for name in ever if (worker := self.fleet.get(name)) and worker.host in hosts)

    def _hopeless(self, application: Application, cached: CachedRequest) -> bool:
        """Return True if the applications ahead wait for every worker that will do, if there is one. An application that
        waits for its input is asked all the same, because its patience may be over, and so is one for which a worker is
        kept."""
        if application.waits_for_data or application.placement.claimed:
            return False
        return self.queue.leaves_none_of(cached.ever, application)

    def _request(self, application: Application, profile_id: str, wish: ExecutorWish) -> tuple[Request, Newcomer]:
        """Return the request without applications ahead of it, its cores and its patience."""
        options, prefer = application.options.placement, data_waits.data_shares(application)
        request = Request(
            application_id=application.id,
            priority=application.priority(),
            cores=0.0,
            policy=self.policy_of(application),
            pieces=options.pieces,
            ports=options.ports,
            labels=options.labels,
            group=own_group(application),
            apart=options.apart,
            image=full_image_name(application.options.image or ""),
            prefer=prefer,
            preferred_locations=tuple((host, self.states.topology.locate(host), share) for host, share in prefer.items()),
            local=self.states.host_of(application.record.registration),
            evict=options.evict,
        )
        return request, Newcomer(need_of_another(application, profile_id, wish), self.fleet.sizes, self.states.needs)

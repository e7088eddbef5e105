"""The master's side of placement: workers and applications as the folder `placement` sees them, and its decisions.

A worker's place is made anew when something on it changed (`Registry.touched`), and only when somebody is to be placed.
Memory is the memory manager's (`controller.master.memory`, `master_memory.split`): it says how large a container would be and
who could give memory up. What is done with a decision is `executors`' matter."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from controller.master import memory
from controller.master.application import Application, Ask, Executor, Peak
from controller.master.data_wait import data_shares, rather_waits, with_data
from controller.master.executor_spec import executor_memory, executor_slots
from controller.master.feasibility import whole_forecast
from controller.master.guard import guarded
from controller.master.queue import Queue, Workers
from controller.master.registry import Registry
from controller.messages import ExecutorWish, WorkerInfo
from controller.runtime.base import full_image_name
from master_memory.split import Need, admits, victims
from placement.choose import Places, Why, decide, explain, located
from placement.filters import LASTING, PASSING, Check, refusals, relevant
from placement.growth import WorkerType, rounded
from placement.places import Occupant, Place, Request
from placement.policies import POLICIES, Draw, Policy
from placement.preempt import fewest
from placement.resources import SCALE, ResourceSet
from placement.scores import Weights
from placement.topology import Topology
from stage_model.errors import BadInput
from stage_model.settings import QuotaSettings

NEVER_MB = 2**40
"""More than any worker has."""
BUT_MEMORY = [one for one in PASSING if one.name != "memory"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with what only the master knows: its container's memory on a worker, and whether that worker is kept for
    somebody who waits ahead of it."""

    request: Request
    need: Callable[[Place], Need]
    kept: Callable[[Place], bool]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What became of a request. `worker_id` None: it waits, for one of `waits_for` or, if there is none, for a worker that is
    not there yet. `squeezes`: executors there that are brought down to their floor of off-heap memory for it; `evicts`: those
    that must end before it can come."""

    worker_id: str | None = None
    waits_for: tuple[str, ...] = ()
    squeezes: tuple[str, ...] = ()
    evicts: tuple[str, ...] = ()


class Placing:
    """Chooses workers for executors. `policy` is that of applications that name none; `draw` gives numbers in [0, 1)."""

    def __init__(self, registry: Registry, *, policy: str, weights: Weights, draw: Draw) -> None:
        self.registry, self.policy, self.weights, self._draw = registry, policy, weights, draw
        self.topology = Topology()
        self.places = Places()
        self.queue = Queue(registry, self._wants)
        self._infos: dict[str, WorkerInfo | None] = {}
        self._seen: tuple[int, int] | None = None
        self._needs: dict[str, list[Need]] = {}
        self._policies: dict[str, Policy] = {}
        self._ever: dict[Hashable, Workers] = {}
        self._nowhere: dict[Hashable, str] = {}
        self._generation = 0

    def locate_by(self, topology: Topology) -> None:
        """Another topology: every worker is looked up in it."""
        self.topology = topology
        self._infos = dict.fromkeys(self._infos)
        self._seen = None

    def choose(self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float) -> Chosen:
        """The worker for one more executor."""
        self.refresh(now_s)
        if self._hopeless(application, self._ask(application, profile_id, wish)):
            return Chosen()
        asked = self.asked(application, profile_id, wish, now_s)
        decision = decide(asked.request, self.places, self._policy(application), self.weights)
        near = with_data(asked.request, self.places)
        if rather_waits(application, decision.place, near, self.registry, now_s):
            return Chosen(waits_for=tuple(place.worker_id for place in near))
        if decision.place is not None:
            return Chosen(decision.place.worker_id)
        waits = Chosen(waits_for=decision.waits_for)
        places = [place for name in decision.waits_for if (place := self.places.get(name)) and not asked.kept(place)]
        evict = application.options.placement.evict
        return self._squeezing(asked, places) or (self._evicting(asked, places) if evict else None) or waits

    def why(self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float) -> tuple[Request, list[Why]]:
        """Of every worker, why it would get the next executor or not."""
        self.refresh(now_s)
        asked = self.asked(application, profile_id, wish, now_s)
        whys = explain(asked.request, self.places, self.weights, lambda place: self._memory_reason(asked, place))
        return asked.request, whys

    def why_waiting(self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float) -> str:
        """One clause that says why no worker takes an executor of it now."""
        if not len(self.places):
            return "no worker has joined"
        ask = self._ask(application, profile_id, wish)
        if not ask.ever:
            return self._never(ask)
        asked, checks = self.asked(application, profile_id, wish, now_s), ask.checks
        ever = self.places.ever(asked.request)
        by_memory = [place for place in ever if _passes(asked.request, checks, place)]
        if not by_memory and application.id in {a for place in ever for a in place.by_application}:
            return "its executor on every worker that has room is not removed yet"
        if not by_memory:
            return _joined((place, refusals(BUT_MEMORY, asked.request, place)) for place in ever)
        if application.waits_for_data and any(asked.request.memory_now(place) for place in by_memory):
            hosts = ", ".join(place.worker_id for place in with_data(asked.request, self.places))
            return f"others are free, but it waits for a worker that has its input ({hosts})"
        open_to_it = [place for place in by_memory if not asked.kept(place)]
        if not open_to_it:
            return self._ahead_of(application)
        return memory.lacking([(p.worker_id, p.memory_mb, self._there(p), asked.need(p)) for p in open_to_it])

    def _never(self, ask: Ask) -> str:
        if ask.shape not in self._nowhere:
            refused = ((place, refusals(LASTING, ask.request, place)) for place in self.places.all())
            self._nowhere[ask.shape] = _joined(refused)
        return self._nowhere[ask.shape]

    def behind_others(self, application: Application, profile_id: str, wish: ExecutorWish) -> str:
        """`why_waiting` in short, where those ahead of it want every worker that would do but for memory; else empty."""
        ask = self._ask(application, profile_id, wish)
        if not self._hopeless(application, ask):
            return ""
        would_do = (_passes(ask.request, ask.checks, place) for name in ask.ever if (place := self.places.get(name)))
        return self._ahead_of(application) if any(would_do) else ""

    def _ahead_of(self, application: Application) -> str:
        ahead = self.queue.ahead(application)
        return f"{ahead} ahead of it {'waits' if ahead == 1 else 'wait'} for memory, too"

    def needed_type(
        self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float, *, labels: bool = True
    ) -> WorkerType | None:
        """The worker that an executor of it needs, if none that is there could ever take one. `labels` False: whatever labels
        workers have."""
        ask = self._ask(application, profile_id, wish)
        request = ask.request if labels else replace(ask.request, labels=())
        if ask.ever if labels else self.places.ever(request):
            return None
        kind = rounded(
            self.planned_cores(application, now_s),
            0,
            request.pieces,
            tuple((one.name, "true" if one.value is None else one.value) for one in request.labels if one.wanted),
        )
        conf, python = application.record.registration.conf, application.record.registration.python is not None
        slots = executor_slots(conf, wish, profile_id, kind.cores)
        return rounded(kind.cores, executor_memory(conf, wish, slots, python=python).least_mb, kind.pieces, kind.labels)

    def policy_of(self, application: Application) -> str:
        return application.options.placement.policy or self.policy

    # ------------------------------------------------------------------ the workers

    def refresh(self, now_s: float) -> None:
        """The places as they are now. Which workers are still heard of is looked up once a second."""
        seen = (self.registry.workers.version, math.floor(now_s))
        if seen != self._seen:
            self._seen = seen
            fresh = self.registry.workers.fresh(now_s)
            gone = [name for name in self._infos if name not in fresh]
            new = [info for name, info in fresh.items() if self._infos.get(name) is not info]
            if gone or new:
                self.places.change(gone, [self._place(info) for info in new])
                self._ever.clear()
                self._nowhere.clear()
                self._generation += 1
                self.queue.workers_changed()
                for name in gone:
                    del self._infos[name]
                self._infos.update((info.worker_id, info) for info in new)
                self.registry.touched.update(info.worker_id for info in new)
        touched = self.registry.touched & self._infos.keys()
        self.registry.touched -= touched
        for worker_id in touched:
            place = self.places.get(worker_id)
            assert place is not None
            there = [placed for placed in self.registry.on(worker_id) if not placed[1].cleaned]
            place.occupy(self._occupant(application, executor, now_s) for application, executor in there)
            self._needs[worker_id] = memory.occupants(there)

    def _place(self, info: WorkerInfo) -> Place:
        return Place(
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
        """One that is being ended holds its pieces and ports to its last moment, but counts no more for memory and cores."""
        options, counts, spec = application.options.placement, memory.counts(application, executor), executor.record.spec
        cores = float(spec.slots)
        with guarded(application, "planning its cores"):
            cores = self.planned_cores(application, now_s)
        return Occupant(
            key=f"{application.id}/{executor.record.executor_id}",
            application_id=application.id,
            priority=application.priority(),
            cores=cores if counts else 0.0,
            least_mb=spec.memory_mb + (spec.off_heap_floor_mb or 0) if counts else 0,
            held=executor.record.held,
            ports=options.ports,
            group=group_of(application),
            apart=options.apart,
            ending=not counts,
        )

    # ------------------------------------------------------------------ the request

    def asked(self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float) -> Asked:
        """A further executor of the application."""
        ask, waited_for = self._ask(application, profile_id, wish), self.queue.kept(application)
        # whoever had others end somewhere comes there first
        evicting = {name for one in self._evicting_others(application) for name in one.evicting}

        def kept(place: Place) -> bool:
            return place.worker_id in waited_for or place.worker_id in evicting

        def memory_now(place: Place) -> bool:
            return not kept(place) and admits(place.memory_mb, self._there(place), ask.need(place))

        cores = self.planned_cores(application, now_s)
        return Asked(replace(ask.request, cores=cores, memory_now=memory_now), ask.need, kept)

    def _ask(self, application: Application, profile_id: str, wish: ExecutorWish) -> Ask:
        """Worked out once, as long as nothing of it and no worker changes."""
        of = (self._generation, application.options, application.priority(), wish)
        known = application.asks.get(profile_id)
        if known is None or known.of != of:
            request, need = self._request(application, profile_id, wish)
            shape = (request.labels, request.pieces, tuple(need(place).least_mb for place in self.places.sizes))
            if shape not in self._ever:
                self._ever[shape] = Workers(place.worker_id for place in self.places.ever(request))
            known = application.asks[profile_id] = Ask(
                of, request, need, relevant(BUT_MEMORY, request), shape, self._ever[shape]
            )
        return known

    def _wants(self, application: Application) -> Workers:
        """Where it may go sooner or later; one that waits for its input wants no other workers meanwhile."""
        each = [self._ask(application, *wish).ever for wish in application.wanted.items()]
        ever = each[0] if len(each) == 1 else Workers().union(*each)
        if not application.waits_for_data:
            return ever
        hosts = data_shares(application)
        return Workers(name for name in ever if (place := self.places.get(name)) and place.host in hosts)

    def _hopeless(self, application: Application, ask: Ask) -> bool:
        """Whether those ahead of it wait for every worker that will do, if there is one. Who waits for its input may be
        weary of it, whatever the others want."""
        return not application.waits_for_data and self.queue.leaves_none_of(ask.ever, application)

    def _request(
        self, application: Application, profile_id: str, wish: ExecutorWish
    ) -> tuple[Request, Callable[[Place], Need]]:
        """Without anybody ahead of it, and without its cores."""
        options, registration = application.options.placement, application.record.registration
        needs: dict[float, Need] = {}

        def need(place: Place) -> Need:
            if place.cores not in needs:
                key, priority = f"{application.id}/new", application.priority()
                slots = executor_slots(registration.conf, wish, profile_id, place.cores)
                try:
                    size = executor_memory(registration.conf, wish, slots, python=registration.python is not None)
                    needs[place.cores] = Need(key, size.total_mb, size.off_heap_floor_mb, priority=priority)
                except BadInput:
                    # off-heap memory of a fixed size that is too little for so many slots
                    needs[place.cores] = Need(key, NEVER_MB, None, priority=priority)
            return needs[place.cores]

        prefer = data_shares(application)
        request = Request(
            application_id=application.id,
            priority=application.priority(),
            cores=0.0,
            least_mb=min((need(place).least_mb for place in self.places.sizes), default=0),
            memory_now=lambda place: need(place).least_mb <= place.memory_mb,
            memory_ever=lambda place: need(place).least_mb <= place.memory_mb,
            pieces=ResourceSet(options.resources),
            ports=options.ports,
            labels=options.labels,
            group=group_of(application),
            apart=options.apart,
            image=full_image_name(application.options.image or ""),
            prefer=prefer,
            preferred_locations=tuple((host, self.topology.locate(host), share) for host, share in prefer.items()),
            local=registration.host,
        )
        return request, need

    def _evicting_others(self, application: Application) -> list[Application]:
        others = (one for one in self.registry.applications.values() if one.evicting and not one.ended)
        return [one for one in others if one is not application and memory.rank(one) < memory.rank(application)]

    def _there(self, place: Place) -> list[Need]:
        """Also of a place from which somebody was left out."""
        return [need for need in self._needs.get(place.worker_id, ()) if need.key in place.occupants]

    def planned_cores(self, application: Application, now_s: float) -> float:
        """The peak that is planned for one executor: the floor without a profile, all it can use with a profile and no
        deadline, else its share of the least cores for the deadline as they were at submission."""
        what, deadline_s = application.estimate, application.options.deadline_s
        if what is None:
            return QuotaSettings().floor
        known = application.peak
        if known is None or known.estimate is not what or known.deadline_s != deadline_s:
            most = self.registry.workers.capacity(application, now_s)
            cores = None if deadline_s is None else whole_forecast(what, most).least_cores(deadline_s)
            peak = most.cores if cores is None else min(cores, most.cores)
            known = Peak(what, deadline_s, peak / most.executors)
            # without a worker nobody knows yet
            application.peak = known if most.cores else None
        return known.cores

    def _policy(self, application: Application) -> Policy:
        name = self.policy_of(application)
        if name not in self._policies:
            self._policies[name] = POLICIES[name](self._draw)
        return self._policies[name]

    # ------------------------------------------------------------------ preemption when placing

    def _squeezing(self, asked: Asked, places: Sequence[Place]) -> Chosen | None:
        """The worker where the fewest of lower priority must give off-heap memory up for it."""
        checks = relevant(BUT_MEMORY, asked.request)
        open_to_it = [place for place in places if _passes(asked.request, checks, place)]
        found = {p.worker_id: gone for p in open_to_it if (gone := self._squeezed(asked, p)) is not None}
        if not found:
            return None
        least = min(map(len, found.values()))
        best = [place for place in open_to_it if len(found.get(place.worker_id, range(least + 1))) == least]
        chosen = located(asked.request, best, self.weights)[0]
        return Chosen(chosen.worker_id, squeezes=found[chosen.worker_id])

    def _squeezed(self, asked: Asked, place: Place) -> tuple[str, ...] | None:
        return victims(place.memory_mb, self._there(place), asked.need(place))

    def _evicting(self, asked: Asked, places: Sequence[Place]) -> Chosen | None:
        """The worker where the fewest of lower priority must end for it."""
        checks = relevant(BUT_MEMORY, asked.request)

        def enough(place: Place, gone: Sequence[Occupant]) -> bool:
            ending = {one.key for one in place.occupants.values() if one.ending}
            left = place.without(ending.union(one.key for one in gone))
            return _passes(asked.request, checks, left) and self._squeezed(asked, left) is not None

        found = fewest(places, asked.request.priority, enough)
        if found is None:
            return None
        return Chosen(waits_for=(found.place.worker_id,), evicts=tuple(one.key for one in found.occupants))

    def _memory_reason(self, asked: Asked, place: Place) -> str:
        if asked.kept(place):
            return "one ahead of it waits for memory there"
        gone = self._squeezed(asked, place)
        if gone is not None:
            return f"nothing is free, but {len(gone)} of lower priority would be brought down to their floor"
        return memory.lacking([(place.worker_id, place.memory_mb, self._there(place), asked.need(place))])


def group_of(application: Application) -> str:
    """What others want to be apart from: the group that it names, else its name."""
    return application.options.placement.group or application.name


def _joined(refused: Iterable[tuple[Place, list[tuple[str, str]]]]) -> str:
    """As "w1: port 80 is taken; w2 and w3: ..." of at most three reasons."""
    by_reason: dict[str, list[str]] = {}
    for place, reasons in refused:
        by_reason.setdefault(reasons[0][1] if reasons else "", []).append(place.worker_id)
    shown = [f"{_names(names)}: {reason}" for reason, names in list(by_reason.items())[:3]]
    return "; ".join(shown) + ("; and so on" if len(by_reason) > 3 else "")


def _names(workers: Sequence[str]) -> str:
    if len(workers) > 3:
        return f"{', '.join(workers[:2])} and {len(workers) - 2} more"
    return " and ".join(filter(None, (", ".join(workers[:-1]), workers[-1])))


def _passes(request: Request, checks: Sequence[Check], place: Place) -> bool:
    return not any(check(request, place) for check in checks)

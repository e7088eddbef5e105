"""The agent's thread for rates: it measures what executors read, write, receive and send, and sets and lifts their rates.

A shell around `controller.agent.core.rates`, next to the control loop, which only says whose executors there are. A rate that
could not be set or lifted is tried again at the next look. Rates that an earlier agent has left are lifted when this one
begins or first sees the executor, whatever its options.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from controller.agent.core.rates import Busy, Meter, Pair, Sharer, ThingUse, asked_rates, joint_rates, separate_rates
from controller.agent.core.step import LoopState, TimedPlan, request
from controller.agent.executors.known import KnownExecutor
from controller.agent.threads import Beat
from controller.asks.options import AgentOptions
from controller.home import Home
from controller.runtime.base import ExecutorKey, Runtime, TrafficPlace
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.networks import shaper_prefix
from controller.runtime.rates import DiskRates, NetworkRates, lift_disk_rates, lift_network_rates
from controller.runtime.table import RUNTIMES
from stage_model.errors import RuntimeFailed, Unavailable

log = logging.getLogger("sparkpace.agent")

LOOK_S = 1.0
SAME = 0.02
"""Rates that differ by less, in parts of the limit, are equal: each write of a network's takes some programs."""
UNSEEN_LOOKS = 10
"""Looks without a sight of a running executor after which that is noted: an executor that has just ended is not seen,
either."""
MEGA = 1e6


class Thing(Protocol):
    """A thing with a limit. Methods as those of `DiskRates`."""

    def counts(self, key: ExecutorKey, place: TrafficPlace) -> tuple[int, int] | None: ...

    def set(self, key: ExecutorKey, place: TrafficPlace, rates: tuple[float, float]) -> None: ...

    def lift(self, key: ExecutorKey, place: TrafficPlace | None) -> None: ...


class Sharing:
    """The sharing of one thing. `limit` in bytes per second is for both directions together (`joint`) or for each; `name`
    and the names of the directions are for messages, `note` takes a line for the master."""

    joint = True
    name = "disk"
    directions = ("read", "write")

    def __init__(self, thing: Thing, limit: float, note: Callable[[str], None]) -> None:
        self._thing, self._limit, self._note = thing, limit, note
        self._busy = (Busy(), Busy())
        self._meters: dict[ExecutorKey, Meter] = {}
        self._held: dict[ExecutorKey, tuple[int, Pair]] = {}
        """Process and rates, in parts of the limit, of executors that have some, also ended ones until these are lifted."""
        self._unseen = Counter[ExecutorKey]()
        """Looks at which a running executor was not seen."""

    def look(self, sharers: Sequence[Sharer], places: Mapping[ExecutorKey, TrafficPlace], now_s: float) -> None:
        """Measure, decide, and set the rates that changed."""
        uses = [use for sharer in sharers if (use := self._use(sharer, places, now_s)) is not None]
        self._meters = {use.sharer.request.key: self._meters[use.sharer.request.key] for use in uses}
        self._unseen = Counter({s.request.key: self._unseen[s.request.key] for s in sharers})
        was_busy, now = [busy.busy_s is not None for busy in self._busy], self._busy
        if self.joint:
            wanted, joint = joint_rates(uses, now[0], now_s, LOOK_S)
            self._busy = (joint, now[1])
        else:
            wanted, self._busy = separate_rates(uses, now, now_s, LOOK_S)
        self._tell(was_busy)
        for key in self._held.keys() - wanted.keys():
            self._lift(key, places.get(key))
        for key, rates in wanted.items():
            self._set(key, places[key], rates)

    def _use(self, sharer: Sharer, places: Mapping[ExecutorKey, TrafficPlace], now_s: float) -> ThingUse | None:
        key = sharer.request.key
        place = places.get(key)
        counts = None if place is None else self._thing.counts(key, place)
        if place is None or counts is None:
            self._unseen[key] += 1
            if self._unseen[key] == UNSEEN_LOOKS:
                self._note(f"what executor {key.text} uses of the {self.name} is not seen from here, so it gets no rates")
            return None
        before = self._meters.get(key)
        meter = self._meters[key] = before.after(place.pid, counts, now_s) if before else Meter(place.pid, counts, now_s)
        asked = None if sharer.asked is None else self._part(sharer.asked)
        return ThingUse(sharer, self._part(meter.rates), asked, self._part(meter.mean))

    def _part(self, rates: Pair) -> Pair:
        return rates[0] / self._limit, rates[1] / self._limit

    def _set(self, key: ExecutorKey, place: TrafficPlace, rates: Pair) -> None:
        pid, before = self._held.get(key, (0, rates))
        if pid == place.pid and all(abs(now - then) < SAME for now, then in zip(rates, before, strict=True)):
            return
        self._held[key] = (place.pid, rates)  # also if it fails half-way, so that it is lifted
        given = (rates[0] * self._limit, rates[1] * self._limit)
        if _done(partial(self._thing.set, key, place, given), self._note):
            said = ", ".join(f"{name} {rate / MEGA:.2f}" for name, rate in zip(self.directions, given, strict=True))
            log.info("%s rates of %s: %s MB/s", self.name, key.text, said)
        else:
            self._held[key] = (0, rates)  # no process has it: the next look tries again

    def _lift(self, key: ExecutorKey, place: TrafficPlace | None) -> None:
        if _done(partial(self._thing.lift, key, place), self._note):
            del self._held[key]
            log.info("%s rates of %s are lifted", self.name, key.text)

    def _tell(self, was_busy: Sequence[bool]) -> None:
        was, now = any(was_busy), any(busy.busy_s is not None for busy in self._busy)
        if now and not was:
            used = max(busy.used for busy in self._busy) * self._limit / MEGA
            self._note(
                f"the {self.name} is busy: executors here use {used:.1f} of {self._limit / MEGA:g} MB/s; those of lower "
                "priority get rates"
            )
        elif was and not now:
            self._note(f"the {self.name} is no longer busy: rates are lifted")


class NetworkSharing(Sharing):
    """The sharing of the network, which has the limit in each direction."""

    joint = False
    name = "network"
    directions = ("receive", "send")


class Rating:
    """The thread's work. `note` takes a line for the master, `clock` is monotonic seconds. `post` and `close` may be called
    from other threads."""

    def __init__(
        self,
        options: AgentOptions,
        cluster_id: str,
        runtime: Runtime,
        note: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._options, self._cluster_id, self._runtime, self._note, self._clock = options, cluster_id, runtime, note, clock
        self._row, self._prefix = RUNTIMES[options.runtime], shaper_prefix(cluster_id, options.worker_id)
        self._lock = threading.Lock()
        self._closed = False
        self._posted: tuple[Collection[ExecutorKey], Sequence[Sharer]] = ((), ())
        self._sharings: list[Sharing] = []
        self._tree = CgroupTree()
        self._seen: dict[ExecutorKey, int] = {}
        """Processes of the executors on which no rates are left of an earlier agent."""

    def post(self, keys: Collection[ExecutorKey], sharers: Sequence[Sharer]) -> None:
        """Take the executors that are known now, and those of them that run with a plan, from the control loop."""
        self._posted = keys, sharers

    def run(self, stop: threading.Event, beat: Beat) -> None:
        """Run the thread: lift what was left, then look until `stop`."""
        with self._lock:
            self._sharings = [] if self._closed else self._begin()
        while not stop.wait(LOOK_S):
            beat()
            self.look(beat)

    def look(self, beat: Beat) -> None:
        """Measure and decide once; `beat` before each thing, because programs take their time."""
        with self._lock:
            if self._closed:
                return
            keys, sharers = self._posted
            places = {key: place for key in keys if (place := self._runtime.place(key)) is not None}
            self._seen = {key: pid for key, pid in self._seen.items() if key in places}
            self._clear(places)
            for sharing in self._sharings:
                beat()
                sharing.look(sharers, places, self._clock())

    def close(self) -> bool:
        """Lift all rates for good; return True if none is left."""
        with self._lock:
            self._closed = True
            return lift_rates(self._options, self._cluster_id, self._runtime)

    def _clear(self, places: Mapping[ExecutorKey, TrafficPlace]) -> None:
        """Lift the disk rates that an earlier agent has left on executors which are seen for the first time."""
        for key, place in places.items():
            if self._seen.get(key) != place.pid and _done(partial(lift_disk_rates, self._tree, key, place), self._note):
                self._seen[key] = place.pid

    def _begin(self) -> list[Sharing]:
        """Lift what an earlier agent has left, or this thread before an error, and find out which rates can be set here. Disk
        rates are lifted at the next look."""
        self._seen = {}
        _done(partial(lift_network_rates, self._prefix), self._note)
        found: list[Sharing] = []
        try:
            if self._options.disk_mb is not None:
                disk = DiskRates(Home(self._options.home).local, self._row, self._tree, os.getpid())
                found.append(Sharing(disk, self._options.disk_mb * MEGA, self._note))
        except Unavailable as error:
            self._note(f"--disk-mb has no effect: {error}")
        try:
            if self._options.net_mbit is not None:
                network = NetworkRates(self._prefix, self._row, self._options.network)
                found.append(NetworkSharing(network, self._options.net_mbit * MEGA / 8, self._note))
        except Unavailable as error:
            self._note(f"--net-mbit has no effect: {error}")
        return found


def sharers_of(
    known: Mapping[ExecutorKey, KnownExecutor], plans: Mapping[str, TimedPlan], state: LoopState, now_s: float
) -> list[Sharer]:
    """Return the executors that run with a plan, with the facts by which things with limits are shared. While it is not
    known whether an executor is only watched, it counts as watched."""
    found = []
    for key, history in state.executors.items():
        if history.decision is not None and history.sampled is not None:
            timed, spec = plans.get(key.application_id), known[key].spec if key in known else None
            plan = None if timed is None else timed.now(now_s)
            rank = request(key, history.decision, plan, 0.0)
            found.append(Sharer(rank, None if plan is None else asked_rates(plan), spec is None or spec.watched))
    return found


def lift_rates(options: AgentOptions, cluster_id: str, runtime: Runtime) -> bool:
    """Lift all rates of a worker's executors, whoever set them; return True if none is left. A failure keeps no other one
    waiting."""
    tree, done = CgroupTree(), True
    for key in runtime.observe():
        place = runtime.place(key)
        done = (place is None or _done(partial(lift_disk_rates, tree, key, place), log.error)) and done
    return _done(partial(lift_network_rates, shaper_prefix(cluster_id, options.worker_id)), log.error) and done


def _done(act: Callable[[], None], tell: Callable[[str], None]) -> bool:
    try:
        act()
    except (RuntimeFailed, OSError, ValueError) as error:
        tell(f"{error}; tried again")
        return False
    return True

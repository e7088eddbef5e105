"""The time that decisions of placement take among many workers with many executors, and a lookup in a large topology.

The production's code on made-up workers; memory is the memory manager's own rule. Not covered: the master around it
(`crowd`).
"""

from __future__ import annotations

import ipaddress
import random
import time

from master_memory.room import Newcomer
from master_memory.split import Need
from placement.fleet import Fleet
from placement.labels import parse_requirements
from placement.plan import Placed, place
from placement.request import Request
from placement.resources import NOTHING, SCALE, ResourceSet
from placement.scores import Weights
from placement.topology import Location, Topology
from placement.worker import Occupant, WorkerState

H_MB = 1408
WORKER_MB = 65_536
FULL_SHARE = 0.5
"""Share of the workers that take no further executor."""


class MadeUpFleet:
    """`workers` with `each` executors; half of them full, a tenth with a label, a twentieth with gpus."""

    def __init__(self, workers: int, each: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.needs: dict[str, list[Need]] = {}
        self.fleet = Fleet((self._worker(number, each) for number in range(workers)), weights=Weights(), draw=self.rng.random)
        self.number = 0

    def _worker(self, number: int, each: int) -> WorkerState:
        full = self.rng.random() < FULL_SHARE
        worker = WorkerState(
            f"w{number:05}",
            cores=float(self.rng.choice((4, 8, 16))),
            memory_mb=each * (H_MB + 64) if full else WORKER_MB,
            host=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            labels={"zone": "a"} if number % 10 == 0 else {},
            pieces=ResourceSet({"gpu": 2 * SCALE}) if number % 20 == 0 else NOTHING,
        )
        worker.occupy(
            Occupant(f"a{number}.{n}/1", f"a{number}.{n}", self.rng.choice((0, 50, 100)), self.rng.uniform(0.1, 2), H_MB + 64)
            for n in range(each)
        )
        self.needs[worker.worker_id] = [Need(key, H_MB, 64) for key in worker.occupants]
        return worker

    def request(self, kind: str, policy: str) -> tuple[Request, Newcomer]:
        """Return the request of an application of its own. "plain" can go to half of the workers, "labelled" to one in
        twenty, "gpu" to one in forty, "data" has its input on three hosts, "none" fits nowhere."""
        self.number += 1
        need = Need(f"n{self.number}/new", 10 * WORKER_MB if kind == "none" else H_MB, 64)
        hosts = [worker.host for worker in self.rng.sample(self.fleet.ordered, 3)] if kind == "data" else []
        request = Request(
            f"n{self.number}",
            self.rng.choice((0, 50, 100)),
            self.rng.uniform(0.1, 2),
            policy,
            pieces=ResourceSet.of(gpu=0.5) if kind == "gpu" else NOTHING,
            labels=parse_requirements("zone=a") if kind == "labelled" else (),
            prefer=dict.fromkeys(hosts, 1 / 3),
        )
        return request, Newcomer(lambda _: need, self.fleet.sizes, self.needs)

    def settle(self, request: Request, memory: Newcomer, chosen: WorkerState) -> None:
        """Put the executor on its worker from now on, and remove another, so that there are always as many."""
        key = f"{request.application_id}/1"
        gone = next(iter(chosen.occupants))
        chosen.remove(gone)
        chosen.add(Occupant(key, request.application_id, request.priority, request.cores, memory.least_mb))
        there = [need for need in self.needs[chosen.worker_id] if need.key != gone]
        self.needs[chosen.worker_id] = [*there, Need(key, H_MB, 64)]


KINDS = ("plain", "labelled", "gpu", "data", "none")


def decisions_ms(crowd: MadeUpFleet, policy: str, kind: str, count: int) -> list[float]:
    """Return the milliseconds of each decision, the executor's placing included."""
    took = []
    for _ in range(count):
        request, memory = crowd.request(kind, policy)
        begun_s = time.perf_counter()
        outcome = place(request, crowd.fleet, memory)
        if isinstance(outcome, Placed):
            chosen = crowd.fleet.get(outcome.worker_id)
            assert chosen is not None
            crowd.settle(request, memory, chosen)
        took.append(1000 * (time.perf_counter() - begun_s))
    return took


def lookups_us(prefixes: int, count: int, seed: int) -> list[float]:
    """Return microseconds of lookups of addresses as text, in a topology of `prefixes` networks of /16 to /32; blocks of
    1,000 lookups each."""
    rng = random.Random(seed)
    entries: dict[str, Location] = {}
    while len(entries) < prefixes:
        length = rng.randint(16, 32)
        network = ipaddress.ip_network((rng.getrandbits(32) >> (32 - length) << (32 - length), length))
        entries[str(network)] = Location(rack=str(len(entries)))
    topology = Topology(entries.items())
    took = []
    for _ in range(count // 1000):
        addresses = [str(ipaddress.IPv4Address(rng.getrandbits(32))) for _ in range(1000)]
        begun_s = time.perf_counter()
        for address in addresses:
            topology.locate(address)
        took.append(1000 * (time.perf_counter() - begun_s))
    return took

"""Document 002's experiment, simulated: jobs of 2 to 64 maps on ten machines under FIFO, Fair with a fixed delay, and RFD.

All jobs are there from the beginning, in an order that is drawn: the forecast looks at the jobs ahead, so several must wait.
Machines ask for work by heartbeats, with their slots in turn; a map whose block is elsewhere takes TT longer, the time to
move a block. RFD is the document's algorithm with the product's forecast (`placement.data_wait`) in both variants. As in the
document's table 3, the forecast of every waiting job (equation 4) is kept from time to time, together with what came: the
requests of machines with unprocessed blocks of the job within TT.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from placement.data_wait import WORTH, DataOutlook, expected_requests

SCHEDULERS = ("fifo", "fair", "rfd-intended", "rfd-printed")


class Setup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document's setup: 100 Mbit/s and blocks of 64 MB make TT 5.12 s. The document does not say these: slots and the
    maps' time (two on its machines of four cores, with as much for reduces; 20 s for counting the addresses in 64 MB of a
    log), three copies of a block, and `jobs` of each size."""

    machines: int = 10
    slots: int = 2
    heartbeat_s: float = 3.0
    delay_s: float = 4.5
    move_s: float = 5.12
    task_s: float = 20.0
    task_cv: float = 0.2
    copies: int = 3
    jobs: int = 1


class WaitingRow(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of `maps` maps of one run: their mean time, share of local maps, forecasts, and the number of them that were
    right when rounded; `near`: the forecasts that were off by one at most."""

    scheduler: str
    maps: int
    seed: int
    mean_s: float
    local: float
    forecasts: int
    right: int
    near: int
    waits_right: int


@dataclass(slots=True)
class _Job:
    number: int
    blocks: dict[int, frozenset[int]]
    """Unprocessed blocks and the machines that hold them."""
    running: int = 0
    done: int = 0
    total: int = 0
    locals: int = 0
    """Maps that were launched where their block is."""
    waiting_since_s: float | None = None
    ended_s: float = 0.0

    def machines(self) -> set[int]:
        return set().union(*self.blocks.values()) if self.blocks else set()

    def local(self, machine: int) -> int | None:
        return next((block for block, holders in self.blocks.items() if machine in holders), None)


@dataclass(slots=True)
class _Forecast:
    job: _Job
    made_s: float
    expected: float
    came: int = 0


@dataclass(slots=True)
class _Scene:
    setup: Setup
    scheduler: str
    rng: random.Random
    jobs: list[_Job]
    slots: list[list[float]] = field(default_factory=list)
    """Seconds at which each slot of each machine is free."""
    owners: dict[tuple[int, int], _Job] = field(default_factory=dict)
    task_times: list[float] = field(default_factory=list)
    open: list[_Forecast] = field(default_factory=list)
    closed: list[_Forecast] = field(default_factory=list)


def simulate_waiting(setup: Setup, scheduler: str, sizes: Sequence[int], seed: int) -> list[WaitingRow]:
    """Simulate jobs of all `sizes`, which are numbers of maps, to their end; return a row for each size. The order of the
    jobs, blocks, heartbeats and map times are the same under each scheduler."""
    places, times, order = (random.Random(seed + number) for number in range(3))
    wanted = [maps for maps in sizes for _ in range(setup.jobs)]
    jobs = []
    for number, maps in enumerate(order.sample(wanted, len(wanted))):
        blocks = {block: frozenset(places.sample(range(setup.machines), setup.copies)) for block in range(maps)}
        jobs.append(_Job(number, blocks, total=maps))
    scene = _Scene(setup, scheduler, times, jobs, [[0.0] * setup.slots for _ in range(setup.machines)])
    beats = sorted((places.uniform(0, setup.heartbeat_s), machine) for machine in range(setup.machines))
    turn = 0
    while any(not job.ended_s for job in jobs):
        now_s = beats[turn % len(beats)][0] + setup.heartbeat_s * (turn // len(beats))
        _heartbeat(scene, beats[turn % len(beats)][1], now_s)
        turn += 1
    scene.closed += scene.open
    return [_row(scene, maps, seed) for maps in sizes]


def _row(scene: _Scene, maps: int, seed: int) -> WaitingRow:
    jobs = [job for job in scene.jobs if job.total == maps]
    made = [forecast for forecast in scene.closed if forecast.job.total == maps]
    return WaitingRow(
        scheduler=scene.scheduler,
        maps=maps,
        seed=seed,
        mean_s=statistics.fmean(job.ended_s for job in jobs),
        local=sum(job.locals for job in jobs) / (len(jobs) * maps),
        forecasts=len(made),
        right=sum(round(f.expected) == f.came for f in made),
        near=sum(abs(f.expected - f.came) <= 1 for f in made),
        waits_right=sum((f.expected >= WORTH) == (f.came >= 1) for f in made),
    )


def _heartbeat(scene: _Scene, machine: int, now_s: float) -> None:
    """Take in which of the machine's maps have ended; then let each of its free slots ask for one."""
    if all(now_s > forecast.made_s + scene.setup.move_s for forecast in scene.open):
        scene.closed += scene.open
        queue = [job for job in scene.jobs if job.blocks]
        scene.open = [_Forecast(job, now_s, expected_requests(_outlook(scene, [], job))) for job in queue]
    for index, free_s in enumerate(scene.slots[machine]):
        if free_s > now_s:
            continue
        ended = scene.owners.pop((machine, index), None)
        if ended is not None:
            ended.running, ended.done = ended.running - 1, ended.done + 1
            if ended.done == ended.total:
                ended.ended_s = free_s
        for forecast in scene.open:
            forecast.came += machine in forecast.job.machines()
        queue = [job for job in scene.jobs if job.blocks]
        chosen = _choose(scene, queue, machine, now_s)
        if chosen is not None:
            _launch(scene, chosen[0], chosen[1], machine, index, now_s)


def _choose(scene: _Scene, queue: list[_Job], machine: int, now_s: float) -> tuple[_Job, int] | None:
    if not queue:
        return None
    if scene.scheduler == "fifo":
        job = queue[0]
        block = job.local(machine)
        return job, block if block is not None else next(iter(job.blocks))
    if scene.scheduler == "fair":
        return _fair(scene, queue, machine, now_s)
    return _rfd(scene, queue, machine)


def _fair(scene: _Scene, queue: list[_Job], machine: int, now_s: float) -> tuple[_Job, int] | None:
    """Choose by delay scheduling: the job with the fewest running maps; a job without a local map waits `delay_s` at most."""
    for job in sorted(queue, key=lambda job: (job.running, job.number)):
        block = job.local(machine)
        if block is not None:
            job.waiting_since_s = None
            return job, block
        if job.waiting_since_s is None:
            job.waiting_since_s = now_s
        if now_s - job.waiting_since_s >= scene.setup.delay_s:
            return job, next(iter(job.blocks))
    return None


def _rfd(scene: _Scene, queue: list[_Job], machine: int) -> tuple[_Job, int] | None:
    """Choose by document 002's listing: a local map in order of submission; else the first job for which waiting is not worth
    it; else the head's."""
    for job in queue:
        block = job.local(machine)
        if block is not None:
            return job, block
    for position, job in enumerate(queue):
        if expected_requests(_outlook(scene, queue[:position], job)) < WORTH:
            return job, next(iter(job.blocks))
    return queue[0], next(iter(queue[0].blocks))


def _outlook(scene: _Scene, ahead: list[_Job], job: _Job) -> DataOutlook:
    mine = job.machines()
    theirs = set().union(*(other.machines() for other in ahead)) if ahead else set()
    task_s = statistics.fmean(scene.task_times) if scene.task_times else scene.setup.task_s
    # Formula 5, as printed, counts the machines that jobs ahead want too, and leaves the others to those jobs.
    shared = mine - theirs if scene.scheduler == "rfd-printed" else mine & theirs
    return DataOutlook(scene.setup.move_s, scene.setup.slots, task_s, len(mine), len(shared), bool(ahead))


def _launch(scene: _Scene, job: _Job, block: int, machine: int, index: int, now_s: float) -> None:
    setup = scene.setup
    local = machine in job.blocks.pop(block)
    took_s = max(0.2 * setup.task_s, scene.rng.gauss(setup.task_s, setup.task_cv * setup.task_s))
    took_s += 0.0 if local else setup.move_s
    job.locals += local
    scene.task_times.append(took_s)
    job.running += 1
    if local:
        job.waiting_since_s = None
    scene.slots[machine][index] = now_s + took_s
    scene.owners[(machine, index)] = job

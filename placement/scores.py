"""Scores: how good is this worker for this executor? The second half of document 003's filter, then score.

Each score is between 0 and 1 and counts with its weight (a setting). `LOCATION` is about where data, images and other
executors are, and comes before the load: the policies choose among the workers with the best sum of these scores, and among
these the workers whose planned cores leave room (`has_room`). `available` is what policies look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from placement.request import Request
from placement.resources import GPU, SCALE
from placement.topology import Location
from placement.worker import WorkerState
from stage_model.errors import BadInput
from stage_model.units import comma_separated

Score = Callable[[Request, WorkerState], float]


@dataclass(frozen=True, slots=True)
class Weights:
    """`cpu` and `gpu` are document 000's a and b of 0.9 (a CPU + b GPU) + 0.1 MEM, and sum to 1; the rest weigh the scores.
    Data on the worker itself counts most, then data in its rack."""

    cpu: float = 1.0
    gpu: float = 0.0
    data: float = 4.0
    rack: float = 2.0
    image: float = 0.5


def parse_weights(text: str, *, option: str = "--placement-weights") -> Weights:
    """Parse weights such as "data=4,rack=1,cpu=0.5,gpu=0.5". Raise `BadInput` for other names, negative weights, or cpu + gpu
    other than 1."""
    known = {field.name for field in fields(Weights)}
    found: dict[str, float] = {}
    for word in comma_separated(text):
        name, _, number = word.partition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if name not in known or name in found or not 0 <= weight <= 1000:
            accepted = f"NAME=WEIGHT of 0 to 1000, each once; names: {', '.join(sorted(known))}"
            raise BadInput(f"{option} {word[:60]!r} is not a weight; accepted: {accepted}")
        found[name] = weight
    if "cpu" in found or "gpu" in found:
        # one of the two gives the other
        found.setdefault("gpu", 1 - found.get("cpu", 0.0))
        found.setdefault("cpu", 1 - found["gpu"])
    weights = Weights(**found)
    if abs(weights.cpu + weights.gpu - 1) > 1e-9 or min(weights.cpu, weights.gpu) < 0:
        raise BadInput(f"{option}: cpu={weights.cpu:g} and gpu={weights.gpu:g} do not sum to 1; give two that do")
    return weights


def _data(request: Request, worker: WorkerState) -> float:
    """Return the share of the input on the worker's host, by its address or as the topology names it."""
    return request.prefer.get(worker.host, 0.0) + sum(
        part for at, part in _elsewhere(request, worker) if _same(at.host, worker.location.host)
    )


def _rack(request: Request, worker: WorkerState) -> float:
    """Return the share of the input in the worker's rack, on other hosts; a switch in common counts half."""
    here, share = worker.location, 0.0
    for at, part in _elsewhere(request, worker):
        if _same(at.host, here.host):
            continue
        if _same(at.rack, here.rack):
            share += part
        elif _same(at.switch, here.switch):
            share += part / 2
    return share


def _elsewhere(request: Request, worker: WorkerState) -> Iterable[tuple[Location, float]]:
    """Return the locations of the input under other addresses than the worker's."""
    return ((at, part) for host, at, part in request.preferred_locations if host != worker.host)


def _same(one: str, other: str) -> bool:
    return one == other != ""


def _image(request: Request, worker: WorkerState) -> float:
    return 1.0 if request.image in worker.images else 0.0


@dataclass(frozen=True, slots=True)
class Plugin:
    """A score and whether it can tell workers apart for that request; decisions leave the other plugins out."""

    name: str
    score: Score
    needed: Callable[[Request], bool]


LOCATION: Sequence[Plugin] = (
    Plugin("data", _data, lambda request: bool(request.prefer)),
    Plugin("rack", _rack, lambda request: bool(request.preferred_locations)),
    Plugin("image", _image, lambda request: bool(request.image)),
)


def location_score(request: Request, weights: Weights) -> Callable[[WorkerState], float] | None:
    """Return the weighted sum of the scores that matter for the request; None where no score does."""
    parts = [
        (getattr(weights, one.name), one.score) for one in LOCATION if one.needed(request) and getattr(weights, one.name)
    ]
    if not parts:
        return None
    return lambda worker: sum(weight * score(request, worker) for weight, score in parts)


def details(request: Request, worker: WorkerState, weights: Weights) -> Mapping[str, float]:
    """Return each score with its weight, for `explain`."""
    return {
        one.name: round(getattr(weights, one.name) * one.score(request, worker), 4) for one in LOCATION if one.needed(request)
    }


# ---------------------------------------------------------------- load (document 000)


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest worker's total of each amount, by which amounts are divided before they are added."""

    cores: float = 1.0
    memory_mb: int = 1
    gpu_units: int = SCALE


def largest(workers: Sequence[WorkerState]) -> Largest:
    return Largest(
        max((worker.cores for worker in workers), default=1.0),
        max((worker.memory_mb for worker in workers), default=1),
        max((worker.pieces[GPU] for worker in workers), default=0) or SCALE,
    )


def total(worker: WorkerState, most: Largest, weights: Weights) -> float:
    """Return 0.9 (a CPU + b GPU) + 0.1 MEM of all that the worker has."""
    return (
        0.9 * (weights.cpu * worker.cores / most.cores + weights.gpu * worker.pieces[GPU] / most.gpu_units)
        + 0.1 * worker.memory_mb / most.memory_mb
    )


def available(worker: WorkerState, request: Request, most: Largest, weights: Weights) -> float:
    """Return A: the same sum over what is left for an executor of that priority: load is not available, lower-priority use
    is."""
    cores = max(0.0, _cores(worker, request))
    gpu = worker.free_pieces(GPU) if weights.gpu else 0
    return (
        0.9 * (weights.cpu * cores / most.cores + weights.gpu * gpu / most.gpu_units)
        + 0.1 * max(0, worker.free_mb) / most.memory_mb
    )


def _cores(worker: WorkerState, request: Request) -> float:
    """Return the cores that the executor would have: those that are not planned for others, or, if no deadline needs its
    peak, its share."""
    return worker.free_cores(request.priority) if request.needs_peak else worker.share(request.priority, request.cores)


def has_room(worker: WorkerState, request: Request) -> bool:
    """Check that the worker is not under pressure, and that the cores planned there leave what the executor would use: its
    planned peak, or all that the worker has if that is less and no deadline needs the peak."""
    if worker.pressed:
        return False
    wanted = request.cores if request.needs_peak else min(request.cores, worker.cores)
    return worker.free_cores(request.priority) >= wanted - 1e-9


def as_good(workers: Sequence[WorkerState], roomy: Sequence[WorkerState], request: Request) -> Sequence[WorkerState]:
    """Return the workers that are `roomy`, and, for an executor without a deadline, also the workers where it would have no
    fewer cores, next to others, than on some roomy worker."""
    if request.needs_peak or not roomy or len(roomy) == len(workers):
        return roomy
    have = {worker.worker_id: _cores(worker, request) for worker in workers}
    least = min(have[worker.worker_id] for worker in roomy) - 1e-9
    return [worker for worker in workers if not worker.pressed and have[worker.worker_id] >= least]

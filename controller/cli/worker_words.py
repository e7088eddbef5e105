"""Workers as `up` describes them: all alike, or each as in `--worker "cores=0.8 memory=6g labels=zone=a"`.

A provider's types of workers are described in the same words.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.cli.checks import LEAST_MB, check_address, check_memory_mb, parse_worker_id
from controller.local.cluster import WorkerPlan
from controller.runtime.engines import MEMORY_SHARE, SERVICE_CORES, machine_cores, machine_memory_mb
from placement.growth import WorkerType
from placement.labels import parse_labels
from placement.resources import parse_advertised
from stage_model.errors import BadInput
from stage_model.settings import CORE_QUANTUM
from stage_model.units import parse_cores, parse_memory_mb

_EXAMPLE = '"cores=0.8 memory=6g labels=zone=a,disk=ssd resources=gpu=1 host=127.0.0.2 id=big"'
WORKER_HELP = f"Size and place of one worker (repeat), as {_EXAMPLE}; replaces --workers, --cores and --memory."


USUAL_HELP = 'Type of worker to start when the load requires it, as "cores=1 memory=2g".'


def parse_type(text: str, *, option: str) -> WorkerType:
    """Parse a worker's size, pieces and labels from the same words. Raise `BadInput`."""
    if any(word.startswith(("host=", "id=")) for word in text.split()):
        raise BadInput(f"{option} {text[:80]!r} names a host or an id; give only cores, memory, labels and resources")
    plan = parse_worker(text, "w1", option=option)
    given = dict(zip(plan.options[::2], plan.options[1::2], strict=True))
    labels = tuple(sorted(parse_labels(given.get("--labels", "")).items()))
    return WorkerType(plan.cores, plan.memory_mb, parse_advertised(given.get("--resources", "")), labels)


def parse_worker(text: str, worker_id: str, *, option: str = "--worker") -> WorkerPlan:
    """Parse a worker, with `worker_id` unless the words name one. Raise `BadInput`."""
    words: dict[str, str] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals or not value or name in words or name not in ("cores", "memory", "labels", "resources", "host", "id"):
            raise BadInput(f"{option} {word[:80]!r} cannot be read; give words as in {_EXAMPLE}")
        words[name] = value
    for name in ("cores", "memory"):
        if name not in words:
            raise BadInput(f"{option} {text[:80]!r} says no {name}; give words as in {_EXAMPLE}")
    parse_labels(words.get("labels", ""), option=f"{option} labels")
    parse_advertised(words.get("resources", ""), option=f"{option} resources")
    if "host" in words:
        check_address(words["host"])
    if "id" in words:
        parse_worker_id(words["id"])
    options = [part for name in ("labels", "resources", "host") if name in words for part in (f"--{name}", words[name])]
    return WorkerPlan(
        words.get("id", worker_id),
        parse_cores(words["cores"], option=f"{option} cores"),
        check_memory_mb(parse_memory_mb(words["memory"], option=f"{option} memory"), f"{option} memory={words['memory']}"),
        tuple(options),
    )


def workers_alike(workers: int, cores: float | None, memory: str | None, floor: float) -> tuple[WorkerPlan, ...]:
    total_cores = machine_cores() - SERVICE_CORES if cores is None else cores
    total_mb = int(machine_memory_mb() * MEMORY_SHARE) if memory is None else parse_memory_mb(memory, option="--memory")
    cores_each, memory_each = _cores_each(total_cores, workers, floor), _memory_each(total_mb, workers)
    return tuple(WorkerPlan(f"w{number}", cores_each, memory_each) for number in range(1, workers + 1))


def workers_each(each: Sequence[str], floor: float) -> tuple[WorkerPlan, ...]:
    """Return the workers as the user describes them. Raise `BadInput` for what cannot be, or is more than the machine has."""
    workers = tuple(parse_worker(text, f"w{number}") for number, text in enumerate(each, 1))
    if len({worker.worker_id for worker in workers}) < len(workers):
        raise BadInput("--worker names one worker twice; give each id once")
    for worker in workers:
        _check_size(worker.cores, worker.memory_mb, floor, f"--worker {worker.worker_id}")
    cores, memory_mb = sum(worker.cores for worker in workers), sum(worker.memory_mb for worker in workers)
    _check_size(cores, memory_mb, floor, "all --worker together")
    return workers


def _check_size(cores: float, memory_mb: int, floor: float, what: str) -> None:
    most_cores, most_mb = machine_cores(), machine_memory_mb()
    if not floor <= cores <= most_cores or not LEAST_MB <= memory_mb <= most_mb:
        raise BadInput(
            f"{what}: {cores:g} cores and {memory_mb} MiB; accepted: {floor:g} to {most_cores:g} cores and {LEAST_MB} to "
            f"{most_mb} MiB on this machine"
        )


def _cores_each(total: float, workers: int, floor: float) -> float:
    """Return the cores of each worker, rounded down to steps of 0.05 core, the quota's step."""
    if total / workers < floor:
        raise BadInput(
            f"--cores {total:g} for {workers} worker(s) is too little; each needs the floor, {floor:g} core, or more"
        )
    if total > machine_cores():
        raise BadInput(f"--cores {total:g} is more than this machine's {machine_cores():g}; give that or less")
    # The small addend keeps 1.7 / 2 = 0.85 from becoming 0.80 through binary fractions.
    return int(total / workers / CORE_QUANTUM + 1e-6) * 5 / 100


def _memory_each(total_mb: int, workers: int) -> int:
    each = total_mb // workers
    if each < LEAST_MB:
        raise BadInput(f"--memory of {total_mb} MiB for {workers} worker(s) is too little; each needs {LEAST_MB} MiB or more")
    if total_mb > machine_memory_mb():
        raise BadInput(f"--memory of {total_mb} MiB is more than this machine's {machine_memory_mb()} MiB; give less")
    return each

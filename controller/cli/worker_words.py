"""Workers as `up` describes them: all alike, or each as in `--worker "cores=0.8 memory=6g labels=zone=a"`.

A provider's types of workers are described in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from controller.cli.checks import LEAST_MB, check_address, parse_worker_id, parse_worker_memory
from controller.cli.common import is_given
from controller.local.plan import WorkerPlan
from controller.runtime.engines import MEMORY_SHARE, SERVICE_CORES, machine_cores, machine_memory_mb
from controller.runtime.table import RUNTIMES, RuntimeRow
from placement.growth import WorkerType
from placement.labels import parse_labels
from placement.resources import NOTHING, parse_advertised
from stage_model.errors import BadInput
from stage_model.settings import CORE_QUANTUM
from stage_model.units import parse_cores, parse_memory_mb

_EXAMPLE = '"cores=0.8 memory=6g labels=zone=a,disk=ssd resources=gpu=1 host=127.0.0.2 id=big"'
WORKER_HELP = f"Size and place of one worker (repeat), as {_EXAMPLE}; replaces --workers, --cores and --memory."
USUAL_HELP = 'Type of worker to start when the load requires it, as "cores=1 memory=2g".'
_PARSERS: Mapping[str, Callable[..., Any]] = {
    "cores": parse_cores,
    "memory": parse_worker_memory,
    "labels": parse_labels,
    "resources": parse_advertised,
    "host": check_address,
    "id": parse_worker_id,
}
"""Parser of each word's value, by the word's name."""


def parse_type(text: str, *, option: str) -> WorkerType:
    """Parse a worker's size, pieces and labels from the same words. Raise `BadInput`."""
    words, read = _read(text, option)
    if "host" in words or "id" in words:
        raise BadInput(f"{option} {text[:80]!r} names a host or an id; give only cores, memory, labels and resources")
    labels = tuple(sorted(read.get("labels", {}).items()))
    return WorkerType(read["cores"], read["memory"], read.get("resources", NOTHING), labels)


def parse_worker(text: str, worker_id: str = "w1", *, option: str = "--worker") -> WorkerPlan:
    """Parse a worker, with `worker_id` unless the words name one. Raise `BadInput`."""
    words, read = _read(text, option)
    options = [part for name in ("labels", "resources", "host") if name in words for part in (f"--{name}", words[name])]
    return WorkerPlan(read.get("id", worker_id), read["cores"], read["memory"], tuple(options))


def _read(text: str, option: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a worker's words by their names: their values as texts, and as their parsers read them. Raise `BadInput`."""
    words: dict[str, str] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals or not value or name in words or name not in _PARSERS:
            raise BadInput(f"{option} {word[:80]!r} cannot be read; give words as in {_EXAMPLE}")
        words[name] = value
    for name in ("cores", "memory"):
        if name not in words:
            raise BadInput(f"{option} {text[:80]!r} says no {name}; give words as in {_EXAMPLE}")
    return words, {name: _PARSERS[name](value, option=f"{option} {name}") for name, value in words.items()}


def described_workers(context: click.Context, given: Mapping[str, Any]) -> tuple[WorkerPlan, ...]:
    """Return the workers that `up` is to start, by the options that it was given. Raise `BadInput`."""
    runtime, floor, cores = given["runtime"], given["floor"], given["cores"]
    each, workers = _of_one_source(context, given["each"]), given["workers"]
    row = RUNTIMES.get(runtime)  # None: auto
    if row is not None and not row.starts:
        workers = _only_one(context, each, workers, row)
    if row is not None and row.everywhere and cores is None and not each:
        raise BadInput(f"--runtime {runtime} cannot know how large the nodes are; give the cores of each node by --cores")
    return _workers_each(each, floor) if each else workers_alike(workers, cores, given["memory"], floor)


def _of_one_source(context: click.Context, each: tuple[str, ...]) -> tuple[str, ...]:
    """Return the workers that are described one by one; none where the command line counts them and only the configuration
    describes some. Raise `BadInput` where the command line, or the configuration, does both."""
    sources = {context.get_parameter_source(name) for name in ("workers", "cores", "memory") if is_given(context, name)}
    if each and context.get_parameter_source("each") in sources:
        raise BadInput("--worker says what each worker has; give it without --workers, --cores and --memory")
    return () if ParameterSource.COMMANDLINE in sources else each


def _only_one(context: click.Context, each: tuple[str, ...], workers: int, row: RuntimeRow) -> int:
    """Return 1 as the number of workers. Raise `BadInput` for several agents that would pace the same executors."""
    if len(each) > 1 or (workers != 1 and is_given(context, "workers")):
        of = "cluster" if row.everywhere else "machine"
        raise BadInput(f"--runtime {row.name} wants one worker: an agent sees all executors of its {of}; give --workers 1")
    return 1


def workers_alike(workers: int, cores: float | None, memory: str | None, floor: float) -> tuple[WorkerPlan, ...]:
    """Return workers that share these amounts, by default those of the machine. Raise `BadInput`, as `_workers_each` does."""
    total_cores = machine_cores() - SERVICE_CORES if cores is None else cores
    total_mb = int(machine_memory_mb() * MEMORY_SHARE) if memory is None else parse_memory_mb(memory, option="--memory")
    # the small addend keeps 1.7 / 2 = 0.85 from becoming 0.80 through binary fractions
    cores_each, memory_each = int(total_cores / workers / CORE_QUANTUM + 1e-6) * 5 / 100, total_mb // workers
    _check_size(total_cores, total_mb, floor, f"--cores and --memory for {workers} worker(s)")
    _check_size(cores_each, memory_each, floor, f"--cores and --memory for each of {workers} worker(s)")
    return tuple(WorkerPlan(f"w{number}", cores_each, memory_each) for number in range(1, workers + 1))


def _workers_each(each: Sequence[str], floor: float) -> tuple[WorkerPlan, ...]:
    """Return the workers as the user describes them. Raise `BadInput` for impossible workers, and for more than the machine
    has."""
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

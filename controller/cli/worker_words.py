"""`--worker "cores=0.8 memory=6g labels=zone=a"`: one worker as `up` and a provider's types describe it."""

from __future__ import annotations

from controller.cli.checks import check_address, check_memory_mb, parse_worker_id
from controller.local.cluster import WorkerPlan
from placement.growth import WorkerType
from placement.labels import parse_labels
from placement.resources import parse_advertised
from stage_model.errors import BadInput
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

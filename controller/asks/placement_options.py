"""Settings `spark.pace.placement.*`, `spark.pace.after` and `spark.pace.locality.*`: an application's requests of placement.

The folder `placement` decides what the words mean; docs/placement.md says it for users.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from controller.asks.job_setting import Reading, by, declared, one_of, true_or_false
from placement.dependencies import After, parse_after
from placement.labels import Requirement, parse_requirements
from placement.policies import POLICIES
from placement.resources import SCALE, ResourceSet, parse_asked
from stage_model.errors import BadInput
from stage_model.units import comma_separated, parse_duration

WAITS = ("forecast", "none")
DEFAULT_MOVE_S = 3.0
"""Seconds to move a task's input to another host: longer than it takes over a fast network, because waiting must be clearly
better."""

_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,253}", re.ASCII)
_SPARK = re.compile(r"spark\.executor\.resource\.([a-z][a-z0-9_.-]*)\.amount", re.ASCII)


def _ports(text: str, at: Reading) -> tuple[int, ...]:
    ports: dict[int, None] = {}
    for word in comma_separated(text):
        number = int(word) if re.fullmatch(r"[0-9]{1,5}", word) else 0
        if not 0 < number < 65536 or number in ports:
            raise BadInput(f"{at.named} {word[:20]!r} is not a port; accepted: numbers of 1 to 65535, each once")
        ports[number] = None
    return tuple(ports)


def _names(text: str, at: Reading, pattern: re.Pattern[str] = _GROUP, most: int = 100) -> tuple[str, ...]:
    words = comma_separated(text)
    wrong = [word for word in words if not pattern.fullmatch(word)]
    if wrong or len(words) > most:
        accepted = "a name" if most == 1 else "names separated by commas"
        raise BadInput(f"{at.named} {(wrong[0] if wrong else text)[:80]!r} is not usable; accepted: {accepted}")
    return tuple(words)


def _wait(text: str, at: Reading) -> str | float:
    if text in WAITS:
        return text
    try:
        return parse_duration(text, option=at.named)
    except BadInput as error:
        raise BadInput(f"{error} Or one of {', '.join(WAITS)}.") from None


_request = partial(declared, starting=True, may_be_empty=True)


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """The requests. `policy` None: the master's. `resources` are pieces for each executor, in units of 1/10000. `prefer`:
    hosts of the input as the user says them. `wait`: "forecast" (document 002), "none" or seconds; `move_s`: to move one
    task's input to another host."""

    policy: str | None = _request(
        None,
        "placement.policy",
        one_of,
        f"policy that chooses among the workers that fit: {', '.join(POLICIES)}",
        choices=tuple(POLICIES),
    )
    labels: tuple[Requirement, ...] = _request(
        (), "placement.labels", by(parse_requirements), "labels that a worker must have or not have: zone=a,disk!=hdd"
    )
    resources: dict[str, int] = _request(  # noqa: RUF009 - it makes a field
        dict, "placement.resources", by(parse_asked), "pieces of resources: gpu=0.5,ssd=1"
    )
    ports: tuple[int, ...] = _request((), "placement.ports", _ports, "ports that no other executor there may ask for")
    group: str = _request(
        "",
        "placement.group",
        lambda text, at: "".join(_names(text, at, most=1)),
        "name for the application's executors; other applications can ask to be kept apart from it",
    )
    apart: frozenset[str] = _request(
        frozenset(),
        "placement.apart",
        lambda text, at: frozenset(_names(text, at)),
        "names of executors to keep apart from, in both directions",
    )
    prefer: tuple[str, ...] = _request((), "placement.prefer", lambda text, at: _names(text, at, _HOST), "preferred hosts")
    evict: bool = _request(
        False, "placement.evict", true_or_false, "end executors of lower priority if nothing else makes room", "--evict"
    )
    after: tuple[After, ...] = _request(
        (),
        "after",
        by(parse_after),
        "start when APP has ended, or with :up when it serves (ids or names, comma-separated)",
        "--after APP[:success|:up]",
        kind="application",
    )
    wait: str | float = _request(
        "forecast",
        "locality.wait",
        _wait,
        f"how long to wait for a worker that has the input: {', '.join(WAITS)} or a duration",
        choices=WAITS,
    )
    move_s: float = _request(
        DEFAULT_MOVE_S,
        "locality.move",
        by(parse_duration),
        f"how long it takes to move a task's input [default: {DEFAULT_MOVE_S:g}s]",
    )
    of_spark: frozenset[str] = frozenset()
    """Resources that Spark itself knows of: its executors learn their ids."""

    @property
    def pieces(self) -> ResourceSet:
        return ResourceSet(self.resources)


def with_sparks_resources(asked: PlacementOptions, conf: Mapping[str, str]) -> PlacementOptions:
    """Return the requests with what Spark's own settings ask for: whole numbers there. Raise `BadInput`."""
    units = dict(asked.resources)
    spark = {found[1]: conf[key] for key in conf if (found := _SPARK.fullmatch(key))}
    for name, number in spark.items():
        key = f"spark.executor.resource.{name}.amount"
        if name in units:
            raise BadInput(f"{name} is in {key} and in spark.pace.placement.resources; set only one of them")
        if not re.fullmatch(r"[1-9][0-9]{0,5}", number.strip()):
            raise BadInput(f"{key} is {number[:40]!r}; accepted: a whole number of 1 or more")
        units[name] = int(number) * SCALE
    return replace(asked, resources=units, of_spark=frozenset(spark))

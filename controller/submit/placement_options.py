"""Settings `spark.pace.placement.*`, `spark.pace.after` and `spark.pace.locality.*`: an application's requests of placement.

The folder `placement` decides what the words mean; docs/placement.md says it for users.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from placement.dependencies import After, parse_after
from placement.labels import Requirement, parse_requirements
from placement.policies import POLICIES
from placement.resources import SCALE, ResourceSet, parse_asked
from stage_model.errors import BadInput
from stage_model.units import parse_duration

NAMES = frozenset(
    (
        *(
            f"placement.{name}"
            for name in ("policy", "resources", "labels", "ports", "group", "apart", "prefer", "evict", "input")
        ),
        *("after", "locality.wait", "locality.move"),
    )
)
WAITS = ("forecast", "none")
DEFAULT_MOVE_S = 3.0
"""Seconds to move a task's input to another host: longer than it takes over a fast network, because waiting must be clearly
better."""

_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,253}", re.ASCII)
_SPARK = re.compile(r"spark\.executor\.resource\.([a-z][a-z0-9_.-]*)\.amount", re.ASCII)


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """The requests. `policy` None: the master's. `resources` are pieces for each executor, in units of 1/10000. `prefer`:
    hosts of the input as the user says them. `wait`: "forecast" (document 002), "none" or seconds; `move_s`: to move one
    task's input to another host."""

    policy: str | None = None
    resources: dict[str, int] = field(default_factory=dict)
    labels: tuple[Requirement, ...] = ()
    ports: tuple[int, ...] = ()
    group: str = ""
    apart: frozenset[str] = frozenset()
    prefer: tuple[str, ...] = ()
    evict: bool = False
    after: tuple[After, ...] = ()
    wait: str | float = "forecast"
    move_s: float = DEFAULT_MOVE_S
    of_spark: frozenset[str] = frozenset()
    """Resources that Spark itself knows of: its executors learn their ids."""


def placement_options(conf: Mapping[str, str], prefix: str) -> PlacementOptions:
    """Parse the settings. Raise `BadInput` naming the setting."""

    def text(name: str) -> str:
        return conf.get(prefix + name, "")

    spark = {found[1]: conf[key] for key in conf if (found := _SPARK.fullmatch(key))}
    ours = parse_asked(text("placement.resources"), option=f"{prefix}placement.resources")
    return PlacementOptions(
        policy=_policy(text("placement.policy"), f"{prefix}placement.policy"),
        resources=_with_sparks(ours, spark),
        labels=parse_requirements(text("placement.labels"), option=f"{prefix}placement.labels"),
        ports=_ports(text("placement.ports"), f"{prefix}placement.ports"),
        group="".join(_names(text("placement.group"), f"{prefix}placement.group", _GROUP, most=1)),
        apart=frozenset(_names(text("placement.apart"), f"{prefix}placement.apart", _GROUP)),
        prefer=tuple(_names(text("placement.prefer"), f"{prefix}placement.prefer", _HOST)),
        evict=_flag(text("placement.evict"), f"{prefix}placement.evict"),
        after=parse_after(text("after"), option=f"{prefix}after"),
        wait=_wait(text("locality.wait"), f"{prefix}locality.wait"),
        move_s=parse_duration(text("locality.move"), option=f"{prefix}locality.move")
        if text("locality.move")
        else DEFAULT_MOVE_S,
        of_spark=frozenset(spark),
    )


def _policy(text: str, option: str) -> str | None:
    if text and text not in POLICIES:
        raise BadInput(f"{option} {text[:60]!r} is no policy; accepted: {', '.join(POLICIES)}")
    return text or None


def _with_sparks(ours: ResourceSet, spark: Mapping[str, str]) -> dict[str, int]:
    """Add what Spark's own settings ask for: whole numbers there."""
    units = dict(ours)
    for name, number in spark.items():
        key = f"spark.executor.resource.{name}.amount"
        if name in units:
            raise BadInput(f"{name} is in {key} and in spark.pace.placement.resources; set only one of them")
        if not re.fullmatch(r"[1-9][0-9]{0,5}", number.strip()):
            raise BadInput(f"{key} is {number[:40]!r}; accepted: a whole number of 1 or more")
        units[name] = int(number) * SCALE
    return units


def _ports(text: str, option: str) -> tuple[int, ...]:
    ports: dict[int, None] = {}
    for word in _words(text):
        number = int(word) if re.fullmatch(r"[0-9]{1,5}", word) else 0
        if not 0 < number < 65536 or number in ports:
            raise BadInput(f"{option} {word[:20]!r} is no port; accepted: numbers of 1 to 65535, each once")
        ports[number] = None
    return tuple(ports)


def _names(text: str, option: str, pattern: re.Pattern[str], most: int = 100) -> list[str]:
    words = _words(text)
    wrong = [word for word in words if not pattern.fullmatch(word)]
    if wrong or len(words) > most:
        accepted = "a name" if most == 1 else "names separated by commas"
        raise BadInput(f"{option} {(wrong[0] if wrong else text)[:80]!r} is not usable; accepted: {accepted}")
    return words


def _flag(text: str, option: str) -> bool:
    if text not in ("", "true", "false"):
        raise BadInput(f"{option} is {text[:40]!r}; accepted: true or false")
    return text == "true"


def _wait(text: str, option: str) -> str | float:
    if not text:
        return "forecast"
    if text in WAITS:
        return text
    try:
        return parse_duration(text, option=option)
    except BadInput as error:
        raise BadInput(f"{error} Or one of {', '.join(WAITS)}.") from None


def _words(text: str) -> list[str]:
    return [word for word in (part.strip() for part in text.split(",")) if word]

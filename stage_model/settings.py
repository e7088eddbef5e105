"""The constants of control: frozen dataclasses by topic, each field with unit, default, reason and accepted range.

The laws' constants are in the laws' files (`stage_model.laws`). `parse` reads a topic from Spark conf entries
(`spark.pace.law.paper.alpha=0.9`), all checked before anything is built.
Not covered: settings that are not numbers (deadline, priority, mounts).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

from stage_model.errors import BadInput
from stage_model.nearest import nearest_names
from stage_model.units import parse_duration

LAW_PREFIX = "spark.pace.law."
CORE_QUANTUM = 0.05
"""cq: grants and quotas are multiples of it (cores; document 004, section 2)."""

SHORTEST_PERIOD_S, LONGEST_PERIOD_S = 0.2, 60.0
"""Limits of a period: below, giving the engine a quota (15 to 55 ms) is a good part of it; above, a stage is over before it
is seen."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One setting: its name in a conf, its unit, the accepted range, and the reason for its default.

    `least` and `most` are included, except that `open_least` leaves `least` itself out.
    """

    name: str
    unit: str
    reason: str
    least: float
    most: float
    open_least: bool = False

    def accepts(self, value: float) -> bool:
        return self.least <= value <= self.most and not (self.open_least and value == self.least)

    @property
    def accepted(self) -> str:
        low = f"more than {self.least:g}" if self.open_least else f"{self.least:g}"
        high = "" if math.isinf(self.most) else f"{self.most:g}"
        if self.open_least:
            span = f"{low}, at most {high}" if high else low
        else:
            span = f"{low} to {high}" if high else f"{low} or more"
        return f"{span} ({self.unit})" if self.unit else span


def setting(
    default: float, name: str, *, unit: str, reason: str, least: float, most: float = math.inf, open_least: bool = False
) -> Any:
    """Return a dataclass field with its `Rule`. `unit` is "" for a pure number; a setting in "s" also takes durations
    ("12s")."""
    return field(default=default, metadata={"rule": Rule(name, unit, reason, least, most, open_least)})


class Topic:
    """Base of the dataclasses below. `PREFIX` begins the conf keys of the topic's settings."""

    __slots__ = ()
    PREFIX: ClassVar[str]

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, float]) -> Self:
        """Return this topic from {"paper.alpha": 0.95, ...}, as plans carry it. A missing name has its default; other names
        are ignored, because a newer peer may send some."""
        return cls(**{name: numbers[key] for key, name in cls.plan_names() if key in numbers})

    @classmethod
    @cache
    def plan_names(cls) -> tuple[tuple[str, str], ...]:
        """Return the names that plans use for the fields, and the fields."""
        return tuple((cls.PREFIX.removeprefix(LAW_PREFIX) + rule.name, name) for name, rule in rules(cls))


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """The quotas that an agent writes, in cores, and how often. They are the same for all applications: no conf sets them."""

    core_quantum: float = CORE_QUANTUM
    floor: float = 0.1
    """An executor at the floor still answers heartbeats and is never declared lost."""
    period_s: float = 1.0
    """The paper's Ts."""


AnyTopic = TypeVar("AnyTopic", bound=Topic)


def parse(topic: type[AnyTopic], conf: Mapping[str, str]) -> AnyTopic:
    """Return `topic` from conf entries, with defaults. Raise `BadInput` naming key, value and what is accepted, also for an
    unknown key under the topic's prefix; keys of other topics are not looked at."""
    known = {topic.PREFIX + rule.name: (name, rule) for name, rule in rules(topic)}
    given: dict[str, float] = {}
    for key, text in conf.items():
        if key in known:
            name, rule = known[key]
            given[name] = _value(key, text, rule)
        elif key.startswith(topic.PREFIX):
            raise unknown_key(key, known)
    return topic(**given)


def rules(topic: type[Topic]) -> Iterator[tuple[str, Rule]]:
    """Yield the field name and rule of every setting of a topic, in order."""
    for declared in fields(topic):  # type: ignore[arg-type]  # every topic is a dataclass
        yield declared.name, declared.metadata["rule"]


def unknown_key(key: str, known: Iterable[str]) -> BadInput:
    """Return the refusal of a key that no one reads, naming the closest known keys."""
    return BadInput(f"{key[:100]} is not a setting; {nearest_names(key, known)}")


def _value(key: str, text: str, rule: Rule) -> float:
    word = text.strip()
    try:
        value = float(word)
    except ValueError:
        if rule.unit != "s" or not word[:1].isdigit():
            raise BadInput(f"{key} is {text[:100]!r}, which is not a number; give {rule.accepted}.") from None
        value = parse_duration(word, option=key)
    # nan fails every comparison, so no range accepts it; inf is no constant either.
    if math.isinf(value) or not rule.accepts(value):
        raise BadInput(f"{key} is {text[:100]!r}, which is out of range; give {rule.accepted}.")
    return value

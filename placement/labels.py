"""Labels of workers (`zone=a,disk=ssd`) and an application's requirements (`zone=a,disk!=hdd,gpu`). Document 003.

A requirement is `NAME=VALUE`, `NAME!=VALUE` (also where the label is missing), `NAME` (has it) or `!NAME` (has it not); all
of them must hold. Names and values are as Kubernetes has them, at most 63 letters, digits, `-`, `_`, `.`, and `/` in names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from stage_model.errors import BadInput
from stage_model.units import comma_separated

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]{0,61}[A-Za-z0-9])?", re.ASCII)
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_REQUIREMENT = re.compile(r"(?P<not>!?)(?P<name>[^=!]+)((?P<sign>!?=)(?P<value>.*))?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """`value` None: the label must be there at all. `wanted` False: the label must not be there (or not have the value)."""

    name: str
    value: str | None
    wanted: bool = True

    def holds(self, labels: Mapping[str, str]) -> bool:
        there = self.name in labels if self.value is None else labels.get(self.name) == self.value
        return there is self.wanted

    def __str__(self) -> str:
        if self.value is None:
            return f"{'' if self.wanted else '!'}{self.name}"
        return f"{self.name}{'=' if self.wanted else '!='}{self.value}"


def parse_labels(text: str, *, option: str = "--labels") -> dict[str, str]:
    """Parse a worker's labels: "zone=a,disk=ssd". Raise `BadInput`."""
    labels: dict[str, str] = {}
    for word in comma_separated(text):
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or name in labels:
            raise BadInput(f"{option} {word[:80]!r} is not a label; give NAME=VALUE once for each name, as zone=a,disk=ssd")
        labels[name] = value
    return labels


def parse_requirements(text: str, *, option: str = "spark.pace.placement.labels") -> tuple[Requirement, ...]:
    """Parse an application's requirements: "zone=a,disk!=hdd,gpu,!spot". Raise `BadInput`."""
    found = []
    for word in comma_separated(text):
        parts = _REQUIREMENT.fullmatch(word)
        name, value = (parts["name"], parts["value"]) if parts else ("", None)
        doubled = parts is not None and bool(parts["not"]) and value is not None
        if doubled or not _NAME.fullmatch(name) or (value is not None and not _VALUE.fullmatch(value)):
            raise BadInput(f"{option} {word[:80]!r} is not a requirement; accepted: NAME=VALUE, NAME!=VALUE, NAME or !NAME")
        assert parts is not None
        found.append(Requirement(name, value, wanted=not parts["not"] and parts["sign"] != "!="))
    asked = {label.name: label.value for label in found if label.wanted and label.value is not None}
    for label in found:
        if label.name in asked and not label.holds({label.name: asked[label.name]}):
            raise BadInput(
                f"{option} {text[:80]!r}: no worker can have {label}, too; ask for labels that one worker can have"
            )
    return tuple(found)

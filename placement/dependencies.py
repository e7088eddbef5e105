"""Applications that start after others (`--after APP[:success|:up]`): the applications that may start, the applications that
never will, and the refusal of cycles. Document 003."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stage_model.errors import BadInput
from stage_model.units import comma_separated

MOST_AFTER = 100
"""Most entries of `--after`: they are looked for each time that an application could start."""
CONDITIONS = ("success", "up")


@dataclass(frozen=True, slots=True)
class After:
    """`application`: id or name of the application that comes first; `success`: it must have succeeded, not only ended; `up`:
    it need not have ended, but must serve others."""

    application: str
    success: bool = False
    up: bool = False

    def __str__(self) -> str:
        return f"{self.application}{':success' if self.success else ':up' if self.up else ''}"

    @property
    def variable(self) -> str:
        """Name of the environment variable in which an application that comes after a service finds its address."""
        return f"SPARKPACE_AFTER_{re.sub('[^A-Z0-9]', '_', self.application.upper())}_ADDRESS"


def parse_after(text: str, *, option: str = "--after") -> tuple[After, ...]:
    """Parse "APP", "APP:success", "APP:up", several with commas. Raise `BadInput`."""
    found = list[After]()
    variables = dict[str, After]()
    for word in comma_separated(text):
        name, colon, condition = word.partition(":")
        if not name or (colon and condition not in CONDITIONS):
            raise BadInput(
                f"{option} {word[:80]!r} cannot be read; give the id or name of an application, ID:success or ID:up"
            )
        after = After(name, success=condition == "success", up=condition == "up")
        if after.up and (other := variables.setdefault(after.variable, after)) is not after:
            raise BadInput(
                f"{option} names {str(other)[:80]!r} and {str(after)[:80]!r}, whose addresses would be in one variable, "
                f"{after.variable[:80]}; give one of them, or the id of one"
            )
        found.append(after)
    if len(found) > MOST_AFTER:
        raise BadInput(f"{option} names {len(found)} applications; accepted: {MOST_AFTER} at most")
    return tuple(found)


def check_acyclic(
    newcomer: str, after: Iterable[After], known: Mapping[str, Iterable[After]], *, option: str = "--after"
) -> None:
    """Raise `BadInput`, with the way round, if the newcomer would wait for itself."""
    before: dict[str, str] = {}
    """The application from which each was reached, going back from what the newcomer comes after; the newcomer's own are
    reached from the newcomer."""
    for dependency in after:
        pending = [] if dependency.application in before else [dependency.application]
        before.setdefault(dependency.application, newcomer)
        while pending:
            name = pending.pop()
            if name == newcomer:
                circle = _circle(newcomer, before)
                raise BadInput(
                    f"{option} {dependency}: {circle} is a circle; name applications that do not wait for this one"
                )
            for further in known.get(name, ()):
                if further.application not in before:
                    before[further.application] = name
                    pending.append(further.application)


def _circle(newcomer: str, before: Mapping[str, str]) -> str:
    names = [newcomer, before[newcomer]]
    while names[-1] != newcomer:
        names.append(before[names[-1]])
    return " after ".join(reversed(names))

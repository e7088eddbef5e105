"""Applications that start after others (`--after APP[:success]`): which may start, which never will, no cycles. Document
003."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stage_model.errors import BadInput
from stage_model.units import comma_separated

MOST_AFTER = 100
"""Most entries of `--after`: they are looked for each time that an application could start."""


@dataclass(frozen=True, slots=True)
class After:
    """`application`: id or name of the application that comes first; `success`: it must have succeeded, not only ended."""

    application: str
    success: bool = False

    def __str__(self) -> str:
        return f"{self.application}{':success' if self.success else ''}"


def parse_after(text: str, *, option: str = "--after") -> tuple[After, ...]:
    """Parse "APP", "APP:success", several with commas. Raise `BadInput`."""
    found = []
    for word in comma_separated(text):
        name, colon, condition = word.partition(":")
        if not name or (colon and condition != "success"):
            raise BadInput(f"{option} {word[:80]!r} cannot be read; give the id or name of an application, or ID:success")
        found.append(After(name, bool(colon)))
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

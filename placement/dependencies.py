"""Applications that start after others (`--after APP[:success]`): who may start, who never will, no cycles. Document 003."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stage_model.errors import BadInput


@dataclass(frozen=True, slots=True)
class After:
    """`application`: id or name of the one that comes first; `success`: it must have succeeded, not only ended."""

    application: str
    success: bool = False

    def __str__(self) -> str:
        return f"{self.application}{':success' if self.success else ''}"


def parse_after(text: str, *, option: str = "--after") -> tuple[After, ...]:
    """Of "APP", "APP:success", several with commas. Raises `BadInput`."""
    found = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, colon, condition = word.partition(":")
        if not name or (colon and condition != "success"):
            raise BadInput(
                f"{option} {word[:80]!r} cannot be read; accepted: the id or name of an application, or ID:success"
            )
        found.append(After(name, bool(colon)))
    return tuple(found)


def check_acyclic(
    newcomer: str, after: Iterable[After], known: Mapping[str, Iterable[After]], *, option: str = "--after"
) -> None:
    """Raises `BadInput`, with the way round, if the newcomer would wait for itself."""
    seen: set[str] = set()

    def way_from(name: str) -> list[str] | None:
        """The applications from this one to the newcomer, each after the next; None if there is no way."""
        if name == newcomer:
            return [name]
        if name in seen:
            return None
        seen.add(name)
        for one in known.get(name, ()):
            rest = way_from(one.application)
            if rest is not None:
                return [name, *rest]
        return None

    for one in after:
        way = way_from(one.application)
        if way is not None:
            circle = " after ".join([newcomer, *way])
            raise BadInput(f"{option} {one}: {circle} is a circle; accepted: applications that do not wait for this one")

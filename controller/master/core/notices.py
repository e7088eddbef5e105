"""The lines for the terminal of an application's user: each is said once, and their number is limited. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.wire import limits


@dataclass(slots=True)
class Notices:
    """The lines, in the order in which they were added."""

    lines: list[str] = field(default_factory=list)
    _sent: int = 0

    def add(self, line: str) -> None:
        """Add a line that is not there yet. After `limits.NOTICES` lines one says that further ones are left out."""
        line = line[: limits.NOTICE_LENGTH]
        if len(self.lines) == limits.NOTICES:
            line = f"there were {limits.NOTICES} lines like these; further ones are left out"
        if len(self.lines) <= limits.NOTICES and line not in self.lines:
            self.lines.append(line)

    def take_new(self) -> tuple[str, ...]:
        """Return the lines that were added since the last call."""
        new, self._sent = tuple(self.lines[self._sent :]), len(self.lines)
        return new

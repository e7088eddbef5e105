"""The one guard: a failure in one application's part stays with that application, and everything else goes on.

Nothing else in the master catches everything; after a `with` block of one of these, the code goes on, whatever was raised
inside.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from controller.master.core.application import Application


class Caught:
    """A context that keeps the exception raised inside, if there was one, in `error`."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, Exception):
            self.error = error
            self._failed(error)
        return self.error is not None

    def _failed(self, error: Exception) -> None:
        """Handle the error at once."""


class guarded(Caught):  # noqa: N801 - it reads as what it does
    """A guard for one application's part: a part that fails is left out, logged, counted, and reported to the application's
    user once. `doing` completes "... went wrong"; it is the same each time."""

    __slots__ = ("_application", "_doing")

    def __init__(self, application: Application, doing: str) -> None:
        self.error = None
        self._application, self._doing = application, doing

    def _failed(self, error: Exception) -> None:
        application = self._application
        application.faults += 1
        name = type(error).__name__
        what = f"{self._doing} went wrong in the master ({name}) and was left out; the application goes on"
        if what not in application.notices.lines:
            application.unlogged.append((what, error))
            application.notify(what)

"""The one guard: what goes wrong with one application is that application's, and everything else goes on.

Nothing else in the master catches everything; `with` one of these, what follows is done whatever was raised inside.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from controller.master.application import Application

log = logging.getLogger("sparkpace.master")


class Caught:
    """Keeps what was raised inside, if anything was, in `error`; `failed` and `worked` are told at once."""

    def __init__(
        self, failed: Callable[[Exception], None] = lambda _: None, worked: Callable[[], None] = lambda: None
    ) -> None:
        self.error: Exception | None = None
        self._failed, self._worked = failed, worked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None:
            self._worked()
        elif isinstance(error, Exception):
            self.error = error
            self._failed(error)
        return self.error is not None


def guarded(application: Application, doing: str) -> Caught:
    """For one application's part: what fails is left out, logged, counted, and told to the application's user once. `doing`
    completes "... went wrong"; it is the same each time."""

    def failed(error: Exception) -> None:
        application.faults += 1
        what = f"{doing} went wrong in the master ({type(error).__name__}) and was left out; the application goes on"
        if what not in application.notices:
            log.error("%s: %s", application.id, what, exc_info=error)
            application.notify(what)

    return Caught(failed)


class Parts:
    """For the parts of a pass that belong to no application: each is tried again with the next pass."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        """How often each has failed since it last worked."""

    def guarded(self, doing: str) -> Caught:
        """Logged when it begins to fail, and when it works again."""

        def failed(error: Exception) -> None:
            self.failures[doing] += 1
            if self.failures[doing] == 1:
                log.error("%s failed and will be tried again", doing, exc_info=error)

        def worked() -> None:
            if count := self.failures.pop(doing, 0):
                log.warning("%s works again, after %d failures", doing, count)

        return Caught(failed, worked)

"""Long steps, shown while they go on, side by side if they do: image, class archives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from controller.cli.common import can_redraw
from stage_model.units import format_duration

DELAY_S = 1.0
"""Duration below which a step is not worth a line."""


class Steps:
    """Display of steps. On a terminal each step is a line that moves and counts its time, gone when all are over. Anywhere
    else (a pipe, a log, TERM=dumb) a step that takes longer than `delay_s` gets a plain line then, and another one at its
    end. Without a `console` the steps are shown on stderr."""

    def __init__(
        self, console: Console | None = None, delay_s: float = DELAY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console, self._delay_s, self._clock = console or Console(stderr=True), delay_s, clock
        self._moving = can_redraw(self._console)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=self._console, transient=True)

    def __enter__(self) -> Self:
        if self._moving:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._moving:
            self._progress.stop()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show a step while it goes on; from any thread. A step that raises has no last line."""
        if not self._moving:
            with self._plain(what):
                yield
            return
        task = self._progress.add_task(what, total=None)
        try:
            yield
        finally:
            self._progress.remove_task(task)

    @contextmanager
    def _plain(self, what: str) -> Iterator[None]:
        said, begun_s = threading.Event(), self._clock()

        def say() -> None:
            self._line(f"sparkpace: {what} ...")
            said.set()

        later = threading.Timer(self._delay_s, say)
        later.start()
        try:
            yield
        finally:
            later.cancel()
            later.join()
        if said.is_set():
            self._line(f"sparkpace: {what} took {format_duration(self._clock() - begun_s)}")

    def _line(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False, highlight=False)

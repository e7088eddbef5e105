"""Long steps, such as the image and class archives, shown while they go on, also several at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from controller.cli.common import can_redraw
from stage_model.units import format_duration

DELAY_S = 1.0
"""Duration below which a step is not worth a line."""


@contextmanager
def shown_steps(
    console: Console | None = None, delay_s: float = DELAY_S, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], AbstractContextManager[None]]]:
    """Provide a context that shows a step while it goes on, in any thread: on the console, or without one on stderr. A step
    that raises has no last line.

    On a terminal each step is a line that moves and counts its time, and the lines are gone when all steps are over. Anywhere
    else (a pipe, a log, TERM=dumb), a step that takes longer than `delay_s` gets a plain line then, and another line at its
    end."""
    console = console or Console(stderr=True)
    if can_redraw(console):
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            yield partial(_moving, progress)
    else:
        yield partial(_plain, console, delay_s, clock)


@contextmanager
def _moving(progress: Progress, what: str) -> Iterator[None]:
    task = progress.add_task(what, total=None)
    try:
        yield
    finally:
        progress.remove_task(task)


@contextmanager
def _plain(console: Console, delay_s: float, clock: Callable[[], float], what: str) -> Iterator[None]:
    said, begun_s = threading.Event(), clock()

    def line(text: str) -> None:
        console.print(text, soft_wrap=True, markup=False, highlight=False)

    def say() -> None:
        line(f"sparkpace: {what} ...")
        said.set()

    later = threading.Timer(delay_s, say)
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()
    if said.is_set():
        line(f"sparkpace: {what} took {format_duration(clock() - begun_s)}")

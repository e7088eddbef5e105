"""Shows something again and again until Ctrl-C: `sparkpace top` and `sparkpace ps --watch`."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text


def watch(
    picture: Callable[[], RenderableType],
    console: Console,
    interval_s: float,
    sleep: Callable[[float], None] = time.sleep,
    *,
    redraw: bool = True,
) -> None:
    """A new picture every `interval_s`, in place of the one before; below it where the output is no terminal, its cursor
    cannot move (TERM=dumb), or not `redraw`. Raises what `picture` raises."""
    try:
        if redraw and console.is_terminal and not console.is_dumb_terminal:
            _redraw(picture, console, interval_s, sleep)
        else:
            _print_each(picture, console, interval_s, sleep)
    except KeyboardInterrupt:
        return


def _redraw(
    picture: Callable[[], RenderableType], console: Console, interval_s: float, sleep: Callable[[float], None]
) -> None:
    # The whole screen, as top has it: a table that shrinks leaves no rows behind, and the shell comes back as it was.
    with Live(picture(), console=console, screen=True, auto_refresh=False) as live:
        live.refresh()
        while True:
            sleep(interval_s)
            live.update(picture(), refresh=True)


def _print_each(
    picture: Callable[[], RenderableType], console: Console, interval_s: float, sleep: Callable[[float], None]
) -> None:
    while True:
        console.print(picture(), Text(), soft_wrap=True)
        sleep(interval_s)

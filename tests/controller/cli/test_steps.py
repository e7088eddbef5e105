"""Display of long steps: lines that move on a terminal, plain lines anywhere else."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.console import Console

from controller.cli.steps import shown_steps

NEVER_S = 1e6


def console(term: str | None) -> Console:
    """Make a console of a terminal of that kind; None: a pipe."""
    return Console(file=io.StringIO(), force_terminal=term is not None, width=80, _environ={"TERM": term or "xterm"})


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Telling(io.StringIO):
    """A stream that says when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.was_written = threading.Event()

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        finally:
            self.was_written.set()


def test_a_terminal_shows_a_step_while_it_goes_on_and_nothing_later() -> None:
    shown = console("xterm")
    with shown_steps(shown) as step, step("executor image"):
        assert "executor image" in written(shown)
    assert written(shown).endswith("\x1b[2K") or "\x1b[?25h" in written(shown), "it is wiped, and the cursor is back"
    assert "took" not in written(shown)


@pytest.mark.parametrize("term", [None, "dumb"])
def test_others_get_plain_lines_of_what_takes_long(term: str | None) -> None:
    file = Telling()
    shown = Console(file=file, force_terminal=term is not None, width=80, _environ={"TERM": term or "xterm"})
    times = iter((3.0, 24.0))
    with shown_steps(shown, 0.0, lambda: next(times)) as step, step("executor image"):
        assert file.was_written.wait(60.0)
    assert file.getvalue() == "sparkpace: executor image ...\nsparkpace: executor image took 21s\n"


def test_short_steps_are_not_shown_elsewhere() -> None:
    shown = console(None)
    with shown_steps(shown, delay_s=NEVER_S) as step:
        for name in ("a", "b"):
            with step(name):
                pass
    assert written(shown) == ""


@pytest.mark.parametrize("term", [None, "dumb", "xterm"])
def test_what_fails_fails_and_has_no_last_line(term: str | None) -> None:
    shown, others = console(term), set(threading.enumerate())
    with pytest.raises(OSError, match="no disk"), shown_steps(shown, delay_s=0.0) as step, step("a"):
        raise OSError("no disk")
    assert "took" not in written(shown)
    assert not [one for one in set(threading.enumerate()) - others if isinstance(one, threading.Timer)]


def test_steps_go_on_side_by_side() -> None:
    shown = console("xterm")
    both = threading.Barrier(2, timeout=60.0)

    with shown_steps(shown) as step, ThreadPoolExecutor(2) as pool:

        def one(name: str) -> None:
            with step(name):
                both.wait()

        list(pool.map(one, ("drivers", "executors")))
    assert "took" not in written(shown)

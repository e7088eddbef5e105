"""Runs the jobs of a pipeline's file as children: each when those that it comes after have succeeded.

A job that fails ends the pipeline: nothing further starts, and what runs is ended. So does a signal. Not covered: deadlines,
which the master splits (`controller.master.pipelines`).
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from controller.submit.driver_run import DRIVER_END_S, FORWARDED, RECORD_S
from controller.submit.pipeline_file import FileJob, ready

LOOK_S = 0.25
END_S = DRIVER_END_S + RECORD_S + 5.0
"""From a signal to a job's `sparkpace submit` until that is killed: what it takes itself, and some."""

Start = Callable[[str, Sequence[str]], "subprocess.Popen[bytes]"]
"""Starts a job by name; told also which are still to be started."""


class PipelineRun:
    """`say` tells the user. `ended`: jobs that succeeded; `failed`: the first that did not, with its exit code; `stopped`:
    those that were ended for it."""

    def __init__(self, jobs: dict[str, FileJob], start: Start, say: Callable[[str], None]) -> None:
        self.ended: set[str] = set()
        self.failed: tuple[str, int] | None = None
        self.stopped: list[str] = []
        self.signalled: int | None = None
        self.waiting = list(jobs)
        self._jobs, self._start, self._say = jobs, start, say
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> bool:
        """Whether all succeeded. Whatever is raised, no job is left running."""
        with self._signals():
            try:
                while (self.waiting or self._running) and self.failed is None and self.signalled is None:
                    self._step()
            finally:
                self._end_all()
        return not self.waiting and not self.stopped and self.failed is None

    def _step(self) -> None:
        for name in ready(self._jobs, self.waiting, self.ended):
            self.waiting.remove(name)
            self._running[name] = self._start(name, self.waiting)
        time.sleep(LOOK_S)
        for name, child in list(self._running.items()):
            code = child.poll()
            if code is None:
                continue
            del self._running[name]
            if code:
                self.failed = self.failed or (name, code)
            else:
                self.ended.add(name)
                self._say(f"{name} has ended")

    def _end_all(self) -> None:
        self.stopped = list(self._running)
        for child in self._running.values():
            child.send_signal(self.signalled or signal.SIGTERM)
        until = time.monotonic() + END_S
        for child in self._running.values():
            try:
                child.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._running.clear()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def note(number: int, _frame: FrameType | None) -> None:
            self.signalled = self.signalled or number

        before = {number: signal.signal(number, note) for number in FORWARDED}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

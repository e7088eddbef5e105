"""Jobs of a pipeline as children: in order, side by side, and ended when one fails or a signal comes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

from controller.submit.pipeline_file import FileJob
from controller.submit.pipeline_run import PipelineRun

LONG = "exec sleep 600"


class Children:
    """`scripts` are what each job does; `started` says in which order, and what was still to be started then."""

    def __init__(self, scripts: dict[str, str]) -> None:
        self.scripts, self.started = scripts, list[tuple[str, list[str]]]()
        self.children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, waiting: Sequence[str]) -> subprocess.Popen[bytes]:
        self.started.append((name, list(waiting)))
        child = self.children[name] = subprocess.Popen(["sh", "-c", self.scripts[name]])
        return child


def jobs(**after: Sequence[str]) -> dict[str, FileJob]:
    return {name: FileJob(app="a.py", after=tuple(earlier)) for name, earlier in after.items()}


def test_each_job_starts_when_those_before_it_have_ended() -> None:
    here = Children(dict.fromkeys(("load", "left", "right", "report"), "exit 0"))
    said: list[str] = []
    run = PipelineRun(jobs(load=(), left=["load"], right=["load"], report=["left", "right"]), here.start, said.append)
    assert run.run()
    assert here.started[:3] == [
        ("load", ["left", "right", "report"]),
        ("left", ["right", "report"]),
        ("right", ["report"]),
    ]
    assert here.started[3] == ("report", [])
    assert said[0] == "load has ended"
    assert run.ended == {"load", "left", "right", "report"}


def test_a_job_that_fails_ends_the_others_and_nothing_further_starts() -> None:
    here = Children({"bad": "exit 3", "long": LONG, "next": "exit 0"})
    run = PipelineRun(jobs(bad=(), long=(), next=["bad"]), here.start, lambda _: None)
    assert not run.run()
    assert (run.failed, run.stopped, run.waiting) == (("bad", 3), ["long"], ["next"])
    assert here.children["long"].returncode == -signal.SIGTERM


def test_a_signal_ends_what_runs() -> None:
    here = Children({"first": f"kill -INT $PPID; {LONG}", "next": "exit 0"})
    before = signal.getsignal(signal.SIGINT)
    run = PipelineRun(jobs(first=(), next=["first"]), here.start, lambda _: None)
    assert not run.run()
    assert (run.signalled, run.stopped, run.failed) == (signal.SIGINT, ["first"], None)
    assert here.children["first"].returncode is not None
    assert signal.getsignal(signal.SIGINT) is before


def test_a_job_that_cannot_be_started_leaves_none_running() -> None:
    here = Children({"long": LONG})
    run = PipelineRun(jobs(long=(), none=()), here.start, lambda _: None)
    try:
        run.run()
    except KeyError:
        assert here.children["long"].returncode == -signal.SIGTERM
    else:
        raise AssertionError("the second job was started")

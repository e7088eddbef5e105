"""Wait of a submission that comes after others: before its driver starts, until the master lets it go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from controller.client import MasterClient
from controller.submit.submission import Submission
from controller.wire.command import PlanRequest, StartRequest
from stage_model.errors import PaceError, Unavailable

ASK_S = 2.0
LEAST_LEFT_S = 1.0
"""Seconds that are left of a deadline that has passed before the driver starts: the job then runs as fast as it can."""


def wait_for_start(
    connect: Callable[[], MasterClient], submission: str, name: str, plan: PlanRequest, say: Callable[[str], None]
) -> float:
    """Wait until the driver may start; return how many seconds that took. `connect` is called before each question, and
    raises `Unavailable` once the cluster is down; a master that only is away is asked again. `say` gets each new reason for
    waiting. Raise `PaceError` where the driver never starts."""
    begun_s, comes_after, reason = time.monotonic(), dict[str, str](), ""
    unheard: PlanRequest | None = plan
    while True:
        asked = StartRequest(name=name, elapsed_s=time.monotonic() - begun_s, comes_after=comes_after, plan=unheard)
        client = connect()
        try:
            reply = client.start(submission, asked)
        except Unavailable:
            time.sleep(ASK_S)
            continue
        if not reply.known:
            unheard = plan
            continue
        if reply.never:
            raise PaceError(f"the driver does not start: {reply.reason}")
        if not reply.reason:
            return time.monotonic() - begun_s
        if reply.reason != reason:
            reason = reply.reason
            say(f"the driver starts later: {reason}")
        unheard, comes_after = None, reply.comes_after
        time.sleep(ASK_S)


def begin_after(job: Submission, waited_s: float, submitted_ms: int, submitted_uptime: str) -> Submission:
    """Return the submission as its driver starts it after `waited_s` seconds: its clock starts then, and its deadline and the
    end of its pipeline are what is left of them."""

    def left(end_s: float | None) -> float | None:
        return None if end_s is None else max(LEAST_LEFT_S, end_s - waited_s)

    asked, pipeline = job.asked, job.asked.pipeline
    if pipeline is not None:
        pipeline = replace(pipeline, by_s=left(pipeline.by_s))
    asked = replace(asked, deadline_s=left(asked.deadline_s), pipeline=pipeline)
    return replace(job, waited=True, submitted_ms=submitted_ms, submitted_uptime=submitted_uptime, asked=asked)

"""The questions of a submission to the master before its driver starts: the plan, and the state of its predecessors."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from msgspec import structs
from rich.console import Console

from controller.client import MasterClient, submit_client
from controller.home import Home
from controller.machine.proc import uptime
from controller.runs.profile_store import ProfileStore
from controller.submit.profile_choice import stored_profile
from controller.submit.progress_line import note
from controller.submit.submission import Submission
from controller.wire.command import PlanReply, PlanRequest, StartRequest
from stage_model.errors import PaceError, Unavailable
from stage_model.history.profile import like_named, profile_key

ASK_S = 2.0
INTERRUPTED = 130
"""Exit code that a shell gives after Ctrl-C."""
LEAST_LEFT_S = 1.0
"""Seconds that are left of a deadline that has passed before the driver starts: the job then runs as fast as it can."""


def plan_request(job: Submission, home: Home, conf: dict[str, str], submits: str | None) -> PlanRequest:
    """Return the request for the plan; `submits` as in `PlanRequest`."""
    chosen, pipeline = job.profile, job.asked.pipeline
    if not chosen.given:
        chosen = stored_profile(ProfileStore(home.profiles), main=job.main, name=job.name)
    return PlanRequest(
        profile=chosen.name,
        profile_json=chosen.text,
        deadline_s=job.due_s,
        executors=job.executors,
        executor_cores=job.executor_cores,
        settings=job.asked.settings,
        law=job.given.get("law"),
        priority=job.asked.priority,
        conf=conf,
        python=job.application.endswith(".py"),
        attached=job.master is not None,
        pipeline=pipeline.name if pipeline and pipeline.by_s is not None else None,
        after=job.after,
        submits=submits,
        arguments=job.recorded_arguments,
        working_dir=str(Path.cwd()),
        observe=job.asked.observe,
    )


def ask_plan(client: MasterClient, request: PlanRequest, job: Submission, home: Home) -> PlanReply:
    """Return the answer of the master, which is contacted for the first time. Raise `PaceError`."""
    reply = client.plan(request)
    if reply.known or request.profile or request.profile_json:
        return reply
    # its program names it, so the master was asked for none
    alike = like_named(profile_key(None, "", job.main), ProfileStore(home.profiles).list())
    return structs.replace(reply, reason=reply.reason + alike)


def wait_for_predecessors(job: Submission, plan: PlanRequest, home: Home, console: Console) -> Submission:
    """Return the submission as its driver starts it, once all that it comes after has ended, or serves. Raise `PaceError` if
    its driver never starts; a `KeyboardInterrupt` is reported to the master first."""
    if not job.after:
        return job
    try:
        waited_s, services = _wait_for_start(job, plan, home, console)
    except KeyboardInterrupt:
        with suppress(PaceError):
            submit_client(home).driver_ended(job.submission, INTERRUPTED)
        raise
    return replace(begin_after(job, waited_s, int(time.time() * 1000), uptime()), services=services)


def _wait_for_start(job: Submission, plan: PlanRequest, home: Home, console: Console) -> tuple[float, dict[str, str]]:
    """Wait until the driver may start; return how many seconds that took, and the addresses of services. A master that is
    only away is asked again. Each new reason for waiting is printed. Raise `Unavailable` once the cluster is down, and
    `PaceError` where the driver never starts."""
    begun_s, comes_after, reason = time.monotonic(), dict[str, str](), ""
    name = job.name or job.main
    unheard: PlanRequest | None = plan
    while True:
        asked = StartRequest(name=name, elapsed_s=time.monotonic() - begun_s, comes_after=comes_after, plan=unheard)
        client = submit_client(home)
        try:
            reply = client.start(job.submission, asked)
        except Unavailable:
            time.sleep(ASK_S)
            continue
        if not reply.known:
            unheard = plan
            continue
        if reply.never:
            raise PaceError(f"the driver does not start: {reply.reason}")
        if not reply.reason:
            return time.monotonic() - begun_s, reply.addresses
        if reply.reason != reason:
            reason = reply.reason
            note(console, f"the driver starts later: {reason}")
        unheard, comes_after = None, reply.comes_after
        time.sleep(ASK_S)


def begin_after(job: Submission, waited_s: float, submitted_ms: int, submitted_uptime: str) -> Submission:
    """Return the submission as its driver starts it after `waited_s` seconds: its clock starts then, and its deadline and the
    end of its pipeline are shortened by the wait."""

    def left(end_s: float | None) -> float | None:
        return None if end_s is None else max(LEAST_LEFT_S, end_s - waited_s)

    asked, pipeline = job.asked, job.asked.pipeline
    if pipeline is not None:
        pipeline = replace(pipeline, by_s=left(pipeline.by_s))
    asked = replace(asked, deadline_s=left(asked.deadline_s), pipeline=pipeline)
    return replace(job, waited=True, submitted_ms=submitted_ms, submitted_uptime=submitted_uptime, asked=asked)

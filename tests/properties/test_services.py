"""Services of a name begin, serve, end and are forgotten, of two users, in any order: a job that comes after the name starts
only when a service of its own user serves, with the address of that service, and never starts only if the service that it
waited for ended without serving."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.asks.job_options import JobOptions
from controller.master.core.application import Application
from controller.master.core.dependencies import STARTING_S, KnownJobs, Past, WaitingJob, past_of
from controller.master.core.life import LifeState
from controller.wire.command import PlanRequest
from tests.fakes.cluster import application_record, registration

MINE, OTHERS = 1, 2
NOW_S = 2 * STARTING_S

KINDS = ("begins", "serves", "ends", "is forgotten")
turns = st.tuples(st.sampled_from(KINDS), st.integers(0, 5), st.sampled_from([MINE, OTHERS]))


def application(number: int, uid: int) -> Application:
    record = application_record(registration(name="connect", uid=uid, host=f"h{number}"), JobOptions(), f"a{number}")
    return Application(record=record, started_s=0.0, profile_key="connect", profile_runs=0, estimate=None)


@settings(max_examples=200)
@given(st.lists(turns, max_size=30))
def test_a_job_starts_with_the_address_of_what_serves(history: list[tuple[str, int, int]]) -> None:
    applications, past = dict[str, Application](), dict[str, Past]()
    jobs = KnownJobs(applications, past, {}, 0.0)
    job = WaitingJob.of(PlanRequest(after="connect:up"), None, MINE, 0.0)
    job.id = "waits"
    begun = list[Application]()
    found: Application | None = None
    for kind, number, uid in history:
        one = begun[number] if number < len(begun) else None
        if kind == "begins":
            begun.append(application(len(begun), uid))
            applications[begun[-1].id] = begun[-1]
        elif one is not None and kind == "serves" and not one.ended:
            one.record.serves = 10_000 + len(begun)
        elif one is not None and kind == "ends" and not one.ended:
            one.life.move(LifeState.ENDED)
            one.record.ended_s = 1.0
        elif one is not None and kind == "is forgotten" and one.ended and one.id in applications:
            past[one.id] = past_of(applications.pop(one.id).record)
        live = [known for known in begun if known.uid == MINE and not known.ended]
        serving = [known for known in live if known.record.serves is not None]
        found = [*live, *serving][-1] if live else found
        reason, never = jobs.obstacle(job, NOW_S)
        assert bool(reason) is not bool(serving)
        assert jobs.addresses(job.after, MINE) == ({"connect": serving[-1].address} if serving else {})
        assert never is (not live and found is not None and found.id in past and found.record.serves is None)
        if never:
            return

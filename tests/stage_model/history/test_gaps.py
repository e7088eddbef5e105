"""Gaps of every kind are reported, and nothing is reported of a run without gaps."""

from __future__ import annotations

import pytest

from stage_model.history.gaps import gaps, remarks, why_incomplete
from stage_model.history.profile import CoresThere
from stage_model.history.run_record import to_record
from tests.fakes.records import facts
from tests.fakes.records import run as plain_run
from tests.fakes.refusals import assert_names
from tests.fakes.spark_events import Story, info

FIRST, SECOND = info(0), info(1, parents=(0,))


def story(*, second: str = "whole") -> Story:
    """Return two stages of a job; `second` says how much is reported of the second one."""
    made = Story(ms=1000)
    made.job(0, FIRST, SECOND)
    made.whole(FIRST)
    if second == "whole":
        made.whole(SECOND)
    elif second == "no end":
        made.submit(SECOND)
        made.task(SECOND, 0)
    elif second == "one task":
        made.submit(SECOND)
        made.task(SECOND, 0)
        made.complete(SECOND)
    elif second == "never submitted":
        made.task(SECOND, 0)
        made.task(SECOND, 1)
    elif second == "only its end":
        made.complete(SECOND)
    elif second == "no cpu":
        made.whole(SECOND, cpu_s=0.0)
    elif second == "hardly any cpu":
        made.whole(SECOND, ms=400, cpu_s=0.0)
    elif second == "retried":
        made.submit(SECOND)
        made.task(SECOND, 0)
        made.complete(SECOND, failure="FetchFailed")
        made.whole(info(1, parents=(0,), tasks=1, attempt=1))
    elif second == "backwards":
        made.submit(SECOND)
        made.task(SECOND, 0)
        made.task(SECOND, 1)
        made.ms -= 500
        made.complete(SECOND)
    made.job_end(0)
    made.end()
    return made


@pytest.mark.parametrize(
    ("second", "clauses"),
    [
        ("whole", []),
        ("retried", []),
        ("no cpu", ["1 stage (first stage 1) without the CPU time"]),
        ("hardly any cpu", []),
        ("nothing", []),
        ("no end", ["1 stage (first stage 1) without an end"]),
        ("one task", ["1 stage (first stage 1) with fewer ends of tasks"]),
        ("never submitted", ["2 tasks ended"]),
        ("only its end", ["1 end "]),
        ("backwards", ["1 stage (first stage 1) with an end before", "stages with an end after"]),
    ],
)
def test_each_gap_is_a_clause_and_no_time_is_negative(second: str, clauses: list[str]) -> None:
    run = story(second=second).run
    found = gaps(run)
    assert len(found) == len(clauses), found
    for clause, said in zip(clauses, found, strict=True):
        assert said.startswith(clause)
    assert run.complete
    record = to_record(run, facts(name="n", when_ms=1, started_ms=1000))
    assert min(record.startup_s, record.tail_s, record.duration_s) >= 0
    assert all(min(one.duration_s, one.start_s, one.gap_s, one.work_core_s) >= 0 for one in record.stages)


def test_why_a_run_teaches_nothing() -> None:
    empty = Story()
    assert_names(why_incomplete(empty.run), "no job", "never ended")
    made = Story()
    for number in range(3):
        made.job(number, info(number))
    made.job_end(0, ok=False)
    made.job_end(1)
    made.end()
    assert_names(why_incomplete(made.run), "1 job failed", "1 job did not end")


def test_facts_that_are_no_gaps_are_remarks() -> None:
    assert remarks(story().run, plain_run("r")) == ()
    [retried] = remarks(story(second="retried").run, plain_run("r"))
    assert_names(retried, "1 stage (first stage 1)", "more than one attempt")
    grown = plain_run("r", cores_there=(CoresThere(since_s=0.0, cores=0.5), CoresThere(since_s=4.0, cores=2.0)))
    [came] = remarks(story().run, grown)
    assert "0.5 to 2 cores" in came

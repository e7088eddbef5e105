"""Reasons of a refused deadline, the basis of a forecast in one sentence, and the bounds of stages in `explain` and in the
record of a run."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from controller.master.core.capacity import Capacity
from controller.master.core.feasibility import feasibility
from controller.master.core.lesson import basis
from stage_model.forecast.bounds import StageBound
from stage_model.forecast.estimate import ApplicationEstimate, estimate
from stage_model.forecast.further import Grounds
from stage_model.history.profile import StageWaits, profile
from tests.fakes.cluster import FakeCluster
from tests.fakes.records import run, stage
from tests.fakes.refusals import assert_names

MOST = Capacity(cores=2.0, slots=2, speed_limit=1.0, executors=1)


def writing() -> ApplicationEstimate:
    """Return two seconds of start-up, more than nine in which tasks write, half a second of computing, and as much at the
    end."""
    waits = StageWaits(fetch_s=0.0, remote_bytes=0, write_s=18.0, memory_spilled_bytes=0, disk_spilled_bytes=0)
    one = stage("a", work_core_s=1.0, run_s=19.0, task_s=4.75, duration_s=10.0, waits=waits)
    return estimate(profile("k", [run("r", 1, one, duration_s=12.5)]))


def test_a_deadline_that_no_number_of_cores_keeps_is_refused_with_what_the_job_waits_for() -> None:
    what = writing()
    refused = feasibility(what, 5.0, MOST)
    assert refused.feasible is False
    assert_names(refused.reason, "5s", "12.5s", "more cores do not shorten", "accepted: 13s")
    [disk_s] = re.findall(r"of which ([0-9.]+)s are waiting for the disk", refused.reason)
    assert float(disk_s) == pytest.approx(what.stages[0].fixed_s, abs=0.06)
    # the driver is named where it takes most of the time
    refused = feasibility(structs.replace(what, startup_s=20.0), 25.0, MOST)
    assert_names(refused.reason, "30.5s", "20.5s are start-up and pauses of the driver")


@pytest.mark.parametrize(("deadline_s", "feasible"), [(12.4, False), (14.0, True), (None, None)])
def test_nothing_is_named_where_cores_could_help_or_need_not(deadline_s: float | None, feasible: bool | None) -> None:
    reply = feasibility(writing(), deadline_s, MOST)
    assert reply.feasible is feasible
    assert "shorten" not in reply.reason


def test_a_run_that_has_taught_has_the_bounds_of_its_stages_and_the_next_one_is_explained_by_them(
    cluster: FakeCluster,
) -> None:
    first = cluster.finished_run()
    assert cluster.state.core.commands.explain(first, cluster.now_s).largest_stages == ()
    [bound] = cluster.summary(first)["largest_stages"]
    # eight seconds of work on one core
    assert (bound["name"], bound["bound"], bound["tasks"]) == ("collect at /x/app.py:1", "CPU", 4)
    second = cluster.register(instance="second")
    [expected] = cluster.state.core.commands.explain(second, cluster.now_s).largest_stages
    assert expected == StageBound(**bound)


@pytest.mark.parametrize(
    ("grounds", "said", "not_said"),
    [
        (Grounds(runs=5, same_arguments=3), ["5 runs", "3 of them"], ["undisturbed"]),
        (Grounds(runs=1, same_arguments=1), ["1 run with the same arguments"], ["undisturbed", "--profile"]),
        (Grounds(runs=4, same_arguments=0, further=0.125), ["4 runs", "other arguments", "12%"], []),
        # arguments that are not known are not called the same
        (Grounds(runs=2, same_arguments=None), [], ["same", "other"]),
        # stages that no run teaches
        (Grounds(runs=1, same_arguments=1, disturbed=1), ["1 stage "], []),
        (Grounds(runs=1, same_arguments=1, disturbed=2), ["2 stages "], []),
        # runs of another program with the same name
        (Grounds(runs=1, same_arguments=1, others=1), ["1 run with other stages ", "--profile"], []),
        (Grounds(runs=1, same_arguments=1, others=3), ["3 runs with other stages ", "--profile"], []),
    ],
)
def test_a_forecast_rests_on_runs_of_these_or_other_arguments(grounds: Grounds, said: list[str], not_said: list[str]) -> None:
    found = basis(grounds)
    assert (found.runs, found.same_arguments, found.further) == (grounds.runs, grounds.same_arguments, grounds.further)
    assert_names(found.sentence, *said)
    assert [words for words in not_said if words in found.sentence] == []


def test_without_a_profile_no_run_has_taught() -> None:
    found = basis(None)
    assert (found.runs, found.same_arguments, found.further, found.recognised) == (0, None, 0.0, None)
    assert found.sentence


def test_what_is_recognised_and_since_when_it_is_late_come_last() -> None:
    found = basis(Grounds(runs=2, same_arguments=2), recognised=0.973, late_since_s=75.0)
    assert (found.recognised, found.late_since_s) == (0.973, 75.0)
    for words, part in zip(("2 runs", "97%", "1m15s"), found.sentence.split("; "), strict=True):
        assert words in part

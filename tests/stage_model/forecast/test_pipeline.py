"""Deadlines of a pipeline's jobs: derived by hand for a chain and a diamond, and what holds of any pipeline."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.errors import BadInput
from stage_model.forecast.pipeline import PipelineJob, TimeSplit, split_time
from stage_model.forecast.virtual_time import Forecast

NEAR = 1e-3


def work(core_s: float, slots: int = 4, fixed_s: float = 0.0) -> Forecast:
    """Make work of `core_s` core-seconds with tasks on all slots: T(c) = fixed + core_s / c up to `slots` cores."""
    return Forecast((*(0.0,) * (slots - 1), core_s / slots), fixed_s)


def chain(*forecasts: Forecast | None) -> list[PipelineJob]:
    names = [f"j{number}" for number in range(len(forecasts))]
    before = [(), *((name,) for name in names)]
    return [PipelineJob(*one) for one in zip(names, forecasts, before, strict=False)]


def test_a_chain_is_split_by_what_each_job_takes_with_the_same_cores() -> None:
    # 10 + 20 + 30 core-seconds in 120 s: half a core, so 20, 40 and 60 s
    found = split_time(chain(work(10), work(20), work(30)), 120.0, 4.0)
    assert found.feasible
    assert found.cores == pytest.approx(0.5, rel=NEAR)
    assert found.least_s == pytest.approx(15.0)  # 60 core-seconds on 4 cores
    assert found.due_s == pytest.approx({"j0": 20.0, "j1": 60.0, "j2": 120.0}, rel=NEAR)


def test_time_that_no_core_shortens_is_left_to_its_job() -> None:
    # 15 s are fixed; 20 core-seconds in the other 20 s take one core: 5 + 10, then 10 + 10
    found = split_time(chain(work(10, fixed_s=5.0), work(10, fixed_s=10.0)), 35.0, 4.0)
    assert found.cores == pytest.approx(1.0, rel=NEAR)
    assert found.due_s == pytest.approx({"j0": 15.0, "j1": 35.0}, rel=NEAR)


def test_parallel_jobs_share_the_cores() -> None:
    # 10, then 10 and 30 side by side, then 10: 60 core-seconds in 60 s take one core; the middle lasts 40 s for both
    jobs = [
        PipelineJob("first", work(10)),
        PipelineJob("short", work(10), ("first",)),
        PipelineJob("long", work(30), ("first",)),
        PipelineJob("last", work(10), ("short", "long")),
    ]
    found = split_time(jobs, 60.0, 4.0)
    assert found.cores == pytest.approx(1.0, rel=NEAR)
    assert found.due_s == pytest.approx({"first": 10.0, "short": 50.0, "long": 50.0, "last": 60.0}, rel=NEAR)


def test_what_one_job_cannot_use_the_others_get() -> None:
    # on 4 cores the serial one takes 30 s with one, so the other has three: 60 core-seconds in 20 s
    jobs = [PipelineJob("serial", work(30, slots=1)), PipelineJob("wide", work(60))]
    assert split_time(jobs, 100.0, 4.0).least_s == pytest.approx(30.0)
    assert split_time([*jobs, PipelineJob("last", work(4), ("wide",))], 100.0, 4.0).least_s == pytest.approx(30.0)


def test_without_enough_time_the_deadlines_are_those_with_all_cores() -> None:
    found = split_time(chain(work(40), work(40)), 19.0, 4.0)
    assert found == TimeSplit(feasible=False, cores=4.0, least_s=20.0, due_s={"j0": 10.0, "j1": 20.0})


def test_an_unknown_job_takes_no_time_and_gets_no_deadline() -> None:
    found = split_time(chain(work(10), None, work(10)), 40.0, 4.0)
    assert found.due_s == pytest.approx({"j0": 20.0, "j2": 40.0}, rel=NEAR)
    assert split_time(chain(None), 40.0, 4.0) == TimeSplit(feasible=True, cores=4.0 / 2**16, least_s=0.0, due_s={})


def test_jobs_of_only_fixed_times_share_the_time_that_is_left_in_proportion() -> None:
    found = split_time(chain(Forecast((), 10.0), Forecast((0.0, 0.0), 30.0)), 80.0, 4.0)
    assert found.due_s == pytest.approx({"j0": 20.0, "j1": 80.0})


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({"a": ("b",)}, "'b'"),
        ({"a": ("a",)}, "a before a"),
        ({"a": (), "b": ("a", "c"), "c": ("b",)}, "b before c|c before b"),
    ],
)
def test_circles_and_unknown_names_are_refused(after: dict[str, tuple[str, ...]], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        split_time([PipelineJob(name, work(1), earlier) for name, earlier in after.items()], 10.0, 1.0)


forecasts = st.builds(
    Forecast, st.lists(st.floats(0.01, 100.0), min_size=1, max_size=4).map(tuple), st.floats(0.0, 50.0), st.floats(0.5, 1.0)
)
chains = st.lists(forecasts, min_size=1, max_size=6).map(lambda found: chain(*found))


@st.composite
def pipelines(draw: st.DrawFn) -> list[PipelineJob]:
    jobs: list[PipelineJob] = []
    for number in range(draw(st.integers(1, 6))):
        earlier = draw(st.sets(st.sampled_from([job.name for job in jobs]))) if jobs else set()
        jobs.append(PipelineJob(f"j{number}", draw(forecasts), tuple(sorted(earlier))))
    return jobs


@given(chains, st.floats(1.0, 2000.0), st.floats(0.5, 16.0))
def test_the_deadlines_of_a_chain_are_in_order_and_the_last_one_is_the_end(
    jobs: list[PipelineJob], left_s: float, cores: float
) -> None:
    found = split_time(jobs, left_s, cores)
    alone = [job.forecast.time_s(cores) for job in jobs if job.forecast is not None]
    assert found.least_s == pytest.approx(sum(alone))
    assert found.feasible == (found.least_s <= left_s)
    due = [found.due_s[job.name] for job in jobs]
    assert all(one <= other for one, other in pairwise(due))
    assert due[-1] == (left_s if found.feasible else found.least_s)


@given(chains, st.floats(1.0, 2000.0), st.floats(0.5, 16.0))
def test_each_job_of_a_chain_has_the_time_that_the_same_cores_take(
    jobs: list[PipelineJob], left_s: float, cores: float
) -> None:
    found = split_time(jobs, left_s, cores)
    lengths = [due - before for before, due in pairwise([0.0, *found.due_s.values()])]
    takes = [job.forecast.time_s(found.cores) for job in jobs if job.forecast is not None]
    assert [length / sum(lengths) for length in lengths] == pytest.approx([one / sum(takes) for one in takes], abs=1e-9)
    assert found.cores <= cores


@given(pipelines(), st.floats(1.0, 2000.0), st.floats(0.5, 16.0))
def test_each_job_by_itself_can_keep_its_deadline_from_those_of_the_jobs_before(
    jobs: list[PipelineJob], left_s: float, cores: float
) -> None:
    found = split_time(jobs, left_s, cores)
    for job in jobs:
        assert job.forecast is not None
        begins_s = max((found.due_s[earlier] for earlier in job.after), default=0.0)
        assert found.due_s[job.name] - begins_s >= job.forecast.time_s(cores) * (1 - 1e-9)
    assert max(found.due_s.values()) == (left_s if found.feasible else found.least_s)


@given(pipelines(), st.floats(0.5, 16.0))
def test_a_whole_that_is_given_its_least_time_fits_and_with_less_it_does_not(jobs: list[PipelineJob], cores: float) -> None:
    least_s = split_time(jobs, 1e9, cores).least_s
    assert split_time(jobs, least_s, cores).feasible
    assert not split_time(jobs, least_s * 0.999, cores).feasible

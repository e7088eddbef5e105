"""Stages of one run and their counterparts in another: loops, jobs from threads in any order, SQL executions."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stage_model.forecast.expected import SIDE_BY_SIDE, Expected, ProfiledTraits
from stage_model.forecast.same_stage import same_stages
from stage_model.history.amounts import Amounts
from stage_model.history.signature import RESULT, Names


def stage(
    kind: str = "map",
    *,
    structure: str = "",
    site: str = "",
    job: int = 0,
    tasks: int = 4,
    parents: tuple[int, ...] = (),
    sql: int | None = None,
    reads: float | None = None,
    start_s: float = 0.0,
    end_s: float = 10.0,
) -> ProfiledTraits:
    return ProfiledTraits(
        names=Names(kind, structure, site),
        result=None,
        job=job,
        tasks=tasks,
        parents=parents,
        sql=sql,
        amounts=Amounts(records=round(reads or 0)),
        counted=1,
        start_s=start_s,
        end_s=end_s,
    )


def same(expected: Sequence[ProfiledTraits], seen: Sequence[ProfiledTraits]) -> list[int | None]:
    """Match stages; the last stage of a job is its result stage."""
    return same_stages(Expected(whole(expected)), whole(seen)).places


def whole(stages: Sequence[ProfiledTraits]) -> list[ProfiledTraits]:
    last = {one.job: number for number, one in enumerate(stages)}
    results = {job: stages[number].names._replace(site=RESULT) for job, number in last.items()}
    return [
        structs.replace(one, result=results[one.job], names=results[one.job] if last[one.job] == number else one.names)
        for number, one in enumerate(stages)
    ]


def loop(turns: Sequence[int]) -> list[ProfiledTraits]:
    """Make a job of one stage in each turn, with that turn's number of tasks."""
    return [stage(tasks=tasks, job=n, start_s=10.0 * n, end_s=10.0 * n + 9) for n, tasks in enumerate(turns)]


def threads(jobs: Sequence[tuple[int, float]]) -> list[ProfiledTraits]:
    """Make jobs of two stages, all submitted at once: their tasks, and what a task of the first stage reads."""
    first = [stage(tasks=tasks, reads=reads, job=place) for place, (tasks, reads) in enumerate(jobs)]
    second = [stage("reduce", tasks=2, job=place, parents=(place,), start_s=10, end_s=11) for place in range(len(jobs))]
    return [*first, *second]


def test_other_kinds_are_never_the_same_and_what_is_left_over_is_unknown() -> None:
    expected = [stage("map"), stage("sort")]
    assert same(expected, [stage("sort"), stage("join"), stage("map"), stage("map")]) == [1, None, 0, None]


def test_the_turns_of_a_loop_are_in_order_whatever_their_tasks() -> None:
    """The input is doubled, so every turn has twice the tasks, as many as another turn had."""
    assert same(loop([1, 2, 4, 8]), loop([2, 4, 8, 16])) == [0, 1, 2, 3]


def test_jobs_from_threads_are_distinguished_by_tasks_and_their_second_stages_by_their_parents() -> None:
    expected, seen = threads([(4, 10.0), (8, 10.0), (16, 10.0)]), threads([(16, 10.0), (4, 10.0), (8, 10.0)])
    assert same(expected, seen) == [2, 0, 1, 5, 3, 4]


def test_where_tasks_are_as_many_what_they_read_tells() -> None:
    expected, seen = threads([(8, 100.0), (8, 1000.0), (8, 10.0)]), threads([(8, 11.0), (8, 900.0), (8, 110.0)])
    assert same(expected, seen) == [2, 1, 0, 5, 4, 3]
    unknown = [stage(tasks=8), stage("reduce", tasks=2, parents=(0,)), stage(tasks=8, reads=10.0, job=1)]
    unknown.append(stage("reduce", tasks=2, job=1, parents=(2,)))
    assert same(expected, unknown) == [0, 3, 2, 5], "nothing is read yet: by order, until it is"


def test_jobs_of_a_pool_of_threads_are_side_by_side_through_each_other() -> None:
    """The third began when the first had ended, while the second still ran."""
    expected = [stage(tasks=2, end_s=5), stage(tasks=4, job=1, end_s=12), stage(tasks=8, job=2, start_s=6, end_s=9)]
    assert same(expected, [expected[2], expected[0], expected[1]]) == [2, 0, 1]


def test_call_sites_of_jobs_side_by_side_are_no_sign() -> None:
    """PySpark has one call site for all threads: what `reduceByKey` began may be called `collect`."""
    jobs = [(4, 10.0), (8, 10.0), (8, 90.0)]
    expected = [stage("map", structure="read", job=n, tasks=tasks, reads=reads) for n, (tasks, reads) in enumerate(jobs)]
    seen = [
        stage("collect", structure="read", job=0, tasks=8, reads=88.0),
        stage("map", structure="read", job=1, tasks=8, reads=10.0),
        stage("map", structure="other", job=2, tasks=4),
        stage("RDD", structure="read", job=3, tasks=4),
    ]
    assert same(expected, seen) == [2, 1, 0, None]
    alone = [structs.replace(one, job=0) for one in expected]
    assert same(alone, seen) == [None, 1, 0, None], "in one job every call site is its own"


def test_a_sql_execution_that_did_not_come_does_not_move_the_others() -> None:
    expected = [stage(sql=n, job=n, start_s=10.0 * n, end_s=10.0 * n + 9) for n in range(4)]
    assert same(expected, [expected[0], expected[2], expected[3]]) == [0, 2, 3]


def query(sql: int, kinds: Sequence[str], first_job: int) -> list[ProfiledTraits]:
    """Make an SQL execution with a job of one stage for each kind, as AQE submits them."""
    return [
        stage(kind, site="collect", sql=sql, job=job, start_s=10.0 * job, end_s=10.0 * job + 9)
        for job, kind in enumerate(kinds, first_job)
    ]


def queries(turns: Sequence[Sequence[str]]) -> list[ProfiledTraits]:
    found: list[ProfiledTraits] = []
    for sql, kinds in enumerate(turns):
        found += query(sql, kinds, len(found))
    return found


USUAL, OTHER = ("scan", "read", "sort", "join", "sum"), ("scan", "read", "broadcast", "probe", "sum")
"""The jobs of a query, and of the same query planned in another way."""


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_each_turn_of_a_query_is_the_same_turn_however_it_is_planned(plans: list[tuple[bool, bool]]) -> None:
    expected = queries([OTHER if then else USUAL for then, _ in plans])
    seen = queries([OTHER if now else USUAL for _, now in plans])
    assert same(expected, seen) == list(range(len(seen)))
    for reached in range(len(seen)):
        places = same(expected, seen[:reached])
        assert [place for place in places if place is not None and place > reached + len(USUAL)] == []


def test_a_query_that_did_not_come_or_came_once_more_does_not_move_the_others() -> None:
    first, second, third = ("scan", "a", "b"), ("scan", "c", "d"), ("scan", "e", "f")
    assert same(queries([first, second, third]), queries([second, third])) == [3, 4, 5, 6, 7, 8]
    found = same(queries([first, third]), queries([first, second, third]))
    assert (found[:3], found[-2:]) == ([0, 1, 2], [4, 5])


def test_jobs_of_one_execution_that_run_one_after_the_other_keep_their_order() -> None:
    def execution(turns: Sequence[int]) -> list[ProfiledTraits]:
        return [structs.replace(one, sql=0) for one in loop(turns)]

    assert same(execution([1, 2, 4, 8]), execution([2, 4, 8, 16])) == [0, 1, 2, 3]


def test_an_execution_that_is_half_another_one_does_not_move_the_turns_after_it() -> None:
    turns = [("scan", "scan", "a", "b", "c")] * 4
    strange = [turns[0], ("scan", "scan", "x", "y", "z"), *turns[2:]]
    assert same(queries(turns), queries(strange))[10:] == list(range(10, 20))


@given(st.lists(st.tuples(st.integers(1, 50), st.sampled_from((1.0, 10.0, 100.0))), min_size=1, max_size=8), st.randoms())
def test_threads_in_any_order_find_their_own(jobs: list[tuple[int, float]], chance: random.Random) -> None:
    """A stage finds its own counterpart, or an equal one."""
    mixed = chance.sample(jobs, len(jobs))
    expected, seen = threads(jobs), threads(mixed)
    found = same(expected, seen)
    assert sorted(place for place in found if place is not None) == list(range(2 * len(jobs)))
    for number, place in enumerate(found[: len(jobs)]):
        assert place is not None
        assert jobs[place] == mixed[number]
        assert found[len(jobs) + number] == len(jobs) + place


@given(
    st.lists(
        st.builds(stage, st.sampled_from("ab"), job=st.integers(0, 4), tasks=st.integers(1, 3), start_s=st.floats(0, 9)),
        max_size=30,
    )
)
def test_a_run_is_the_same_as_itself(run: list[ProfiledTraits]) -> None:
    ordered = sorted(run, key=lambda one: one.start_s)
    assert same(ordered, ordered) == list(range(len(ordered)))


def test_very_many_alike_stages_are_looked_through_in_steps() -> None:
    many = [stage(tasks=1 + n % 7, job=n) for n in range(20 * SIDE_BY_SIDE)]
    assert same(many, many) == list(range(len(many)))

"""Work left of a program: the estimate equals the truth, in whatever order its threads submit their jobs.

The profile is of one run of a random program, and another run of it is looked at after every event. Amounts are core-seconds.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise

from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from stage_model.forecast.estimate import ApplicationEstimate, estimate
from stage_model.forecast.match import match
from stage_model.history.profile import profile
from stage_model.history.run import Run
from stage_model.history.stage_run import StageKey
from tests.fakes.threads import Execution, Job, Program, Scopes, Step

RIGHT_WITHIN = 0.1
"""Share of all the work of the program."""
PER_TASK = {"map": 1.0, "sort": 2.0, "join": 4.0}
STEPS = [Step(name, tasks, work * tasks) for name, work in PER_TASK.items() for tasks in (1, 2, 4)]
"""Steps: two steps that no trait distinguishes take the same time."""
CACHES = [Step(name, 2, 6.0, shared=True) for name in ("cache1", "cache2")]

few = settings(max_examples=15, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
"""Settings without shrinking, which takes minutes here: a seed and a program say enough."""
seeds = st.integers(0, 2**16)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Draw one to five stages."""
    chain = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4))
    first = draw(st.lists(st.sampled_from(CACHES), max_size=1))
    return Job((*first, *chain), own_query=draw(st.booleans()))


@st.composite
def programs(draw: st.DrawFn, most_threads: int = 4) -> Program:
    """Draw a program in which each thread has a loop, and so have the parts before and after the threads."""
    kinds = draw(st.lists(jobs(), min_size=1, max_size=4))
    turn = st.lists(st.sampled_from(kinds), min_size=1, max_size=3).map(tuple)

    def loop() -> tuple[Job, ...]:
        return draw(turn) * draw(st.integers(1, 4))

    threads = tuple(loop() for _ in range(draw(st.integers(1, most_threads))))
    return Program(before=loop(), threads=threads, after=loop())


def as_they_are(thread: int, job: int, step: Step) -> tuple[str, ...]:
    return (step.name,)


def inherited(seed: int) -> Scopes:
    """Return names of a thread pool: its threads name operators after the operation in which they began, another one in each
    run."""

    def scopes(thread: int, job: int, step: Step) -> tuple[str, ...]:
        return (step.name, f"begun in {random.Random(seed + thread).randint(0, 4)}")

    return scopes


def planned_anew(seed: int) -> Scopes:
    """Return names by which AQE plans some jobs in another way in each run."""

    def scopes(thread: int, job: int, step: Step) -> tuple[str, ...]:
        return (step.name, "broadcast") if random.Random(seed + job).random() < 0.1 else (step.name,)

    return scopes


def believed(expected: ApplicationEstimate, run: Run, used: Mapping[StageKey, float]) -> float:
    found = match(expected, run, used)
    left = sum(stage.work_core_s for stage in found.to_come)
    for key, stage in found.active.items():
        attempt = run.attempts[key]
        left += stage.work_core_s * (1 - len(attempt.done) / attempt.info.tasks)
    return left


def check(
    program: Program,
    seed: int,
    then: Scopes = as_they_are,
    now: Scopes = as_they_are,
    *,
    retries: float = 0.0,
    slack: float = 0.0,
) -> None:
    """Assert that the estimate of the work left is right within 10% of the whole once half is done, and that it never falls
    by more than what ran, but for `slack`, a share of the whole. Threads of which no stages ran side by side in the profile
    look like one thread."""
    record = Execution(program, random.Random(seed), then).run().record("r")
    expected = estimate(profile("k", [record]))
    spans = [(stage.start_s, stage.start_s + stage.duration_s) for stage in record.stages]
    assume(len(program.threads) == 1 or any(begin < end for (_, end), (begin, _) in pairwise(spans)))
    whole = program.work()
    last: tuple[float, float] | None = None

    def look(execution: Execution) -> None:
        nonlocal last
        left, really = believed(expected, execution.story.run, execution.used), execution.left
        if execution.ran >= whole / 2:
            assert abs(left - really) <= RIGHT_WITHIN * whole, (left, really, whole)
        if last is not None:
            ran = max(0.0, last[1] - really)
            assert last[0] - left <= ran + slack * whole + 1e-6, (last, left, really, whole)
        last = left, really

    Execution(program, random.Random(seed + 1), now, look, retries).run()


@few
@given(programs(), seeds)
def test_threads_submit_their_jobs_in_any_order(program: Program, seed: int) -> None:
    check(program, seed)


@few
@given(programs(), seeds)
def test_threads_inherit_what_their_operators_are_called(program: Program, seed: int) -> None:
    """Then one of a job's kind may be another thread's, or one of the jobs after the threads."""
    check(program, seed, inherited(seed), inherited(seed + 1), slack=0.05)


@few
@given(programs(most_threads=1), seeds)
def test_jobs_are_planned_in_another_way(program: Program, seed: int) -> None:
    check(program, seed, as_they_are, planned_anew(seed))


@few
@given(programs(), seeds)
def test_stages_run_again(program: Program, seed: int) -> None:
    check(program, seed, retries=0.1)

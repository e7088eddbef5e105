"""Fig. 4's conditions on made-up runs: each holds where it should and fails where it should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from experiments.harness.recorded import Data, StepRecord
from experiments.scenarios.fig4 import LONG, SHORT, Fig4, earliest_end_s, long_cores
from tests.fakes.recorded import Spans, job_record, samples_of, step_record

SCENARIO = Fig4(long=("long.py",), short=("short.py",), repetitions=1, bases=1)
# Half a core each until the short job's executors come, the floor while they run, then all there is.
LONG_SPANS = ((10, 52, 0.5), (52, 79, 0.1), (79, 121, 0.85))
SHORT_SPANS = ((9.4, 36, 0.75),)
BASE_SPANS = ((10, 80, 0.85),)


def story(*, long_spans: Spans = LONG_SPANS, short: dict[str, Any] | None = None, long: dict[str, Any] | None = None) -> Data:
    """Make the data of both jobs by themselves, then together: the short one came 42.6 s after the long one and took 36 s."""
    steps = [
        step_record("base-long-0", job_record(LONG, "base-l", end_s=81)),
        step_record("base-short-0", job_record(SHORT, "base-s", end_s=32)),
        step_record(
            "both-0",
            job_record(LONG, "long", **{"end_s": 122, "deadline_s": 128.0, "priority": 0, **(long or {})}),
            job_record(
                SHORT,
                "short",
                **{"end_s": 36, "deadline_s": 38.4, "submitted_epoch_s": 1042.6, "priority": 100, **(short or {})},
            ),
        ),
    ]
    samples = {
        "base-l": samples_of(BASE_SPANS),
        "base-s": samples_of([(10, 31, 0.85)]),
        "long": samples_of(long_spans),
        "short": samples_of(SHORT_SPANS, 1042.6),
    }
    return Data({step.step: step for step in steps}, samples)


def failing(data: Data) -> list[str]:
    return [condition.name for condition in SCENARIO.conditions(data) if not condition.holds]


def test_the_paper_s_story_holds() -> None:
    assert failing(story()) == []


def both(data: Data) -> StepRecord:
    return data.steps["both-0"]


def test_cores_of_the_long_job_before_during_and_after() -> None:
    before, during, after = long_cores(both(story()), story())
    assert before == pytest.approx(1.0)
    # from 42.6 s: 9.4 s at 1.0 until the executors of the short one were there, then 26.6 s at 0.2
    assert during == pytest.approx((9.4 * 1.0 + 26.6 * 0.2) / 36)
    # from 78.6 s: 0.4 s at 0.2, then 42 s until the last task
    assert after == pytest.approx((0.4 * 0.2 + 42 * 1.7) / 42.4)


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        (lambda: story(short={"end_s": 39.0}), "the short job ends by its deadline"),
        (lambda: story(long={"executors_lost": 1}), "the long job loses no executor and no task"),
        (lambda: story(long={"tasks_failed": 2}), "the long job loses no executor and no task"),
        (
            lambda: story(long_spans=((10, 52, 0.5), (52, 79, 0.1), (79, 121, 0.45))),
            "the long job is granted more after than before",
        ),
        # over before the short one ends: there is no after
        (
            lambda: story(long_spans=((10, 52, 0.5), (52, 77, 0.1)), long={"end_s": 78}),
            "the long job is granted more after than before",
        ),
        (lambda: story(long={"end_s": 128.5}), "the long job ends by its deadline, when that is feasible"),
        (
            lambda: story(long_spans=((10, 52, 0.5), (52, 79, 0.2), (79, 121, 0.85))),
            "quotas never above capacity",
        ),
        (lambda: story(short={"workers": {}}), "quotas never above capacity"),
        (lambda: story(short={"exit_code": 1}), "every answer is right"),
    ],
)
def test_each_condition_fails_by_itself(change: Callable[[], Data], condition: str) -> None:
    assert failing(change()) == [condition]


def test_a_missing_repetition_fails() -> None:
    data = story()
    without = Data({name: step for name, step in data.steps.items() if name != "both-0"}, data.samples)
    assert failing(without) == ["every step was run"]
    assert failing(Data()) == ["every step was run"]


def test_a_deadline_that_all_cores_could_not_have_kept_is_no_failure() -> None:
    # By the short one's end the long one had used 2 * (42 * 0.5 + 27 * 0.1) = 47.4 of 118.8 core-seconds, two fifths; alone
    # that took until 10 + 0.4 * 70 = 38 s, and 81 - 38 = 43 s more. So 78.6 + 43 is about when it could have ended.
    data = story(long={"deadline_s": 118.0})
    bases = data.starting("base-long-")
    assert earliest_end_s(both(data), bases, data) == pytest.approx(121.6, abs=1.0)
    assert failing(data) == []
    detail = next(c.detail for c in SCENARIO.conditions(data) if "feasible" in c.name)
    assert detail.startswith("122.0 s of 118.0 s (+3.39%), earliest 121.")
    assert detail.endswith("not feasible")


def test_without_samples_nothing_about_the_long_job_is_proven() -> None:
    data = story()
    bare = Data(data.steps, {**data.samples, "long": []})
    assert failing(bare) == [
        "the long job is granted more after than before",
        "the long job ends by its deadline, when that is feasible",
    ]


def test_the_submitted_jobs_follow_only_from_the_runs() -> None:
    assert SCENARIO.steps() == ["base-long-0", "base-short-0", "both-0"]
    [base] = SCENARIO.orders("base-short-0", Data())
    assert (base.job, base.words, base.deadline_s, base.delay_s) == (SHORT, ("short.py",), None, 0)
    long, short = SCENARIO.orders("both-0", story())
    # by themselves 81 and 32 s; the short one comes after a third of the long one's deadline
    assert (long.priority, long.deadline_s, long.delay_s) == ("low", 162.0, 0)
    assert short.priority == "high"
    assert short.deadline_s == pytest.approx(38.4)
    assert short.delay_s == pytest.approx(54.0)


def test_tables_say_their_n_and_stand_without_any_run() -> None:
    tables = SCENARIO.tables(story())
    assert "| both-0 | 1 | 38.4 | 36.0 | -6.25 | 128.0 | 122.0 | -4.69 | 1.00 | 0.41 | 1.69 | - | - | 0 | 0 |" in tables
    assert "| short | 1 | -6.25 | -6.25 | -6.25 |" in tables
    assert "| long | 1 | 81.0 | 81.0 | 81.0 |" in tables
    assert "both" not in SCENARIO.tables(Data())
    # records of a version that knows of debt say so
    owed = story(long={"withheld_core_s": 21.6, "debt_core_s": 0.0})
    assert "| 1.69 | 21.60 | 0.00 | 0 | 0 |" in SCENARIO.tables(owed)
    assert SCENARIO.pictures(story()) == {"fig4-0": ["long", "short"]}

"""The verdict on each of Spark's examples follows from plain runs and one under Sparkpace."""

from __future__ import annotations

import pytest

from experiments.bench.same_answers import judge_answers


def ran(printed: str = "1.0 two", ended: str = "") -> dict[str, str]:
    return {"printed": printed, "ended": ended}


@pytest.mark.parametrize(
    ("plain", "again", "ours", "verdict"),
    [
        (ran(), ran(), ran("1.0000000001 two"), "same"),
        (ran(), ran(), ran("1.5 two"), "different: line 1: '1.0 two', then '1.5 two'"),
        (ran("a\nb"), ran("a\nb"), ran("b\na"), "same in another order"),
        (ran(), ran("9 two"), ran("5 two"), "random"),
        (ran(), ran(ended="ValueError"), ran(ended="ValueError"), "random"),
        (ran(" \n"), ran(" \n"), ran(" \n"), "prints nothing"),
        (ran(), ran(), ran(ended="ValueError"), "different: ended with 'ValueError', with plain Spark with 'success'"),
        (ran(ended="exit 1"), ran(ended="exit 1"), ran(), "different: ended with 'success', with plain Spark with 'exit 1'"),
        (ran(ended="exit 1"), ran(ended="exit 1"), ran(ended="exit 1"), "fails with plain Spark, too: exit 1"),
    ],
)
def test_a_verdict(plain: dict[str, str], again: dict[str, str], ours: dict[str, str], verdict: str) -> None:
    assert judge_answers({"x.py": plain}, {"x.py": again}, {"x.py": ours}) == {"x.py": verdict}

"""Settings: parsed and refused as a whole, and never without a reason."""

from __future__ import annotations

import pytest

from stage_model.errors import BadInput
from stage_model.laws import LAWS, parse_constants, parse_law
from stage_model.laws.paper import PaperSettings
from stage_model.settings import Topic, parse, rules


def test_the_papers_constants_are_the_default() -> None:
    paper = parse(PaperSettings, {})
    assert (paper.alpha, paper.beta, paper.k, paper.ti_s, paper.overscale) == (0.95, 0.33, 50, 12, 2)


def test_given_values_replace_defaults_and_others_stay() -> None:
    conf = {"spark.pace.law": "paper", "spark.pace.law.paper.alpha": "0.9", "spark.pace.law.paper.ti": "1min"}
    paper = parse(PaperSettings, conf | {"spark.executor.memory": "1g"})
    assert (paper.alpha, paper.ti_s, paper.beta) == (0.9, 60, 0.33)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("alpha", "1.5", r"spark.pace.law.paper.alpha .*'1.5'.* 0.* 1"),
        ("alpha", "nan", "'nan'"),
        ("k", "inf", r"'inf'.* 0 \(cores per unit of progress\)"),
        ("k", "fast", "'fast'.* 0"),
        ("k", "5s", "'5s'"),
        ("ti", "", r"''.* 0 \(s\)"),
        ("ti", "5 parsecs", r"paper.ti '5 parsecs'"),
        ("overscale", "0.5", r" 1 .*\(times initial cores\)"),
        ("beta", "-0.1", "0 to 1"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_and_range(key: str, value: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        parse_constants({f"spark.pace.law.paper.{key}": value})


def test_an_unknown_key_is_refused_with_the_closest_known_one() -> None:
    with pytest.raises(BadInput, match=r"paper.alhpa .*paper.alpha"):
        parse_constants({"spark.pace.law.paper.alhpa": "1"})
    with pytest.raises(BadInput, match=r"spark.pace.law.alpha .*spark.pace.law.*alpha"):
        parse_constants({"spark.pace.law.alpha": "1"})


def test_settings_survive_the_way_to_an_agent_of_another_version() -> None:
    numbers = parse_constants({"spark.pace.law.paper.k": "3.125"})
    assert (numbers["paper.k"], numbers["forecast.alpha"]) == (3.125, 0.995)
    assert PaperSettings.from_numbers(numbers) == PaperSettings(k=3.125)
    assert PaperSettings.from_numbers({"paper.k": 3.125, "paper.newer": 1.0}) == PaperSettings(k=3.125)


@pytest.mark.parametrize("topic", [law.settings for law in LAWS.values()])
def test_every_setting_has_a_reason_and_an_acceptable_default(topic: type[Topic]) -> None:
    defaults = topic()
    for name, rule in rules(topic):
        assert rule.accepts(getattr(defaults, name)), name
        assert len(rule.reason) > 20, name


def test_the_laws_name_is_checked() -> None:
    assert parse_law("paper") == "paper"
    with pytest.raises(BadInput, match=r"--law 'pid'.* paper, forecast or constant"):
        parse_law("pid")

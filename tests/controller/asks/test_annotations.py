"""Annotations of a driver's pod as settings."""

from __future__ import annotations

import pytest

from controller.asks.annotations import with_annotations
from stage_model.errors import BadInput
from tests.fakes.refusals import assert_names

DEADLINE = "spark.kubernetes.driver.annotation.sparkpace.io/deadline"
PRIORITY = "spark.kubernetes.driver.annotation.sparkpace.io/priority"


def test_they_say_what_settings_say() -> None:
    conf = {DEADLINE: "10min", PRIORITY: "high", "spark.app.name": "a"}
    assert with_annotations(conf) == conf | {"spark.pace.deadline": "10min", "spark.pace.priority": "high"}


def test_a_setting_goes_before_an_annotation() -> None:
    assert with_annotations({DEADLINE: "10min", "spark.pace.deadline": "5min"})["spark.pace.deadline"] == "5min"


def test_others_annotations_are_theirs() -> None:
    conf = {"spark.kubernetes.driver.annotation.example.org/deadline": "10min", "spark.kubernetes.driver.label.a": "b"}
    assert with_annotations(conf) == conf


def test_one_that_says_nothing_is_refused() -> None:
    with pytest.raises(BadInput) as refused:
        with_annotations({"spark.kubernetes.driver.annotation.sparkpace.io/dedline": "10min"})
    assert_names(refused.value, "sparkpace.io/dedline", "sparkpace.io/deadline", "sparkpace.io/priority")

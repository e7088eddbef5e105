"""Splitting submit's arguments as spark-submit itself would."""

from __future__ import annotations

import pytest

from controller.asks.submit_args import REFUSED, SPARK_VALUES, split_arguments, with_our_scheme
from stage_model.errors import BadInput


def test_sparkpaces_sparks_and_the_applications_words_are_distinguished() -> None:
    split = split_arguments(
        ["--deadline", "90s", "--conf", "a.b=c=d", "-v", "--executor-memory=2g", "--force", "app.py", "--deadline", "5", "-v"]
    )
    assert split.own == {"deadline": "90s"}
    assert split.flags == {"force"}
    assert split.spark == ("--conf", "a.b=c=d", "-v", "--executor-memory", "2g")
    assert split.conf == {"a.b": "c=d"}
    assert split.spark_options["--executor-memory"] == "2g"
    assert split.application == "app.py"
    assert split.application_args == ("--deadline", "5", "-v")


@pytest.mark.parametrize("option", sorted(SPARK_VALUES - REFUSED.keys()))
def test_the_value_of_a_spark_option_is_never_the_application(option: str) -> None:
    split = split_arguments([option, "key=value", "app.py", "1"])
    assert split.spark_options == {option: "key=value"}
    # the driver gets a file of its own, with what is in this one
    assert split.spark == (() if option == "--properties-file" else (option, "key=value"))
    assert split.application == "app.py"
    assert split.application_args == ("1",)


def test_mounts_repeat_and_other_own_options_do_not() -> None:
    assert split_arguments(["--mount", "/a", "--mount=/b:rw", "app.py"]).own == {"mount": "/a,/b:rw"}
    with pytest.raises(BadInput, match="--deadline"):
        split_arguments(["--deadline", "1s", "--deadline", "2s", "app.py"])


def test_an_empty_value_is_a_value() -> None:
    assert split_arguments(["--deadline=", "app.py"]).own == {"deadline": ""}
    assert split_arguments(["--deadline", "", "app.py"]).own == {"deadline": ""}


def test_without_an_application_there_is_none() -> None:
    assert split_arguments(["--deadline", "90s"]).application is None
    assert split_arguments([]).application is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--remote", "sc://here", "app.py"], "--remote"),
        (["--deadlin", "90s", "app.py"], "'--deadlin'"),
        (["-x", "app.py"], "'-x'"),
        (["--deadline"], "--deadline"),
        (["--conf"], "--conf"),
        (["--conf", "novalue", "app.py"], "KEY=VALUE"),
        (["--detach=yes", "app.py"], "--detach"),
        (["--mount", "", "app.py"], "--mount ''"),
        (["--mount", "/a,/b", "app.py"], "--mount '/a,/b'"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(arguments: list[str], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        split_arguments(arguments)
    assert said in str(refused.value)


def test_sparks_way_to_write_our_address_names_our_master() -> None:
    own, given = "sparkpace://here:7070", ["--master=spark://here:7070", "-v", "app.py", "--master", "spark://here:7070"]
    assert with_our_scheme(given, own) == ["--master", own, "-v", "app.py", "--master", "spark://here:7070"]
    for others in (["--master", "spark://here:7077", "app.py"], ["--name", "--master", "app.py"], ["--kill"], []):
        assert with_our_scheme(others, own) == others

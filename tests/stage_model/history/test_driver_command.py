"""The program that a driver runs: the same for every way in which Spark starts one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.history.driver_command import Program, main_and_arguments

SUBMIT = "org.apache.spark.deploy.SparkSubmit"
YARN = "org.apache.spark.deploy.yarn.ApplicationMaster"
STANDALONE = "org.apache.spark.deploy.worker.DriverWrapper spark://Worker@h:1 /w/a.jar"
PYTHON = "--class org.apache.spark.deploy.PythonRunner"
COMMANDS: list[tuple[str, str, Program]] = [
    ("submitted", f"{SUBMIT} --master yarn /x/app.py a b", ("app.py", ("a", "b"))),
    ("a class", f"{SUBMIT} --class org.x.Main --conf k=v /x/a.jar 1", ("org.x.Main", ("1",))),
    ("a jar", f"{SUBMIT} --master yarn hdfs:///x/a.jar 1", ("a.jar", ("1",))),
    ("a server", f"{SUBMIT} --class org.x.Server spark-internal", ("org.x.Server", ())),
    ("an attached value", f"{SUBMIT} --name=x app.py --date=1", ("app.py", ("--date=1",))),
    ("a driver's pod", f"{SUBMIT} --deploy-mode client {PYTHON} local:///x/app.py a", ("app.py", ("a",))),
    ("R", f"{SUBMIT} x.R", ("x.R", ())),
    (
        "YARN, Python",
        f"{YARN} {PYTHON} --primary-py-file app.py --arg --date --arg 7",
        ("app.py", ("--date", "7")),
    ),
    ("YARN, R", f"{YARN} --class org.apache.spark.deploy.RRunner --primary-r-file x.R", ("x.R", ())),
    ("YARN, a class", f"{YARN} --class org.x.Main --jar file:/x/a.jar --arg --jar --arg b", ("org.x.Main", ("--jar", "b"))),
    ("standalone", f"{STANDALONE} org.x.Main 1 2", ("org.x.Main", ("1", "2"))),
    ("pyspark", f"{SUBMIT} --name PySparkShell pyspark-shell", (None, None)),
    ("spark-shell", f"{SUBMIT} --class org.apache.spark.repl.Main spark-shell", (None, None)),
    ("sparkR", f"{SUBMIT} sparkr-shell", (None, None)),
]
"""Kind, a driver's words, its program; the bridge finds the same main file or class (test_bridge_parts.py)."""


@pytest.mark.parametrize(("command", "expected"), [(command, expected) for _, command, expected in COMMANDS])
def test_every_way_to_start_a_driver_names_the_program_alike(command: str, expected: Program) -> None:
    assert main_and_arguments(command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (f"{SUBMIT} --conf spark.x=-Da -Db --verbose app.py", ("app.py", ())),
        (f"{SUBMIT} --conf spark.x=-Da --add-opens=a/b=ALL -Db=1 --class org.x.Main a.jar", ("org.x.Main", ())),
        (f"{SUBMIT} --name my nightly job app.py", ("app.py", ())),
        (f"{YARN} --class org.x.Main --jar a.jar --arg two words --arg  --arg b", ("org.x.Main", ("two words", "", "b"))),
        (f"{YARN} --jar file:/x/a.jar", ("a.jar", ())),
        (f"{STANDALONE} org.apache.spark.deploy.PythonRunner /x/app.py 1", ("app.py", ("1",))),
        ("org.example.Own 1", ("org.example.Own", ("1",))),
        ("/x/my-own.jar", ("my-own.jar", ())),
        ("*********(redacted)", (None, None)),
        (SUBMIT, (None, None)),
        (f"{SUBMIT} --class org.x.Main", ("org.x.Main", None)),
        (YARN, (None, None)),
        ("org.apache.spark.deploy.worker.DriverWrapper spark://h", (None, None)),
        ("", (None, None)),
    ],
)
def test_words_with_blanks_other_starters_and_broken_command_lines(command: str, expected: Program) -> None:
    assert main_and_arguments(command) == expected


WORDS = st.text(st.characters(codec="utf-8", exclude_characters=" "), min_size=1)


@given(st.lists(WORDS))
def test_arguments_are_returned_as_they_were_given(arguments: list[str]) -> None:
    for begin, between in ((f"{SUBMIT} --class M a.jar", ""), (f"{YARN} --class M", "--arg "), (f"{STANDALONE} M", "")):
        command = " ".join([begin, *(f"{between}{word}" for word in arguments)])
        assert main_and_arguments(command) == ("M", tuple(arguments))


PIECES = ["", "-v", "--arg", "--conf", "k=v", "/", "spark-shell", *SUBMIT.split(), *f"{YARN} {PYTHON} {STANDALONE}".split()]


@given(st.lists(st.sampled_from(PIECES)))
def test_no_command_line_is_too_strange(words: list[str]) -> None:
    main, arguments = main_and_arguments(" ".join(words))
    assert main != ""
    assert arguments is None or main is not None

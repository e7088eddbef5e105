"""Sparkpace's `spark-submit` before the real one, which is a script here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller.cli.main import main
from controller.home import Home
from controller.submit.bridge_jar import JAR
from controller.submit.shim import words_for_submit
from controller.submit.spark_install import spark_of
from tests.fakes.commands import write_cluster

REAL = '#!/bin/sh\nprintf "%s\\n" real "$@"\ncat\nexit 7\n'


@pytest.mark.parametrize(
    "words",
    [
        ["--deadline", "90s", "app.py"],
        ["--executor-memory", "2g", "--priority=high", "app.py"],
        ["--conf", "spark.pace.deadline=90s", "app.py"],
        ["--master", "spark://here:7077", "--force", "app.py"],
        ["--master", "sparkpace://here:7070", "app.py"],
        ["--conf", "spark.master=sparkpace://here:7070", "app.py"],
        ["--status", "driver-1", "--home", "/here"],
        ["--master", "sparkpace://here:7070", "--kill", "driver-1"],
        ["--unknown", "--deadline=90s", "app.py"],
    ],
)
def test_our_options_before_the_application_ask_for_pacing(words: list[str]) -> None:
    assert words_for_submit(words) == words


@pytest.mark.parametrize(
    "words",
    [
        ["--master", "yarn", "app.py", "--deadline", "90s"],
        ["--name", "--deadline", "app.py"],
        ["--conf", "spark.ui.port=1", "app.py"],
        ["--status", "driver-1", "--conf", "spark.pace.priority=high"],
        ["--conf", "spark.master=sparkpace://here:7070", "--master", "yarn", "app.py"],
        ["--deadline", "1s", "--version"],
        ["--help"],
        [],
    ],
)
def test_everything_else_is_the_real_ones(words: list[str]) -> None:
    assert words_for_submit(words) is None


def test_a_named_file_says_what_settings_say(tmp_path: Path) -> None:
    file = tmp_path / "my.conf"
    words = ["--properties-file", str(file), "--conf", "spark.pace.priority=low", "app.py"]
    file.write_text("spark.pace.deadline 90s\nspark.ui.port 1\nspark.master yarn\n")
    assert words_for_submit(words) == ["--conf", "spark.pace.deadline=90s", "--conf", "spark.master=yarn", *words]
    file.write_text("spark.master sparkpace://here:7070\n")
    alone = [f"--properties-file={file}", "app.py"]
    assert words_for_submit(alone) == ["--conf", "spark.master=sparkpace://here:7070", *alone]
    assert words_for_submit([*alone[:1], "--master", "yarn", "app.py"]) is None
    file.write_text("spark.master yarn\nspark.ui.port 1\n")
    assert words_for_submit(alone) is None


@pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")
def test_a_file_of_sparkpace_conf_goes_to_the_real_one(tmp_path: Path) -> None:
    file = tmp_path / "pace.conf"
    assert CliRunner().invoke(main, ["conf", "--home", str(tmp_path), "-o", str(file)]).exit_code == 0
    words = ["--properties-file", str(file), "app.py"]
    assert words_for_submit(words) is None
    assert words_for_submit(["--deadline", "90s", *words]) == ["--deadline", "90s", *words]


def test_a_file_that_cannot_be_read_is_the_real_ones_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"spark.pace.deadline 90s\nspark.app.name caf\xe9\n")
    os.mkfifo(tmp_path / "pipe")
    for name in ("none", ".", "latin", "pipe"):
        assert words_for_submit(["--properties-file", str(tmp_path / name), "app.py"]) is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide a folder with our scripts, next to a folder with a real spark-submit."""
    real = tmp_path / "real" / "bin" / "spark-submit"
    real.parent.mkdir(parents=True)
    real.write_text(REAL)
    real.chmod(0o755)
    (tmp_path / "real" / "jars").mkdir()
    assert CliRunner().invoke(main, ["shim", str(tmp_path / "shim")]).exit_code == 0
    return tmp_path / "shim"


def call(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    path = f"{folder}:{folder.parent / 'real' / 'bin'}:/usr/bin:/bin"
    environment |= {"PATH": path, "SPARKPACE_HOME": str(folder.parent / "home"), **variables}
    return subprocess.run(words, env=environment, input="input", capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("name", ["spark-submit", "spark3-submit"])
def test_the_real_one_runs_unchanged(folder: Path, name: str) -> None:
    done = call(folder, name, "--master", "yarn", "a b.py", "--deadline", "1s")
    assert (done.returncode, done.stdout) == (7, "real\n--master\nyarn\na b.py\n--deadline\n1s\ninput")
    home = call(folder, name, "--version", PATH=f"{folder}:/usr/bin:/bin", SPARK_HOME=str(folder.parent / "real"))
    assert (home.returncode, home.stdout) == (7, "real\n--version\ninput")


def test_the_real_one_tells_of_itself_without_our_options(folder: Path) -> None:
    done = call(folder, "spark-submit", "--deadline", "90s", "--force", "--name=a b", "-v", "--conf", "a=b", "--help")
    assert (done.returncode, done.stdout) == (7, "real\n--name=a b\n-v\n--conf\na=b\n--help\ninput")


def test_a_poller_that_names_our_master_as_sparks_asks_sparkpace(folder: Path) -> None:
    home = Home(folder.parent / "home")
    home.create()
    write_cluster(home)
    (home.ca_file).write_text("")
    words = ("spark-submit", "--status", "driver-1", "--master")
    assert call(folder, *words, "spark://127.0.0.1:7077").returncode == 7
    done = call(folder, *words, "spark://127.0.0.1:1")
    assert (done.returncode, done.stdout, done.stderr.startswith("sparkpace: ")) == (69, "", True)


def test_a_shim_never_finds_a_shim(folder: Path) -> None:
    assert CliRunner().invoke(main, ["shim", str(folder.parent / "other")]).exit_code == 0
    done = call(folder, "spark-submit", "app.py", PATH=f"{folder}:{folder.parent / 'other'}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (69, "sparkpace: PATH has no real spark-submit; set SPARK_HOME to a Spark\n")


def test_a_deadline_goes_through_our_submit(folder: Path) -> None:
    done = call(folder, "spark-submit", "--deadline", "soon", "app.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--deadline 'soon'" in done.stderr


def test_a_script_that_may_run_any_spark_runs_no_paced_job(folder: Path) -> None:
    (folder.parent / "real" / "jars").rmdir()
    done = call(folder, "spark-submit", "--deadline", "90s", "app.py")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (69, "", 1)
    assert "set SPARK_HOME to a Spark" in done.stderr


def test_the_spark_of_an_environment_is_its_pyspark(tmp_path: Path) -> None:
    home = tmp_path / "lib" / "python3.12" / "site-packages" / "pyspark"
    (home / "jars").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    assert spark_of(tmp_path / "bin" / "spark-submit") == home


def test_a_file_of_the_users_is_not_replaced(folder: Path) -> None:
    refused = CliRunner().invoke(main, ["shim", str(folder.parent / "real" / "bin")])
    assert refused.exit_code == 2
    assert (folder.parent / "real" / "bin" / "spark-submit").read_text() == REAL

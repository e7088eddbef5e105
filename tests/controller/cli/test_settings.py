"""`sparkpace conf`: the settings of a stock driver, and the file that alone holds a secret."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller.cli.main import main
from controller.home import Cluster, Home
from controller.processes import identify
from controller.submit.bridge_jar import JAR
from controller.submit.properties import parse_properties

pytestmark = pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")


def conf(home: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["conf", "--home", str(home), *words])


def test_the_file_is_its_users_alone_and_what_is_printed_holds_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "pace.conf"
    seen = []
    for _ in range(2):
        assert conf(tmp_path, "-o", str(file)).exit_code == 0
        assert file.stat().st_mode & 0o777 == 0o600
        written = parse_properties(file.read_text())
        seen.append(written.pop("spark.authenticate.secret"))
        assert written.pop("spark.authenticate") == "true"
        printed = conf(tmp_path).stdout
        assert parse_properties(printed) == written
        assert "authenticate" not in printed
    assert len(set(seen)) == 2, "a new one each time"


def test_a_file_of_the_users_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text("spark.ui.port 4050\n")
    refused = conf(tmp_path, "-o", str(file))
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert f"{file} exists and is not from `sparkpace conf`; name another file, or remove it" in refused.stderr
    assert file.read_text() == "spark.ui.port 4050\n"
    assert conf(tmp_path, "-o", str(tmp_path / "no" / "where.conf")).exit_code == 2


def test_what_attaches_a_job_holds_no_secret_and_needs_a_cluster(tmp_path: Path) -> None:
    assert conf(tmp_path, "--attach").exit_code == 69
    ours = identify(os.getpid())
    assert ours is not None
    home = Home(tmp_path / "home")
    home.create()
    home.write_cluster(Cluster(cluster_id="c", url="https://here:7070", host="here", port=7070, runtime="adopt", master=ours))
    printed = conf(home.path, "--attach")
    settings = parse_properties(printed.stdout)
    assert (printed.exit_code, settings["spark.pace.master"]) == (0, "sparkpace://here:7070")
    assert (settings["spark.jars"], settings["spark.plugins"]) == (str(JAR), "org.sparkpace.bridge.PacePlugin")
    assert not any("secret" in key or "offHeap" in key for key in settings)
    assert conf(home.path, "--attach", "-o", str(tmp_path / "x")).exit_code == 2

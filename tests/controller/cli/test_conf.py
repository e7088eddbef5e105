"""`sparkpace conf`: the settings of a stock driver, and the one file that holds a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import Result

from controller.asks.properties import parse_properties
from controller.home import Home
from controller.submit.bridge_jar import JAR
from tests.fakes.commands import assert_refused, run, write_cluster

pytestmark = pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")


def conf(home: Path, *words: str, master: str | None = None) -> Result:
    return run("conf", "--home", str(home), *words, SPARKPACE_MASTER=master)


def test_only_its_user_can_read_the_file_and_the_output_holds_no_secret(tmp_path: Path) -> None:
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
    assert_refused(conf(tmp_path, "-o", str(file)), 2, file)
    assert file.read_text() == "spark.ui.port 4050\n"
    assert conf(tmp_path, "-o", str(tmp_path / "no" / "where.conf")).exit_code == 2


def test_what_attaches_a_job_holds_no_secret_and_needs_a_cluster(tmp_path: Path) -> None:
    assert conf(tmp_path, "--attach").exit_code == 69
    home = Home(tmp_path / "home")
    home.create()
    write_cluster(home, url="https://here:7070", host="here", port=7070, runtime="adopt")
    printed = conf(home.path, "--attach")
    settings = parse_properties(printed.stdout)
    assert (printed.exit_code, settings["spark.pace.master"]) == (0, "sparkpace://here:7070")
    assert (settings["spark.jars"], settings["spark.plugins"]) == (str(JAR), "org.sparkpace.bridge.PacePlugin")
    assert not any("secret" in key or "offHeap" in key for key in settings)
    assert conf(home.path, "--attach", "-o", str(tmp_path / "x")).exit_code == 2


IN_CLUSTER = "https://sparkpace-master.sparkpace.svc:7070"
OPERATORS = Path(__file__).resolve().parents[3] / "deploy/kubernetes/jobs/spark-operator.yaml"


def test_a_driver_in_a_pod_has_its_files_only_from_secrets(tmp_path: Path) -> None:
    printed = conf(tmp_path, "--attach", "--kubernetes", master=IN_CLUSTER)
    settings = parse_properties(printed.stdout)
    assert settings["spark.pace.master"] == "sparkpace://sparkpace-master.sparkpace.svc:7070"
    mounts = {(key.split(".")[2], key.split(".")[4]): at for key, at in settings.items() if ".secrets." in key}
    assert {secret for role, secret in mounts if role == "executor"} == {"sparkpace-bridge"}, "executors get no token"
    for key in ("spark.pace.token.file", "spark.pace.ca.file"):
        assert str(Path(settings[key]).parent) == mounts["driver", "sparkpace-submit"]
    for role in ("driver", "executor"):
        assert settings[f"spark.{role}.extraClassPath"] == f"{mounts[role, 'sparkpace-bridge']}/{JAR.name}"
    assert str(tmp_path) not in printed.stdout
    same = parse_properties(conf(tmp_path, "--attach", master=IN_CLUSTER).stdout)
    other = {key for key in same if settings.get(key) != same[key]}
    assert other == {"spark.jars", "spark.pace.token.file", "spark.pace.ca.file"}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0", "[::1]"])
def test_a_master_that_pods_do_not_reach_is_refused(tmp_path: Path, host: str) -> None:
    assert_refused(conf(tmp_path, "--attach", "--kubernetes", master=f"https://{host}:7070"), 2, host.strip("[]"))


def test_kubernetes_without_attach_is_refused(tmp_path: Path) -> None:
    assert_refused(conf(tmp_path, "--kubernetes", master=IN_CLUSTER), 2, "--attach --kubernetes")


def test_the_operators_example_has_what_is_printed(tmp_path: Path) -> None:
    [example] = yaml.safe_load_all(OPERATORS.read_text())
    assert (example["apiVersion"], example["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    printed = parse_properties(conf(tmp_path, "--attach", "--kubernetes", master=IN_CLUSTER).stdout)
    assert example["spec"]["sparkConf"] == printed | {"spark.pace.deadline": "10min"}

"""`sparkpace submit`: the words, the settings and the environment that the driver gets. Spark is a script, the master a
fake."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from controller.machine.proc import boot_id, uptime
from controller.submit.bridge_jar import JAR
from controller.wire.hosting import DriverState, HostedView
from tests.fakes.commands import run as command
from tests.fakes.master import TOKEN
from tests.fakes.submitting import Place, submitting

pytestmark = pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with submitting(tmp_path, monkeypatch) as made:
        yield made


def test_the_users_words_pass_through_and_ours_are_added(place: Place) -> None:
    result = place.submit(
        "--deadline", "90s", "--priority", "high", "--law", "paper", "--executor-memory", "2g", "--num-executors", "3",
        "--mount", ".:rw", "--name", "load", "app.py", "--deadline", "x",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    words = place.words
    assert words[:2] == ["--master", f"sparkpace://127.0.0.1:{place.master.server_port}"]
    assert words[2:8] == ["--executor-memory", "2g", "--num-executors", "3", "--name", "load"]
    assert words[words.index("--driver-class-path") + 1] == str(JAR)
    assert words[-3:] == ["app.py", "--deadline", "x"]
    settings = place.settings
    assert settings["spark.pace.deadline"] == "90.000s"
    assert settings["spark.pace.priority"] == "100"
    assert settings["spark.pace.law"] == "paper"
    assert settings["spark.pace.mounts"] == f"{place.work}:rw"
    assert (settings["spark.pace.main"], settings["spark.pace.name"]) == ("app.py", "load")
    assert settings["spark.pace.arguments"] == '["--deadline", "x"]'
    assert settings["spark.pace.token.file"] == str(place.home.submit_token_file)
    assert settings["spark.executor.instances"] == "3"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.plugins"] == "org.sparkpace.bridge.PacePlugin"
    assert (settings["spark.memory.offHeap.enabled"], settings["spark.buffer.pageSize"]) == ("true", "2m")
    assert int(settings["spark.pace.submit.time.ms"]) <= time.time() * 1000
    assert float(settings["spark.pace.submit.uptime"].removesuffix(f"@{boot_id()}")) <= float(uptime().split("@")[0])
    assert TOKEN not in " ".join(words)


@pytest.mark.parametrize("where", ["--conf", "--properties-file", "spark-defaults.conf", "environment"])
def test_the_first_mode_that_is_asked_for_counts_as_for_spark_submit(
    place: Place, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    asked, words = "spark.submit.deployMode cluster\n", []
    if where == "--conf":
        words = ["--conf", "spark.submit.deployMode=cluster"]
    elif where == "--properties-file":
        (place.work / "my.conf").write_text(asked)
        words = ["--properties-file", "my.conf"]
    elif where == "spark-defaults.conf":
        (place.work / "spark" / "conf").mkdir()
        (place.work / "spark" / "conf" / "spark-defaults.conf").write_text(asked)
    else:
        monkeypatch.setenv("DEPLOY_MODE", "cluster")
    place.master.drivers = [HostedView(driver_id="driver-1", name="app.py", state=DriverState.FINISHED)]
    assert place.submit(*words, "app.py").exit_code == 0
    assert (place.master.hosted is not None, place.started) == (True, None), "a worker hosts the driver"
    assert place.submit("--master", "yarn", *words, "app.py").exit_code == 0, "another cluster manager may run the driver"
    assert place.submit("--deploy-mode", "client", *words, "app.py").exit_code == 0, "spark-submit's option wins"


def test_a_job_of_another_cluster_manager_is_attached_only_by_settings(place: Place) -> None:
    mine = ("--jars", "mine.jar", "--conf", "spark.plugins=org.example.Mine", "--executor-memory", "2g")
    hour = ("--conf", "spark.pace.deadline=1h")
    assert place.asked("--master", "spark://there:7077", "--deadline", "90s", *hour, *mine, "app.py").attached
    words = place.words
    assert words[:2] == ["--master", "spark://there:7077"]
    assert "--driver-class-path" not in words
    last_jars = len(words) - 1 - words[::-1].index("--jars")
    assert words[last_jars + 1] == f"mine.jar,{JAR}"
    settings = place.settings
    assert settings["spark.plugins"] == "org.example.Mine,org.sparkpace.bridge.PacePlugin"
    assert settings["spark.pace.master"] == f"sparkpace://127.0.0.1:{place.master.server_port}"
    assert (settings["spark.pace.deadline"], settings["spark.network.timeout"]) == ("90.000s", "600s")
    assert settings["spark.shuffle.io.connectionTimeout"] == "120s"
    ours = {key for key in settings if key.startswith(("spark.memory.", "spark.authenticate", "spark.driver."))}
    assert (ours, place.file) == (set(), {})


@pytest.mark.parametrize(
    ("said", "variables"),
    [
        ({}, {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_PUBLIC_DNS": "127.0.0.1"}),
        ({"SPARK_PUBLIC_DNS": "me.example"}, {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_PUBLIC_DNS": "me.example"}),
        ({"SPARK_LOCAL_IP": "0.0.0.0"}, {"SPARK_LOCAL_IP": "0.0.0.0"}),
    ],
)
def test_the_driver_listens_where_executors_reach_it_and_its_page_is_on_loopback(
    place: Place, monkeypatch: pytest.MonkeyPatch, said: dict[str, str], variables: dict[str, str]
) -> None:
    place.home.write_cluster(structs.replace(place.home.need_cluster(), driver_host="172.17.0.1"))
    for name in ("SPARK_LOCAL_IP", "SPARK_PUBLIC_DNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert place.submit("--network", "closed", "app.py").exit_code == 0
    wanted = {"spark.driver.host": "172.17.0.1", "spark.driver.bindAddress": "172.17.0.1", "spark.pace.network": "closed"}
    assert place.settings.items() >= wanted.items()
    environment = (place.work / "arguments.env").read_text().splitlines()
    assert dict(line.split("=", 1) for line in environment if line.startswith(("SPARK_LOCAL", "SPARK_PUBLIC"))) == variables
    conf = command("conf").stdout.splitlines()
    assert {"spark.driver.host=172.17.0.1", "spark.driver.bindAddress=172.17.0.1"} <= set(conf)


def test_where_the_master_is_for_other_machines_the_drivers_address_is_sparks_to_find(place: Place) -> None:
    place.home.write_cluster(structs.replace(place.home.need_cluster(), host="192.0.2.1"))
    assert place.submit("app.py").exit_code == 0
    assert "spark.driver.host" not in place.settings
    assert "SPARK_LOCAL_IP" not in (place.work / "arguments.env").read_text()


@pytest.mark.parametrize("setting", ["spark.memory.offHeap.size=1g", "spark.memory.offHeap.enabled=false"])
def test_whoever_has_a_say_about_off_heap_memory_has_all_of_it(place: Place, setting: str) -> None:
    assert place.submit("--conf", setting, "app.py").exit_code == 0
    found = {key: value for key, value in place.settings.items() if key.startswith(("spark.memory.", "spark.buffer."))}
    assert found == dict([setting.split("=")])


def test_the_users_own_settings_win(place: Place) -> None:
    (place.work / "my.conf").write_text("spark.network.timeout 700s\nspark.driver.extraClassPath /from/file.jar\n")
    result = place.submit(
        "--properties-file", "my.conf", "--conf", "spark.driver.host=here", "-c", "spark.executor.heartbeatInterval=7s",
        "app.py",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    settings = place.settings
    assert "spark.network.timeout" not in settings
    assert "spark.shuffle.io.connectionTimeout" not in settings, "it follows the user's"
    assert "spark.executor.heartbeatInterval" not in settings  # it is there as -c, once
    assert settings["spark.driver.host"] == "here"
    assert place.words[place.words.index("--driver-class-path") + 1] == f"{JAR}:/from/file.jar"


def test_the_driver_has_one_file_with_the_users_settings_and_a_secret_that_nothing_else_tells(place: Place) -> None:
    (place.work / "spark" / "conf").mkdir()
    (place.work / "spark" / "conf" / "spark-defaults.conf").write_text("spark.ui.port 4050\nspark.a.b from default\\\\s\n")
    (place.work / "my.conf").write_text("spark.a.b = of my: own\n")
    secrets = []
    for words, others in (
        ([], {"spark.ui.port": "4050", "spark.a.b": "from default\\s"}),
        (["--properties-file", "my.conf"], {"spark.a.b": "of my: own"}),
        (["--properties-file=my.conf", "--load-spark-defaults"], {"spark.ui.port": "4050", "spark.a.b": "of my: own"}),
    ):
        assert place.submit(*words, "app.py").exit_code == 0
        file = place.file
        secrets.append(file.pop("spark.authenticate.secret"))
        assert file == {**others, "spark.authenticate": "true"}
        assert place.words.count("--properties-file") == 1
        texts = [*place.words, (place.work / "arguments.env").read_text()]
        texts += [path.read_text(errors="replace") for path in place.home.path.rglob("*") if path.is_file()]
        assert secrets[-1] not in "".join(texts)
    assert len(set(secrets)) == 3


def test_encryption_is_asked_for_by_one_option_and_authentication_is_left_out_by_one_setting(place: Place) -> None:
    assert place.submit("--encrypt", "app.py").exit_code == 0
    assert place.file["spark.network.crypto.enabled"] == "true"
    assert place.submit("--conf", "spark.authenticate=false", "app.py").exit_code == 0
    assert place.file == {}
    (place.work / "arguments").unlink()
    for words in (["--encrypt", "--conf", "spark.authenticate=false"], ["--conf", "spark.authenticate.secret=mine"]):
        place.refuse(2, *words, "app.py")


def test_a_class_path_of_the_users_follows_the_bridge(place: Place) -> None:
    assert place.submit("--driver-class-path", "/a.jar", "app.py").exit_code == 0
    words = place.words
    last = len(words) - 1 - words[::-1].index("--driver-class-path")
    assert words[last + 1] == f"{JAR}:/a.jar"


def test_a_master_of_ours_is_that_of_the_home(place: Place) -> None:
    known = place.home.need_cluster().spark_master
    for words in (["--master", "sparkpace://there:1"], ["--conf", "spark.master=sparkpace://there:1"]):
        place.refuse(2, *words, "app.py", named=("'sparkpace://there:1'", known))
    assert place.submit("--master", known, "app.py").exit_code == 0
    assert "--driver-class-path" in place.words, "it is not attached"


def test_an_application_may_be_a_class_of_sparks_own(place: Place) -> None:
    assert place.submit("--class", "org.example.Server", "spark-internal", "--port", "1").exit_code == 0
    assert place.words[-3:] == ["spark-internal", "--port", "1"]
    assert place.settings["spark.pace.main"] == "org.example.Server"

"""`sparkpace submit`: what it starts spark-submit with, and what happens around it.

Spark is a script, the master a fake.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import Result
from msgspec import structs

from controller.asks.properties import parse_properties
from controller.cli.submit import CALLED_MS, CALLED_UPTIME
from controller.home import Home
from controller.machine.files import write_whole
from controller.machine.proc import boot_id, uptime
from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import SUMMARY, write_summary
from controller.start import ours
from controller.submit.bridge_jar import JAR
from controller.wire.basis import Basis
from controller.wire.command import PlanReply, PlanRequest, Services, StartReply
from controller.wire.states import ApplicationState
from stage_model.history.profile import profile, profile_key
from tests.fakes.commands import assert_refused
from tests.fakes.commands import run as command
from tests.fakes.master import TOKEN, Server
from tests.fakes.records import run
from tests.fakes.submitting import submitting
from tests.fakes.views import view

pytestmark = pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")

SCRIPT = """#!/bin/sh
printf '%s\\n' "$@" > "$ARGUMENTS_FILE"
env > "$ARGUMENTS_FILE.env"
echo $$ > "$ARGUMENTS_FILE.pid"
while [ "$1" != --properties-file ]; do shift; done
cat "$2" > "$ARGUMENTS_FILE.conf"
exit ${EXIT_CODE:-0}
"""
FOLLOWS = """
looks=0
until grep -q there:15003 "$SPARKPACE_AFTER_CONNECT_ADDRESS_FILE"; do
    looks=$((looks + 1))
    [ $looks -lt 600 ] || exit 3
    sleep 0.1
done
"""
"""Words of a driver that ends once the file has the new address, and with 3 if that takes a minute."""


@dataclass(frozen=True)
class Place:
    work: Path
    home: Home
    master: Server

    def submit(self, *words: str) -> Result:
        return command("submit", *words)

    def asked(self, *words: str) -> PlanRequest:
        """Submit; return what the master was asked to plan."""
        assert self.submit(*words).exit_code == 0
        assert self.master.asked is not None
        return self.master.asked

    def refuse(self, code: int, *words: str, named: tuple[object, ...] = ()) -> None:
        """Check that the words are refused in one line and that no driver starts."""
        refused = self.submit(*words)
        assert_refused(refused, code, *named)
        assert (refused.stderr.count("\n"), self.started) == (1, None)

    @property
    def started(self) -> list[str] | None:
        """The words that spark-submit got; None when it was not started."""
        file = self.work / "arguments"
        return file.read_text().splitlines() if file.exists() else None

    @property
    def words(self) -> list[str]:
        """The words that spark-submit got."""
        assert self.started is not None
        return self.started

    @property
    def driver(self) -> int:
        """The number of spark-submit's process."""
        return int((self.work / "arguments.pid").read_text())

    @property
    def settings(self) -> dict[str, str]:
        """The last value of every --conf, as Spark takes it."""
        words = self.words
        given = [words[at + 1] for at, word in enumerate(words) if word == "--conf"]
        return dict(part.split("=", 1) for part in given)

    @property
    def file(self) -> dict[str, str]:
        """Settings in the --properties-file that spark-submit was given."""
        return parse_properties((self.work / "arguments.conf").read_text())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with submitting(tmp_path, monkeypatch, SCRIPT) as (work, home, master):
        (work / "app.py").write_text("")
        yield Place(work, home, master)


def test_the_plan_is_asked_for_with_what_an_executors_memory_follows_from(place: Place) -> None:
    (place.work / "my.conf").write_text("spark.executor.memory 9g\nspark.executor.pyspark.memory 1g\nspark.ui.port 4050\n")
    conf = ("--properties-file", "my.conf", "--conf", "spark.executor.memoryOverhead=1g")
    asked = place.asked("--executor-memory", "2g", *conf, "app.py")
    assert (asked.working_dir, asked.python) == (str(place.work), True)
    assert asked.conf is not None
    assert "spark.ui.port" not in asked.conf
    assert {key: value for key, value in asked.conf.items() if "heartbeat" not in key} == {
        "spark.executor.memory": "2g",  # an option beats a file
        "spark.executor.memoryOverhead": "1g",
        "spark.executor.pyspark.memory": "1g",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "64m",
        "spark.buffer.pageSize": "2m",
    }


def test_the_plan_is_asked_for_with_the_arguments_by_which_runs_are_compared(place: Place) -> None:
    for words in (["--dry-run", "app.py", "--date", "today"], ["app.py", "--date", "today"]):
        assert place.asked(*words).arguments == ("--date", "today")
    assert json.loads(place.settings["spark.pace.arguments"]) == ["--date", "today"]
    # too long to be recorded, so not compared
    assert place.asked("--dry-run", "app.py", "x" * 9000).arguments is None


@pytest.mark.parametrize("after", [["--after", "load"], ["--conf", "spark.pace.after=load"]], ids=" ".join)
def test_a_driver_starts_when_what_it_comes_after_has_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch, after: list[str]
) -> None:
    monkeypatch.setattr("controller.submit.before_start.ASK_S", 0.2)
    waits = StartReply(reason="it comes after pace-1 (load), which has not ended", comes_after={"load": "pace-1"})
    place.master.starts = [StartReply(known=False), waits, waits, StartReply()]
    done = place.submit("--deadline", "90s", "--name", "report", *after, "app.py")
    assert done.exit_code == 0, done.output
    assert done.stderr.count(waits.reason) == 1
    first, again, second, third = place.master.started
    assert (first.name, first.plan, first.comes_after) == ("report", again.plan, {})
    assert first.plan is not None
    assert (first.plan.after, first.plan.deadline_s) == ("load", 90.0)
    assert (second.plan, second.comes_after, third.comes_after) == (None, waits.comes_after, waits.comes_after)
    settings = place.settings
    # its clock begins with its driver, which no longer waits for any job, and is late or not
    assert (settings["spark.pace.after"], settings["spark.pace.force"]) == ("", "true")
    assert settings["spark.pace.waited"] == settings["spark.pace.submission"]
    assert 80.0 < float(settings["spark.pace.deadline"].removesuffix("s")) < 89.7
    assert int(settings["spark.pace.submit.time.ms"]) > CALLED_MS


def test_a_driver_gets_the_address_of_a_service_and_the_next_one(place: Place) -> None:
    place.master.starts = [StartReply(comes_after={"connect": "pace-1"}, addresses={"connect": "here:15002"})]
    place.master.services = Services(addresses={"connect": "there:15003"})
    (place.work / "spark" / "bin" / "spark-submit").write_text(SCRIPT.rpartition("exit")[0] + FOLLOWS)
    done = place.submit("--after", "connect:up,load", "app.py")
    assert done.exit_code == 0, done.output
    environment = (place.work / "arguments.env").read_text().splitlines()
    assert "SPARKPACE_AFTER_CONNECT_ADDRESS=here:15002" in environment
    assert place.settings["spark.pace.after"] == ""


def test_a_submission_that_never_starts_says_why_and_starts_no_driver(place: Place) -> None:
    never = StartReply(reason="it comes after the success of pace-1 (load), which did not succeed", never=True)
    place.master.starts = [never]
    place.refuse(1, "--after", "load:success", "app.py", named=(never.reason,))


def test_a_submission_that_waits_ends_with_its_cluster(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.submit.before_start.ASK_S", 0.1)
    place.master.starts = [StartReply(reason="it comes after 'load', which was not submitted yet")]
    down = threading.Timer(0.5, place.home.forget_cluster)
    down.start()
    done = place.submit("--after", "load", "app.py")
    down.join()
    assert (done.exit_code, place.started) == (69, None)
    assert "no local cluster" in done.stderr


def test_ctrl_c_ends_a_submission_that_waits_and_the_master_learns_of_it(place: Place) -> None:
    place.master.starts = [StartReply(reason="it comes after 'load', which was not submitted yet")]
    words = ours("controller.cli.main", "submit", "--after", "load", "app.py")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "which was not submitted yet" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert (place.master.told, place.started) == ([130], None)


def test_the_only_profile_of_the_main_file_is_planned_from_whatever_its_name(place: Place) -> None:
    key = profile_key(None, "My nightly load", "app.py")
    ProfileStore(place.home.profiles).add(profile(key, [run("r")]))
    assert place.asked("--dry-run", "app.py").profile == key


def test_a_dry_run_names_the_profile_that_may_be_meant(place: Place) -> None:
    """The program gives itself a name with a date, which is not known before it runs."""
    for day in (24, 25):
        ProfileStore(place.home.profiles).add(profile(f"load-2026-11-{day}@app.py", [run("r", day)]))
    place.master.plan = PlanReply(known=False, reason="no profile yet")
    for told in (
        place.submit("--dry-run", "app.py").stdout,
        json.loads(place.submit("--dry-run", "--output", "json", "app.py").stdout)["reason"],
    ):
        assert told.startswith("no profile yet")
        assert "--profile load-2026-11-25@app.py" in told
    assert place.submit("--dry-run", "--name", "x", "app.py").stdout == "no profile yet\n"


def test_the_plan_of_a_job_of_a_pipeline_is_asked_for_with_what_it_belongs_to(place: Place) -> None:
    asked = place.asked("--dry-run", "--pipeline", "nightly", "--by", "90s", "--after", "load", "app.py")
    assert (asked.pipeline, asked.after) == ("nightly", "load")


def test_the_plan_is_asked_for_under_the_law_and_constants_given(place: Place) -> None:
    asked = place.asked("--dry-run", "--law", "paper", "--conf", "spark.pace.law.paper.alpha=0.5", "app.py")
    assert (asked.law, asked.settings["paper.alpha"]) == ("paper", 0.5)


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
def test_the_driver_runs_here_wherever_another_mode_is_asked_for(
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
    place.refuse(2, *words, "app.py", named=("'cluster'", "client"))
    assert place.submit("--master", "yarn", *words, "app.py").exit_code == 0, "another cluster manager may run the driver"
    assert place.submit("--deploy-mode", "client", *words, "app.py").exit_code == 0, "spark-submit's option wins"


def test_a_job_of_another_cluster_manager_is_attached_by_settings_alone(place: Place) -> None:
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
        told = [*place.words, (place.work / "arguments.env").read_text()]
        told += [path.read_text(errors="replace") for path in place.home.path.rglob("*") if path.is_file()]
        assert secrets[-1] not in "".join(told)
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


def test_with_exec_the_command_becomes_the_driver(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXIT_CODE", "3")
    process = subprocess.Popen(ours("controller.cli.main", "submit", "--exec", "--deadline", "90s", "app.py"))
    assert process.wait(timeout=300) == 3
    assert place.driver == process.pid
    assert place.settings["spark.pace.deadline"] == "90.000s"
    assert place.file["spark.authenticate"] == "true"


def test_a_shim_becomes_the_driver_of_the_next_spark_on_path(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.work / "spark" / "jars").mkdir()
    assert command("shim", str(place.work / "shim")).exit_code == 0
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("PATH", f"{place.work}/shim:{place.work}/spark/bin:{os.environ['PATH']}")
    master = place.home.need_cluster().spark_master
    process = subprocess.Popen(["spark3-submit", "--master", master, "--priority", "high", "app.py"], env=os.environ)
    assert process.wait(timeout=300) == 0
    assert place.driver == process.pid
    assert place.words[:2] == ["--master", master]
    assert place.settings["spark.pace.priority"] == "100"
    assert f"SPARK_HOME={place.work}/spark" in (place.work / "arguments.env").read_text().splitlines()


def test_the_settings_of_a_file_given_to_a_shim_are_planned_with(place: Place) -> None:
    assert command("shim", str(place.work / "shim")).exit_code == 0
    (place.work / "my.conf").write_text("spark.pace.deadline 90s\nspark.pace.priority low\nspark.ui.port 4050\n")
    words = ["--properties-file", "my.conf", "--conf", "spark.pace.priority=high", "app.py"]
    assert subprocess.run(["shim/spark-submit", *words], env=os.environ, timeout=300, check=False).returncode == 0
    assert place.master.asked is not None
    assert (place.master.asked.deadline_s, place.master.asked.priority) == (90.0, 100)
    assert (place.settings["spark.pace.deadline"], place.settings["spark.pace.priority"]) == ("90.000s", "100")
    assert place.file["spark.ui.port"] == "4050"


def test_who_kills_the_command_ends_the_driver(place: Place) -> None:
    (place.work / "spark" / "bin" / "spark-submit").write_text("#!/bin/sh\necho it runs\nexec sleep 600\n")
    process = subprocess.Popen(ours("controller.cli.main", "submit", "app.py"), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "it runs\n"
    process.kill()
    process.communicate(timeout=300)  # until no process, the driver included, has its output open any longer
    assert process.returncode == -signal.SIGKILL


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


def test_an_infeasible_deadline_is_refused_unless_forced(place: Place) -> None:
    reason = "it takes 40s"
    place.master.plan = PlanReply(known=True, feasible=False, least_deadline_s=40.0, cluster_cores=2.0, reason=reason)
    place.refuse(75, "--deadline", "10s", "--profile", "p", "app.py", named=(reason, "--force"))
    asked = place.master.asked
    assert asked is not None
    assert (asked.profile, asked.deadline_s, asked.priority) == ("p", 10.0, 50)
    assert place.submit("--deadline", "10s", "--profile", "p", "--dry-run", "app.py").exit_code == 75
    assert place.started is None
    for forced in (["--force"], ["--conf", "spark.pace.force=true"]):
        assert place.submit("--deadline", "10s", "--profile", "p", *forced, "app.py").exit_code == 0
        assert place.settings["spark.pace.force"] == "true"


def test_a_dry_run_starts_nothing(place: Place) -> None:
    result = place.submit("--deadline", "10s", "--dry-run", "app.py")
    assert result.exit_code == 0
    assert "first run" in result.stdout
    shown = json.loads(place.submit("--deadline", "10s", "--dry-run", "--output", "json", "app.py").stdout)
    assert (shown["known"], shown["feasible"]) == (False, None)
    assert place.started is None
    basis = Basis(runs=1, sentence="planned from a run of last week")
    place.master.plan = PlanReply(known=True, reason="it fits", basis=basis)
    assert basis.sentence in place.submit("--dry-run", "app.py").stdout


def test_a_wrong_token_is_refused_before_anything_starts(place: Place) -> None:
    write_whole(place.home.submit_token_file, b"wrong")
    place.refuse(77, "app.py")
    assert_refused(command("ps"), 77)


def test_without_a_jdk_no_master_is_asked_and_no_driver_starts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    place.refuse(69, "app.py", named=("Java", "JAVA_HOME"))
    assert place.master.asked is None


def test_the_end_is_shown_in_one_line(place: Place) -> None:
    submission = "11111111-2222-3333-4444-555555555555"
    ended = {"state": ApplicationState.ENDED, "finished": True, "submission": submission, "run_dir": "/runs/app-7"}
    place.master.view = view(application_id="app-7", deadline_s=100.0, elapsed_s=98.0, **ended)
    result = place.submit("--submission", submission, "app.py")
    last = result.stderr.splitlines()[-1]
    assert last == "sparkpace: application app-7 ended at 1m38s of deadline 1m40s (2s early, 2.0%); run folder /runs/app-7"


def test_a_driver_of_which_no_application_came_was_not_paced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    done = place.submit("--deadline", "60s", "app.py")
    assert (done.exit_code, done.stderr.count("\n"), "paced" in done.stderr) == (0, 1, True)
    monkeypatch.setenv("EXIT_CODE", "3")
    failed = place.submit("--deadline", "60s", "app.py")
    assert (failed.exit_code, failed.stderr) == (3, ""), "the last line is the driver's own"


def test_detached_the_drivers_failure_is_shown(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXIT_CODE", "5")
    result = place.submit("--detach", "app.py")
    assert result.exit_code == 5
    assert "exit code 5" in result.stderr
    submission = result.stdout.splitlines()[0].removeprefix("submission ")
    assert place.settings["spark.pace.submission"] == submission
    assert place.settings["spark.pace.submit.time.ms"] == str(CALLED_MS), "its clock started with the command itself"
    assert place.settings["spark.pace.submit.uptime"] == CALLED_UPTIME
    assert (place.home.logs / f"driver-{submission}.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "words", [["plan", "--profile", "pagerang"], ["profile", "show", "pagerang"], ["profile", "forget", "pagerang"]]
)
def test_an_unknown_profile_is_answered_with_the_nearest_names(place: Place, words: list[str]) -> None:
    for key in ("pagerank@app.py", "sort@app.py"):
        ProfileStore(place.home.profiles).learn(key, run("one"))
    assert_refused(command(*words), 2, "'pagerang'", "pagerank@app.py, sort@app.py")


def test_a_report_of_the_last_run_is_of_one_that_has_ended(place: Place) -> None:
    for name in ("pace-1", "pace-2"):
        (place.home.runs / name).mkdir()
    write_summary(place.home.runs / "pace-1", {"name": "done"})
    os.utime(place.home.runs / "pace-1" / SUMMARY, (1000, 1000))
    (place.home.runs / "pace-2" / "samples.csv").touch()
    assert "done" in command("report", "last").stdout
    assert_refused(command("report", "pace-2"), 2, "pace-2", SUMMARY)
    drawn = command("plot", "last", "-o", str(place.work / "f.png"))
    assert "pace-1" in drawn.stderr, "it has no samples, so it is refused by name"


def test_a_report_has_a_table_of_what_had_deadlines_of_its_own(place: Place) -> None:
    place.home.runs.joinpath("pace-1").mkdir()
    times = {"jobs": [1], "start_s": 12.5, "deadline_s": 60.0}
    actions = [
        {"name": 'Spark Connect - session_id: "d-e9"\nplan {\n  root {', **times, "end_s": 70.0, "error_pct": -4.1667},
        {"name": "x" * 61, **times, "end_s": 70.0, "error_pct": -4.1667},
        {"name": "select 1", **times, "end_s": 78.5, "error_pct": 10.0},
        {"name": "query 7", **times, "end_s": None, "error_pct": None},
    ]
    write_summary(place.home.runs / "pace-1", {"name": "connect", "actions": actions})
    shown = command("report", "last").stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["name", "connect"],
        ["JOB", "OR", "QUERY", "START", "END", "DEADLINE", "DISTANCE"],
        ["Spark", "Connect", "-", "plan", "{", "root", "{", "12.5s", "1m10s", "1m", "4.2%", "early"],
        [f"{'x' * 60}…", "12.5s", "1m10s", "1m", "4.2%", "early"],
        ["select", "1", "12.5s", "1m18s", "1m", "10.0%", "late"],
        ["query", "7", "12.5s", "-", "1m", "-"],
        ["run", "folder:", str(place.home.runs / "pace-1")],
    ]
    assert json.loads(command("report", "last", "--output", "json").stdout)["actions"] == actions


def test_logs_find_a_running_application_by_its_names_and_an_ended_one_without_a_master(place: Place) -> None:
    for application_id, summary in (("pace-1", {"name": "own", "submitted_name": "load"}), ("pace-2", None)):
        folder = place.home.runs / application_id
        (folder / "executors" / "1").mkdir(parents=True)
        (folder / "executors" / "1" / "stdout").write_text(f"of {application_id}")
        if summary is not None:
            write_summary(folder, summary)
    place.master.view = view(application_id="pace-2", name="own", submitted_name="load")
    for name in ("own", "load"):
        assert command("logs", name).stdout == "of pace-2"
    place.master.refuse = 503, b'{"error": "away", "exit_code": 69}'
    for name in ("own", "load"):
        assert command("logs", name).stdout == "of pace-1"


def test_an_application_is_ended_by_the_start_of_its_id(place: Place) -> None:
    place.master.view = view(application_id="app-7")
    assert command("kill", "app").exit_code == 0
    assert place.master.killed == 1


def test_a_plan_of_a_profile_is_asked_for_with_its_options(place: Place) -> None:
    place.master.plan = PlanReply(known=True, cluster_cores=1.0, reason="r")
    given = ["--law", "constant", "--curve", "--cores", "0.5"]
    for words, wanted in (([], (None, False, None)), (given, ("constant", True, 0.5))):
        assert command("plan", "--profile", "sort", *words).exit_code == 0
        assert place.master.asked is not None
        assert (place.master.asked.law, place.master.asked.curve, place.master.asked.most_cores) == wanted


def test_a_cluster_without_workers_yet_says_so_instead_of_a_curve(place: Place) -> None:
    place.master.plan = PlanReply(known=True, reason="no worker is there yet")
    told = command("plan", "--profile", "sort", "--curve")
    assert (told.exit_code, told.stdout) == (0, "no worker is there yet\n")
    undrawn = command("plan", "--profile", "sort", "--curve", "-o", "curve.png")
    assert_refused(undrawn, 69, "-o curve.png", "no worker is there yet")

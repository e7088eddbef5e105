"""`sparkpace submit`: what the master is asked, when a driver starts and when it does not, and what is said of its end.

Spark is a script, the master a fake. What the driver gets is `test_submit_settings`'.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli.submit import CALLED_MS, CALLED_UPTIME
from controller.machine.files import write_whole
from controller.runs.profile_store import ProfileStore
from controller.start import ours
from controller.submit.bridge_jar import JAR
from controller.wire.basis import Basis
from controller.wire.command import PlanReply, Services, StartReply
from controller.wire.states import ApplicationState
from stage_model.history.profile import profile, profile_key
from tests.fakes.commands import assert_refused
from tests.fakes.commands import run as command
from tests.fakes.records import run
from tests.fakes.submitting import SCRIPT, Place, submitting
from tests.fakes.views import view

pytestmark = pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")

FOLLOWS = """
looks=0
until grep -q there:15003 "$SPARKPACE_AFTER_CONNECT_ADDRESS_FILE"; do
    looks=$((looks + 1))
    [ $looks -lt 600 ] || exit 3
    sleep 0.1
done
"""
"""Words of a driver that ends once the file has the new address, and with 3 if that takes a minute."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with submitting(tmp_path, monkeypatch) as made:
        yield made


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
def test_a_driver_starts_when_what_comes_before_ends(place: Place, monkeypatch: pytest.MonkeyPatch, after: list[str]) -> None:
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
    assert (place.master.exit_codes, place.started) == ([130], None)


def test_the_only_profile_of_the_main_file_is_planned_from_whatever_its_name(place: Place) -> None:
    key = profile_key(None, "My nightly load", "app.py")
    ProfileStore(place.home.profiles).add(profile(key, [run("r")]))
    assert place.asked("--dry-run", "app.py").profile == key


def test_a_dry_run_names_the_profile_that_may_be_meant(place: Place) -> None:
    """The program gives itself a name with a date, which is not known before it runs."""
    for day in (24, 25):
        ProfileStore(place.home.profiles).add(profile(f"load-2026-11-{day}@app.py", [run("r", day)]))
    place.master.plan = PlanReply(known=False, reason="no profile yet")
    for answer in (
        place.submit("--dry-run", "app.py").stdout,
        json.loads(place.submit("--dry-run", "--output", "json", "app.py").stdout)["reason"],
    ):
        assert answer.startswith("no profile yet")
        assert "--profile load-2026-11-25@app.py" in answer
    assert place.submit("--dry-run", "--name", "x", "app.py").stdout == "no profile yet\n"


def test_the_plan_is_asked_for_with_the_jobs_pipeline_law_and_constants(place: Place) -> None:
    asked = place.asked("--dry-run", "--pipeline", "nightly", "--by", "90s", "--after", "load", "app.py")
    assert (asked.pipeline, asked.after) == ("nightly", "load")
    asked = place.asked("--dry-run", "--law", "paper", "--conf", "spark.pace.law.paper.alpha=0.5", "app.py")
    assert (asked.law, asked.settings["paper.alpha"]) == ("paper", 0.5)


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

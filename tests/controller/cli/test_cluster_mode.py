"""`submit --deploy-mode cluster`: what the master is asked to host, and what its submitter says and returns; `--status` and
`--kill`. The master is a fake."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.submit import cluster_mode
from controller.submit.bridge_jar import JAR
from controller.submit.progress_line import ProgressLine
from controller.wire.hosting import DriverState, HostedView
from tests.fakes.refusals import assert_names
from tests.fakes.submitting import Place, submitting

pytestmark = pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")

DRIVER = "driver-20290101000000-0000"
CLUSTER = ("--deploy-mode", "cluster")


def driver(state: DriverState, **said: object) -> HostedView:
    return HostedView(**{"driver_id": DRIVER, "name": "app.py", "state": state, "worker_id": "w1", **said})  # type: ignore[arg-type]


SUBMITTED, RUNNING, FINISHED = driver(DriverState.SUBMITTED), driver(DriverState.RUNNING), driver(DriverState.FINISHED)


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(cluster_mode, "LOOK_S", 0.02)
    with submitting(tmp_path, monkeypatch) as made:
        made.master.drivers = [SUBMITTED, SUBMITTED, RUNNING, RUNNING, FINISHED]
        yield made


def test_the_master_gets_the_same_call_in_client_mode_and_no_driver_starts_here(
    waiting: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    (waiting.work / "my.conf").write_text("spark.submit.deployMode cluster\n")
    words = ("--deadline", "90s", "--supervise", "--properties-file", "my.conf", "--name=nightly", "app.py", "--exec", "x")
    done = waiting.submit(*words)
    assert done.exit_code == 0, done.output
    asked = waiting.master.hosted
    assert asked is not None
    assert asked.words == (
        *("--home", str(waiting.home.path), "--deploy-mode", "client"),
        *("--deadline", "90s", "--properties-file", "my.conf", "--name=nightly", "app.py", "--exec", "x"),
    )
    assert (asked.name, asked.supervise, asked.working_dir) == ("nightly", True, str(waiting.work))
    assert asked.needs == (str(waiting.work / "app.py"), str(waiting.work / "my.conf"))
    assert (asked.uid, asked.gid, asked.process.pid) == (os.getuid(), os.getgid(), os.getpid())
    assert (asked.environment["SPARK_HOME"], asked.environment["LC_ALL"]) == (os.environ["SPARK_HOME"], "C.UTF-8")
    assert "hush" not in asked.environment.values()
    assert waiting.started is None
    assert done.stdout.splitlines() == [f"submission {DRIVER}"]
    assert f"{DRIVER}: FINISHED" in done.stderr


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (FINISHED, 0),
        (driver(DriverState.FAILED, exit_code=3, reason="its exit code was 3"), 3),
        (driver(DriverState.FAILED, reason="its exit code is not known"), 1),
        (driver(DriverState.KILLED, exit_code=143, reason="it was killed"), 1),
        (driver(DriverState.ERROR, reason="its worker w1 is lost"), 1),
    ],
    ids=lambda one: str(getattr(one, "reason", one)),
)
def test_the_exit_code_of_a_submitter_that_waits_says_how_the_driver_ended(
    waiting: Place, last: HostedView, code: int
) -> None:
    waiting.master.drivers[-1] = last
    done = waiting.submit(*CLUSTER, "app.py")
    assert done.exit_code == code, done.output
    assert last.reason in done.stderr


@pytest.mark.parametrize("word", [["--detach"], ["--conf", "spark.standalone.submit.waitAppCompletion=false"]])
def test_a_submitter_that_does_not_wait_returns_once_the_driver_runs(waiting: Place, word: list[str]) -> None:
    waiting.master.drivers[-1] = RUNNING
    done = waiting.submit(*CLUSTER, *word, "app.py")
    assert (done.exit_code, done.stdout) == (0, f"submission {DRIVER}\n")


def test_what_the_worker_refuses_is_bad_input(waiting: Place) -> None:
    waiting.master.drivers = [SUBMITTED, driver(DriverState.ERROR, refused=True, reason="app.py cannot be read on here")]
    refused = waiting.submit(*CLUSTER, "app.py")
    assert refused.exit_code == 2, refused.output
    assert_names(refused.stderr.splitlines()[-1], "w1", "app.py cannot be read on here")


def test_ctrl_c_ends_only_the_submitter_which_says_how_to_go_on(waiting: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting.master.drivers = [RUNNING]
    monkeypatch.setattr(ProgressLine, "show", lambda *_: signal.raise_signal(signal.SIGINT))
    done = waiting.submit(*CLUSTER, "app.py")
    assert (done.exit_code, waiting.master.killed) == (130, 0)
    assert f"--status {DRIVER}" in done.stderr
    assert f"--kill {DRIVER}" in done.stderr


def airflows_state(lines: list[str]) -> str:
    """Return the state as Airflow's SparkSubmitHook reads it (_process_spark_status_log)."""
    assert any("submissionId" in line for line in lines)
    (line,) = [line.strip() for line in lines if "driverState" in line]
    return line.split(" : ")[1].replace(",", "").replace('"', "").strip()


@pytest.mark.parametrize("state", DriverState)
def test_pollers_read_the_state_line_by_line_or_as_json(waiting: Place, state: DriverState) -> None:
    waiting.master.drivers = [driver(state, exit_code=0, attempt=2)]
    done = waiting.submit("--status", DRIVER)
    assert done.exit_code == 0, done.output
    assert airflows_state(done.stdout.splitlines()) == state
    said = json.loads(done.stdout)
    assert (said["submissionId"], said["driverState"], said["success"]) == (DRIVER, state, True)
    assert (said["attempt"], said["exitCode"], said["workerId"]) == (2, 0, "w1")


def test_our_master_may_be_named_as_sparks_standalone_manager_is(waiting: Place) -> None:
    cluster = waiting.home.need_cluster()
    as_spark = f"spark://{cluster.host}:{cluster.port}"
    done = waiting.submit("--master", as_spark, *CLUSTER, "app.py")
    assert done.exit_code == 0, done.output
    assert waiting.master.hosted is not None
    assert waiting.master.hosted.words[4:6] == ("--master", cluster.spark_master)
    assert waiting.submit("--master", as_spark, "--status", DRIVER).exit_code == 0
    waiting.refuse(2, "--master", "sparkpace://elsewhere:7070", "--kill", DRIVER, named=("elsewhere",))
    assert waiting.master.killed == 0


@pytest.mark.parametrize(("state", "success"), [(RUNNING, True), (FINISHED, False)])
def test_a_kill_says_whether_there_was_something_to_end(waiting: Place, state: HostedView, success: bool) -> None:
    waiting.master.drivers = [state]
    done = waiting.submit("--kill", DRIVER)
    assert (done.exit_code, waiting.master.killed) == (0, 1)
    assert json.loads(done.stdout)["success"] is success


@pytest.mark.parametrize("word", ["--status", "--kill"])
def test_an_unknown_driver_is_bad_input(waiting: Place, word: str) -> None:
    waiting.master.refuse = 400, b'{"error": "no driver \'driver-7\' was submitted here", "exit_code": 2}'
    waiting.refuse(2, word, "driver-7", named=("driver-7",))

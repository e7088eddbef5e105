"""The bridge on real Spark: its reports, its reaction to wrong answers, and that the job goes on without a master.

One driver run per Spark version carries the whole story, since starting driver and executor takes most of the time.
Not covered: the real master and agent (other files of this folder).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from controller.agent.executors.resizing import write_order
from controller.home import Home
from master_memory.resize import BudgetOrder
from stage_model.history.events import (
    AnyEvent,
    ApplicationEnd,
    ExecutorAdded,
    ExecutorRemoved,
    JobEnd,
    JobStart,
    StageCompleted,
    StageSubmitted,
    TaskEnd,
)
from stage_model.progress import MAX_BYTES, SCHEMA, Progress
from tests.integration.bridge_peer import APPLICATION, Answer, Peer, wait_for
from tests.integration.local_cluster import QUICK_JVM

pytestmark = pytest.mark.spark

HERE = Path(__file__).resolve().parent
FAULTS: list[str | Answer] = [
    (500, b"{}"),
    (200, b"<html>not JSON</html>"),
    (200, b"{}"),
    (200, b'{"acknowledged": 999999}'),
    "unknown",
    "lost",
    "forgot",
    "full",
    "full",
]
DRIVER = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # its bars would fill the pipe of a driver whose stages are slow, and so stop it
    "spark.driver.host": "127.0.0.1",
}


@pytest.fixture(params=["installed", pytest.param("spark35", marks=pytest.mark.slow)])
def python(request: pytest.FixtureRequest) -> str:
    """Provide a Python with the pyspark to test; the jar is always the one compiled against the installed pyspark."""
    if request.param == "installed":
        return sys.executable
    return str(request.getfixturevalue("spark35_python"))


@pytest.fixture
def drivers() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for driver in started:
        driver.kill()
        driver.communicate()


def start_driver(python: str, jar: Path, app: str, arguments: list[str], conf: dict[str, str]) -> subprocess.Popen[str]:
    options = ["--driver-class-path", str(jar), "--driver-memory", "512m"]
    for key, value in (DRIVER | conf).items():
        options += ["--conf", f"{key}={value}"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYSPARK_SUBMIT_ARGS": " ".join([*options, "pyspark-shell"]), "PYSPARK_PYTHON": python}
    environment["JDK_JAVA_OPTIONS"] = f"{QUICK_JVM} -Djava.io.tmpdir={jar.parent}"  # a killed JVM leaves its files behind
    command = [python, str(HERE / "apps" / app), *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def joining(peer: Peer) -> dict[str, str]:
    """Return the settings that make a driver an application of that master, with a secret for its executors."""
    return {
        "spark.master": f"sparkpace://127.0.0.1:{peer.port}",
        "spark.pace.token.file": str(peer.token_file),
        "spark.pace.ca.file": str(peer.home.ca_file),
        "spark.authenticate": "true",
        "spark.authenticate.secret": "for-executors-only",
    }


def read_progress(control: Path) -> Progress | None:
    file = control / "progress.json"
    if not file.exists():
        return None
    data = file.read_bytes()
    assert len(data) <= MAX_BYTES
    return msgspec.json.decode(data, type=Progress)


def budget(control: Path) -> tuple[int, int] | None:
    """Return the order that was looked at, and the off-heap budget in bytes."""
    progress = read_progress(control)
    return None if progress is None or progress.memory is None else (progress.memory.order, progress.memory.budget)


def written(control: Path) -> int:
    progress = read_progress(control)
    return 0 if progress is None else progress.sequence


def test_a_job_is_right_and_fully_reported_whatever_the_master_answers(
    python: str, jar: Path, tmp_path: Path, drivers: list[subprocess.Popen[str]]
) -> None:
    lines, stop = tmp_path / "lines.txt", tmp_path / "stop"
    lines.write_text("".join("x" * (i % 7) + "\n" for i in range(120_000)))
    peer = Peer(tmp_path, [])
    try:
        conf = {
            **joining(peer),
            "spark.pace.deadline": "90s",
            "spark.executorEnv.GREETING": "hello",
            "spark.my.password": "hidden",
        }
        driver = start_driver(python, jar, "count_until.py", [str(lines), str(stop)], conf)
        drivers.append(driver)
        wait_for("a registration", lambda: bool(peer.registrations) or driver.poll() is not None)
        assert peer.registrations, driver.communicate()[1]
        control = peer.start_executor("1")
        wait_for("executor 1", lambda: peer.joined("1"))

        # Off-heap memory was switched on by the bridge itself and follows orders, there and back.
        orders = tmp_path / "orders-1"
        for number, budget_mb in enumerate((300, 100, 200), 1):
            write_order(orders, BudgetOrder(number, budget_mb))
            wait_for(f"{budget_mb} MiB", lambda n=number, mb=budget_mb: budget(control) == (n, mb << 20))  # type: ignore[misc]

        # Wrong answers, one after another, while the job runs.
        peer.faults.extend(FAULTS)
        seen: set[tuple[int, int]] = set()

        def faults_used_and_records_moved() -> bool:
            progress = read_progress(control)
            if progress is not None:
                assert (progress.schema, progress.executor) == (SCHEMA, "1")
                seen.update((s.stage, s.records_running) for s in progress.stages if s.running and s.records_running)
            moving = {stage for stage, _ in seen if sum(1 for other, _ in seen if other == stage) >= 2}
            return not peer.faults and len(peer.registrations) == 2 and bool(moving)

        wait_for("all faults used and records of a running stage that move", faults_used_and_records_moved)

        # The master is away for at least one whole round of the job.
        written_before = written(control)
        peer.close()
        wait_for("work without a master", lambda: written(control) > written_before + 10)
        peer.open()
        syncs_before = len(peer.syncs)
        wait_for("the bridge's return", lambda: len(peer.syncs) > syncs_before)

        # An executor dies and is replaced.
        peer.kill_executor("1")
        peer.start_executor("2")
        wait_for("executor 2", lambda: peer.joined("2"))
        stop.touch()
        out, err = driver.communicate()
    finally:
        peer.end()

    assert driver.returncode == 0, err
    assert "rounds right" in out
    assert peer.problems == []
    assert "sparkpace: welcome" in err
    assert err.count("gives no usable answer") == err.count("answers again") >= 2
    assert "spark.network.timeout" in err, "stock mode warns of missing driver-side settings"

    first, second = peer.registrations
    assert (first.application_id, second.application_id) == (None, APPLICATION)
    assert first.instance == second.instance
    assert first.age_s < second.age_s
    assert first.steady_ms is not None
    assert second.steady_ms is not None
    assert second.steady_ms - first.steady_ms == pytest.approx(1000 * (second.age_s - first.age_s), abs=2)
    assert first.python is not None
    assert (first.python.executable, first.python.version) == (
        python,
        f"{sys.version_info.major}.{sys.version_info.minor}",
    )
    assert first.main is not None
    assert first.main.endswith("count_until.py")
    assert first.environment["GREETING"] == "hello"
    assert first.authenticated
    assert first.startup_conf["spark.authenticate"] == "true"
    assert first.credentials is not None
    assert first.credentials == second.credentials
    assert b"for-executors-only" in first.credentials, "by which the executors joined"
    assert "for-executors-only" not in err + str(first.conf) + str(first.startup_conf) + str(first.environment)
    assert "spark.my.password" not in first.conf
    assert not any("secret" in key for key in first.conf)
    assert first.conf["spark.pace.deadline"] == "90s"
    assert first.bridge_jar == str(jar)
    assert (first.uid, first.gid) == (os.getuid(), os.getgid())
    assert first.wanted["0"].count is None
    assert first.wanted["0"].cores is None

    # Numbers are gapless but for the jump that the snapshot made, and the lost reply's events came twice.
    skipped = {number for before, after in peer.gaps for number in range(before + 1, after)}
    assert set(peer.events) | skipped == set(range(1, max(peer.events) + 1))
    assert peer.repeated
    # events that a master with a full disk had taken in and not stored were kept, and sent once more when it asked for them
    [(stored, again)] = peer.kept
    assert again == list(range(stored + 1, stored + 1 + len(again)))
    assert len(again) >= 2
    snapshots = [sync.snapshot for sync in peer.syncs if sync.snapshot is not None]
    assert len(snapshots) == 1
    assert any(isinstance(msgspec.json.decode(event, type=AnyEvent), ExecutorAdded) for event in snapshots[0])
    last_ms = peer.syncs[-1].steady_ms
    assert last_ms is not None
    begun = [event for event in peer.events.values() if isinstance(event, JobStart)]
    assert all(first.steady_ms <= event.time_ms <= last_ms and event.wall_ms is not None for event in begun)
    kinds = {type(event) for event in peer.events.values()}
    assert kinds >= {JobStart, JobEnd, StageSubmitted, StageCompleted, TaskEnd, ExecutorAdded, ExecutorRemoved}
    removed = [event.reason for event in peer.events.values() if isinstance(event, ExecutorRemoved)]
    assert "killed by the test" in removed[0]
    tasks = [event for event in peer.events.values() if isinstance(event, TaskEnd)]
    assert any(task.ok and task.input_records > 0 for task in tasks)
    assert any(task.ok and task.shuffle_read_records > 0 for task in tasks)
    waits = [task.waits for task in tasks if task.ok]
    assert None not in waits
    assert any(waited is not None and waited.write_ns > 0 for waited in waits)
    stages = [event.info for event in peer.events.values() if isinstance(event, StageSubmitted)]
    assert any("textFile" in stage.scopes for stage in stages)
    assert any(stage.parents for stage in stages)
    assert isinstance(peer.events[max(peer.events)], ApplicationEnd)
    assert peer.syncs[-1].killed == ("2",)
    assert peer.syncs[-1].wanted["0"].count == 2, "three more, less the executor that was killed on request"
    assert [sync.ended for sync in peer.syncs].index(True) == len(peer.syncs) - 1


def test_a_starved_executor_gets_no_task_unless_no_other_executor_takes_any(
    python: str, jar: Path, tmp_path: Path, drivers: list[subprocess.Popen[str]]
) -> None:
    lines, stop = tmp_path / "lines.txt", tmp_path / "stop"
    lines.write_text("x\n" * 1000)
    peer = Peer(tmp_path, [])

    def ended_on(executor: str) -> set[int]:
        with peer.lock:
            return {
                event.stage for event in peer.events.values() if isinstance(event, TaskEnd) and event.executor == executor
            }

    def begun() -> set[int]:
        """Return the stages that began after the driver knew."""
        with peer.lock:
            return {e.info.stage for e in peer.events.values() if isinstance(e, StageSubmitted) and e.time_ms > knew_ms}

    try:
        driver = start_driver(python, jar, "count_until.py", [str(lines), str(stop)], joining(peer))
        drivers.append(driver)
        wait_for("a registration", lambda: bool(peer.registrations) or driver.poll() is not None)
        for executor in ("1", "2"):
            peer.start_executor(executor)
        wait_for("tasks on both", lambda: bool(ended_on("1") and ended_on("2")))
        with peer.lock:
            peer.starved, syncs = {"2": 5}, len(peer.syncs)
        wait_for("two answers that say so", lambda: len(peer.syncs) > syncs + 2)
        # the driver wrote this message after it had read an answer; an event that it tells later may be older
        knew_ms = peer.syncs[syncs + 2].steady_ms or 0
        wait_for("six stages without it", lambda: len(begun()) > 6)
        assert not ended_on("2") & begun()
        peer.kill_executor("1")
        wait_for("tasks on the one that is left", lambda: bool(ended_on("2") & begun()))
        with peer.lock:
            peer.starved = {}  # else each task of the last round would wait some seconds
        stop.touch()
        _, err = driver.communicate()
    finally:
        peer.end()
    assert driver.returncode == 0, err
    assert peer.problems == []


def test_every_refusal_is_one_sentence_and_an_order_to_stop_is_obeyed(
    jar: Path, tmp_path: Path, drivers: list[subprocess.Popen[str]]
) -> None:
    (tmp_path / "no").mkdir()
    closed = b'{"error": "the queue of this user is closed", "exit_code": 77}'
    refusing = Peer(tmp_path / "no", [], home=Home(tmp_path), refuse=(403, closed))
    stopping = Peer(tmp_path, ["stop"])
    (tmp_path / "other").mkdir()
    foreign = Peer(tmp_path / "other", [])
    open_token = tmp_path / "open.token"
    open_token.write_text("open")
    open_token.chmod(0o644)
    token = stopping.token_file
    tries = [
        f"{open_token},sparkpace://127.0.0.1:{refusing.port}",
        f"{tmp_path / 'missing'},sparkpace://127.0.0.1:{refusing.port}",
        f"{token},sparkpace://127.0.0.1",
        f"{token},sparkpace://127.0.0.1:{refusing.port}",
        f"{token},sparkpace://127.0.0.1:1",
        f"{token},sparkpace://127.0.0.1:{foreign.port}",
        f"{token},sparkpace://127.0.0.1:{stopping.port}",
    ]
    conf = {
        "spark.pace.ca.file": str(stopping.home.ca_file),
        "spark.authenticate": "true",
        "spark.authenticate.secret": "of-every-driver-here",
    }
    started_s = time.monotonic()
    try:
        driver = start_driver(sys.executable, jar, "try_masters.py", [str(tmp_path / "go"), *tries], conf)
        drivers.append(driver)
        wait_for("a farewell", lambda: driver.poll() is not None or any(sync.ended for sync in stopping.syncs))
        (tmp_path / "go").touch()
        out, err = driver.communicate()
    finally:
        refusing.end()
        stopping.end()
        foreign.end()
    said = out.splitlines()
    assert len(said) == len(tries), err
    assert "open to others" in said[0]
    assert "submit token" in said[1]
    assert "sparkpace://HOST:PORT" in said[2]
    assert "the queue of this user is closed" in said[3]
    assert "127.0.0.1:1 " in said[4]
    assert f"127.0.0.1:{foreign.port} " in said[5]
    assert f"{tmp_path}/ca.pem" in said[5]
    assert foreign.registrations == []
    assert said[6] == "stopped"
    assert "the test has seen enough" in err
    assert stopping.problems == []
    assert stopping.syncs[-1].ended
    # The first SparkContext's clock starts with the JVM, a further one's with itself: after the one before was refused.
    refused_s, registered_s = refusing.registered_s[0], stopping.registered_s[0]
    assert refusing.registrations[0].age_s < refused_s - started_s
    assert stopping.registrations[0].age_s < registered_s - refused_s

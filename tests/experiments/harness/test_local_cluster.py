"""Jobs of a step on a cluster: submitted at their times, awaited, found again; and ended when something goes wrong.

`sparkpace submit` is a script here and the master is a table; a real cluster is the experiments' own test.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from controller.client import MasterClient
from controller.runs.run_folder import write_summary
from controller.wire.command import ApplicationView
from controller.wire.states import ApplicationState
from experiments.harness import local_cluster
from experiments.harness.live_cluster import Sparkpace
from experiments.harness.local_cluster import LocalCluster
from experiments.harness.recorded import Order, SlotReading
from experiments.harness.result_folder import OUTPUT

SUBMIT = """
import json, pathlib, sys, time
words = sys.argv[1:]
submission, application = words[words.index("--submission") + 1], pathlib.Path(words[-2]).stem
here = pathlib.Path(__file__).parent
(here / "home" / "agents" / "w1" / f"{application}.7.json").write_text("{}")
(here / f"{submission}.submission").write_text(application)
(here / f"{application}.words").write_text(json.dumps(words))
while not (here / words[-1]).exists():
    time.sleep(0.01)
print("ended", application, "in", pathlib.Path.cwd(), "by", sys.base_prefix)
print("not its answer", file=sys.stderr)
sys.exit(3 if application == "wrong" else 0)
"""
"""The last word is the file that it waits for before it ends."""


class Clock:
    """A stand-in for the module `time`: a wait takes as long as it says on this clock, and hardly any real time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        time.sleep(0.01)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(local_cluster, "time", made)
    return made


@pytest.fixture
def submitted_s(clock: Clock) -> dict[str, float]:
    """Provide the times at which applications are submitted."""
    return {}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, submitted_s: dict[str, float]) -> LocalCluster:
    cluster = LocalCluster(tmp_path)
    for folder in (cluster.logs, cluster.home.path / "agents" / "w1", *(cluster.home.runs / a for a in ("one", "wrong"))):
        folder.mkdir(parents=True)
    for name in ("one", "wrong"):
        write_summary(cluster.home.runs / name, {"app_id": name})
    (tmp_path / "submit.py").write_text(SUBMIT)

    def command(_: Sparkpace, words: Sequence[str]) -> list[str]:
        assert words[0] == "submit"
        submitted_s[Path(words[-2]).stem] = clock.now_s
        return [sys.executable, str(tmp_path / "submit.py"), *words[1:]]

    def find(_: object, submission: str) -> ApplicationView | None:
        registered = tmp_path / f"{submission}.submission"
        if not registered.exists() or registered.read_text() == "never":
            return None
        name = registered.read_text()
        return ApplicationView(application_id=name, name=name, state=ApplicationState.ENDED, law="forecast", priority=50)

    monkeypatch.setattr(Sparkpace, "command", command)
    monkeypatch.setattr(local_cluster, "find", find)
    monkeypatch.setattr(LocalCluster, "_client", lambda _: MasterClient("https://127.0.0.1:1", Path("/no/ca.pem")))
    return cluster


def words_of(cluster: LocalCluster, name: str) -> list[str]:
    words: list[str] = json.loads((cluster.folder / f"{name}.words").read_text())
    return words


def test_jobs_are_submitted_at_their_times_and_recorded_with_their_workers(
    cluster: LocalCluster, submitted_s: dict[str, float]
) -> None:
    # the early one ends when the late one has begun
    orders = [
        Order("late", ("wrong.py", "."), deadline_s=30.0, priority="high", delay_s=40.1, options=("--driver-memory", "1g")),
        Order("early", ("one.py", "wrong.words")),
    ]
    shown: list[str] = []
    early, late = cluster.perform("step-0", orders, limit_s=1e9, show=shown.append)
    assert (early.job, early.app_id, early.exit_code, early.workers) == ("early", "one", 0, {"7": "w1"})
    # a wrong answer is a result, not a failure of the experiment
    assert (late.job, late.app_id, late.exit_code) == ("late", "wrong", 3)
    assert submitted_s == {"one": 0.0, "wrong": 40.25}, "the late one at the first look after its time"
    plain, words = words_of(cluster, "one"), words_of(cluster, "wrong")
    assert plain[2:5] == ["--priority", "normal", "--force"]
    assert words[2:-2] == ["--priority", "high", "--deadline", "30.00s", "--force", "--driver-memory", "1g"]
    assert words[-2].endswith("experiments/workloads/wrong.py")
    assert (cluster.logs / "step-0-late.log").read_text() == "not its answer\n"
    assert (cluster.home.runs / "wrong" / OUTPUT).read_text() == "ended wrong in {out} by {python}\n"
    assert "step-0: early running, 1 to come" in shown


class CountingMeter:
    """A meter that has a reading for each look."""

    def __init__(self) -> None:
        self.readings: list[SlotReading] = []

    def look(self) -> None:
        self.readings.append(SlotReading(epoch_s=float(len(self.readings)), used_core_s=0.0, slots={}))

    def take_readings(self) -> tuple[SlotReading, ...]:
        taken, self.readings = tuple(self.readings), []
        return taken


def test_a_meter_looks_while_jobs_run_and_gives_what_it_read_once(cluster: LocalCluster) -> None:
    assert cluster.take_readings() == ()
    cluster.meter = CountingMeter()
    cluster.perform("step-0", [Order("early", ("one.py", "."), delay_s=1.0)], limit_s=1e9)
    assert len(cluster.take_readings()) > 4  # four looks while nothing runs yet
    assert cluster.take_readings() == ()


def test_a_step_that_takes_too_long_is_ended_with_its_jobs(cluster: LocalCluster, clock: Clock) -> None:
    with pytest.raises(SystemExit, match=r"step-0 .* 1 s"):
        cluster.perform("step-0", [Order("early", ("one.py", "never"))], limit_s=1)
    assert clock.now_s == 1.25, "given up at the first look after its time"
    script = str(cluster.folder / "submit.py")
    # not the command lines of this process's children: a child that ended in another test may be a zombie without a command
    # line
    assert not [process for process in psutil.process_iter(["cmdline"]) if script in (process.info["cmdline"] or [])]


def test_a_job_that_never_registered_is_named_with_its_log(cluster: LocalCluster) -> None:
    with pytest.raises(SystemExit, match=r"lost .*step-0-lost\.log"):
        cluster.perform("step-0", [Order("lost", ("never.py", "."))], limit_s=1e9)


def test_a_job_works_in_a_copy_that_it_may_write_to_and_that_is_gone_afterwards(cluster: LocalCluster) -> None:
    data = cluster.folder / "spark-data" / "data" / "points.txt"
    data.parent.mkdir(parents=True)
    data.write_text("1 2\n")
    work = cluster.folder / "work" / "step-0-job"
    (work / "target").mkdir(parents=True)
    cluster.perform("step-0", [Order("job", ("one.py", "submit.py"), works_in="spark-data")], limit_s=1e9)
    words = words_of(cluster, "one")
    assert words[words.index("--mount") + 1] == f"{work}:rw"
    assert (cluster.home.runs / "one" / OUTPUT).read_text() == "ended one in {out} by {python}\n"
    assert not work.exists()
    assert data.read_text() == "1 2\n"


def test_words_may_name_the_examples_of_spark(cluster: LocalCluster) -> None:
    job = cluster.submit("step-0", Order("job", ("{examples}/pi.py", "submit.py")))
    assert job.process.wait() == 0
    script = Path(words_of(cluster, "pi")[-2])
    assert script.is_file()
    assert script.parts[-5:] == ("examples", "src", "main", "python", "pi.py")

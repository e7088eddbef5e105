"""`sparkpace logs` where executors run on workers of other homes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.wire.driver import ExecutorWish
from tests.fakes.cluster import report
from tests.fakes.commands import assert_refused, run, write_cluster
from tests.fakes.served import ServedMaster, threaded


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedMaster]:
    made = ServedMaster(tmp_path / "home")
    monkeypatch.setenv("SPARKPACE_HOME", str(made.home.path))
    write_cluster(made.home, url=made.url)
    with threaded(made.server, made.listening):
        yield made
    made.cluster.state.close()


def test_executors_elsewhere_are_named_with_the_place_of_their_logs(master: ServedMaster) -> None:
    cluster, home = master.cluster, master.home
    home.agent("w1").mkdir(parents=True)
    for worker in ("w1", "m2"):
        cluster.worker(worker)
    application_id = cluster.register(wanted={"0": ExecutorWish(count=2)})
    placed = {e.record.worker_id: name for name, e in cluster.state.applications[application_id].executors.items()}
    for worker, executor in placed.items():
        cluster.worker(worker, report(application_id, executor))
    here = home.runs / application_id / "executors" / placed["w1"]
    here.mkdir(parents=True)
    assert_refused(run("logs", application_id, placed["m2"]), 2, f"executor {placed['m2']}", "m2", "127.0.0.1")
    assert_refused(run("logs", application_id), 2, application_id, "on this machine")
    (here / "stderr").write_text("of this machine\n")
    shown = run("logs", application_id)
    assert (shown.exit_code, shown.stdout) == (0, "of this machine\n")
    assert f"sparkpace logs {application_id} {placed['m2']}` in that worker's home" in shown.stderr
    assert run("logs", application_id, placed["w1"]).stderr == ""

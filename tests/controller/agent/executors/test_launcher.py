"""Starts on threads next to the loop: once, again after a failure, never after a refusal; and what is remembered of them."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest

from controller.agent.executors.launch import CREDENTIALS_FILE
from controller.agent.executors.launcher import BACK_OFF
from controller.agent.executors.starting import Start
from controller.runtime.base import ExecutorKey, Launch
from controller.wire.driver import PythonEnvironment
from controller.wire.worker import ExecutorSpec
from stage_model.errors import RuntimeFailed
from tests.fakes.refusals import assert_names
from tests.fakes.worker import FakeWorker, spec

KEY, OTHER = ExecutorKey("app", "1"), ExecutorKey("other", "1")
BUSY = RuntimeFailed("the engine is busy; try again")


def ask(worker: FakeWorker, cores: float = 0.5, wanted: ExecutorSpec | None = None) -> None:
    worker.launcher.start(Start(KEY, wanted or spec(), cores, 512))


def test_a_start_that_waited_long_begins_with_the_newest_grant(worker: FakeWorker) -> None:
    ask(worker, 2.0)
    ask(worker, 0.3)
    worker.work()
    assert worker.quotas() == {KEY: 0.3}


def test_an_executor_starts_with_the_credentials_that_the_master_tells_as_soon_as_it_can(worker: FakeWorker) -> None:
    secret = b"hush-hush"
    wanted = spec(authenticated=True)
    for other in (b"", b"not this one"):
        worker.want([wanted], credentials={"other": other})
        worker.tick(BACK_OFF.most_s)
        assert worker.running() == set()
    assert worker.tick(0.0).executors[0].reason
    worker.want([wanted], credentials={"app": secret})
    worker.tick(BACK_OFF.most_s)
    assert worker.running() == {KEY}
    files = [path for path in worker.folder.rglob("*") if path.is_file()]
    [file] = [path for path in files if secret in path.read_bytes()]
    assert file == worker.site.orders_dir(KEY) / CREDENTIALS_FILE
    assert secret.decode() not in repr(worker.host.executors)
    worker.restart()
    worker.want(stopped=["app/1"])
    report = worker.pass_time(5)
    assert (report.executors, file.exists()) == ((), False)


def test_a_refusal_is_for_good_and_says_why(worker: FakeWorker, caplog: pytest.LogCaptureFixture) -> None:
    worker.host.refused_images.add("gone:1")
    ask(worker, wanted=spec(image="gone:1"))
    worker.work()
    assert worker.launcher.state(KEY) == "refused"
    assert "gone:1" in worker.launcher.reason(KEY)
    assert_names(caplog.text, "app/1", worker.launcher.reason(KEY))
    ask(worker)
    assert worker.launcher._starts.empty()
    worker.launcher.forget(KEY)
    assert worker.launcher.state(KEY) == "starting"


def test_starts_are_worked_off_although_the_images_are_not_known(worker: FakeWorker) -> None:
    worker.host.faults["images", None] = BUSY
    ask(worker)
    stop = threading.Event()
    worker.launcher.run_starts(stop.set, stop, lambda: None)
    assert (worker.running(), worker.launcher.images) == ({KEY}, ())


def test_a_failed_start_is_tried_again_ever_more_slowly(worker: FakeWorker) -> None:
    worker.host.faults["start", KEY] = BUSY
    tries = []
    for second in range(200):
        worker.now_s = 1000.0 + second
        ask(worker)
        if not worker.launcher._starts.empty():
            tries.append(second)
        worker.work()
    # 1, 2, 4, 8, 16, 30, 30 ... seconds between
    waits = [b - a for a, b in pairwise(tries)]
    assert waits[:7] == [BACK_OFF.first_s, 2, 4, 8, 16, BACK_OFF.most_s, BACK_OFF.most_s]
    worker.host.faults.clear()
    worker.now_s += BACK_OFF.most_s
    ask(worker)
    worker.work()
    assert worker.running() == {KEY}


def test_an_unexpected_error_is_reported_counted_and_concerns_only_its_executor(worker: FakeWorker) -> None:
    worker.host.faults["start", KEY] = ValueError("embedded null byte")
    for _ in range(2):
        ask(worker)
        worker.launcher.start(Start(OTHER, spec("other"), 0.5, 512))
        worker.work()
        worker.now_s += BACK_OFF.most_s
    assert worker.running() == {OTHER}
    assert_names(worker.launcher.reason(KEY), "try 2", "embedded null byte")
    assert worker.launcher.state(KEY) == "starting"


@pytest.mark.parametrize("error", [BUSY, ValueError("what is this?")])
def test_a_failed_stop_is_tried_again_and_keeps_no_other_from_its_own(worker: FakeWorker, error: Exception) -> None:
    ask(worker)
    worker.launcher.start(Start(OTHER, spec("other"), 0.5, 512))
    worker.work()
    worker.host.faults["stop", KEY] = error
    worker.launcher.stop(KEY)
    worker.launcher.stop(OTHER)
    worker.work()
    assert (worker.running(), worker.launcher.busy(KEY)) == ({KEY}, False)
    worker.host.faults.clear()
    worker.launcher.stop(KEY)
    worker.work()
    assert worker.running() == set()


def test_a_stop_waits_behind_no_start(worker: FakeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.launcher.start(Start(OTHER, spec("other"), 0.5, 512))
    worker.work()
    begun, go_on, start = threading.Event(), threading.Event(), worker.runtime.start

    def slow(launch: Launch) -> None:
        begun.set()
        assert go_on.wait(60)
        start(launch)

    monkeypatch.setattr(worker.runtime, "start", slow)
    stop, stopped = threading.Event(), threading.Event()
    threads = [
        threading.Thread(target=worker.launcher.run_starts, args=(lambda: None, stop, lambda: None), daemon=True),
        threading.Thread(target=worker.launcher.run_stops, args=(stopped.set, stop, lambda: None), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        ask(worker)
        assert begun.wait(60)
        worker.launcher.stop(OTHER)
        assert stopped.wait(60)
        assert worker.running() == set()
    finally:
        go_on.set()
        stop.set()
        for thread in threads:
            thread.join(60)
    assert worker.running() == {KEY}


def test_a_start_that_is_no_longer_wanted_is_left_out(worker: FakeWorker) -> None:
    ask(worker)
    worker.launcher.withdraw(KEY)
    worker.work()
    assert (worker.running(), worker.launcher.busy(KEY)) == (set(), False)
    ask(worker)
    worker.work()
    assert worker.running() == {KEY}


def test_a_start_is_remembered_without_secrets_for_the_owner_only(worker: FakeWorker) -> None:
    ask(worker)
    worker.work()
    (record,) = (worker.folder / "records").iterdir()
    assert record.stat().st_mode & 0o777 == 0o600
    assert b"hush" not in record.read_bytes()
    worker.restart()
    remembered = worker.launcher.remembered(KEY)
    assert isinstance(remembered, ExecutorSpec)
    assert (remembered.slots, remembered.environment) == (2, {})
    worker.launcher.forget(KEY)
    assert worker.launcher.remembered(KEY) is None


def test_another_python_version_is_refused_before_anything_starts(worker: FakeWorker, tmp_path: Path) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python3").touch()
    prefix = str(tmp_path / "venv")
    python = PythonEnvironment(executable=f"{prefix}/bin/python3", version="3.12", prefix=prefix, base_prefix="/usr")
    ask(worker, wanted=spec(python=python))
    worker.work()
    assert_names(worker.launcher.reason(KEY), "3.11", "3.12")
    assert worker.running() == set()


def test_stopping_twice_stops_once(worker: FakeWorker) -> None:
    ask(worker)
    worker.work()
    worker.launcher.stop(KEY)
    worker.launcher.stop(KEY)
    assert worker.launcher._stops.qsize() == 1
    worker.work()
    assert worker.running() == set()
    assert not worker.launcher.busy(KEY)

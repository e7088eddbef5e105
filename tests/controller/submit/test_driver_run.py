"""A driver as a child: its exit code, signals, and the application that must not outlive it.

The driver is a small script; the master is a fake that keeps one application's view.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from controller.home import Home
from controller.submit import driver_run
from controller.submit.driver_run import DriverRun, find
from controller.wire.command import ApplicationView
from controller.wire.states import ApplicationState
from stage_model.errors import BadInput, Denied, InfeasibleDeadline, OtherVersion, Unavailable
from tests.fakes.master import Handler, Server, serving
from tests.fakes.views import view

SUBMISSION = "0a1b2c3d-0000-0000-0000-000000000000"


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Server]:
    with serving(Home(tmp_path)) as server:
        yield server


def running(**changes: object) -> ApplicationView:
    return view(**{"application_id": "app-1", "submission": SUBMISSION, "executors": 2, **changes})


def drive(master: Server, script: str, show: object = None) -> tuple[int, DriverRun]:
    run = DriverRun(master.client(), SUBMISSION)
    code = run.run([sys.executable, "-c", script], os.environ, show if callable(show) else lambda _view: None)
    return code, run


@pytest.mark.parametrize(
    ("script", "code"),
    [("pass", 0), ("raise SystemExit(1)", 1), ("raise SystemExit(42)", 42), ("import os; os.kill(os.getpid(), 9)", 137)],
)
def test_the_exit_code_is_the_drivers_as_in_a_shell_and_the_master_gets_it(master: Server, script: str, code: int) -> None:
    assert drive(master, script)[0] == code
    assert master.exit_codes == [code]


def test_the_exit_code_is_reported_again_until_it_is_taken(master: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_run, "LOOK_S", 0.01)
    master.view, master.away = running(state=ApplicationState.ENDED, executors=0, finished=True), 3
    assert drive(master, "pass")[0] == 0
    assert master.exit_codes == [0, 0, 0, 0]


def test_a_master_that_never_takes_the_exit_code_holds_nothing_up(master: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_S", "TELL_S", "RECORD_S"):
        monkeypatch.setattr(driver_run, name, 0.05)
    master.view, master.away = running(), 1_000_000
    assert drive(master, "raise SystemExit(7)")[0] == 7
    assert set(master.exit_codes) == {7}


@pytest.mark.parametrize(("outcome", "code"), [("", 0), ("succeeded", 0), ("killed", 1), ("stopped", 1)])
def test_what_was_killed_is_no_success_even_if_its_driver_does_not_mind(master: Server, outcome: str, code: int) -> None:
    master.view = running(state=ApplicationState.ENDED, executors=0, finished=True, outcome=outcome)
    assert drive(master, "pass")[0] == code
    assert master.exit_codes == [0]


def test_a_driver_that_no_master_knows_is_reported_once(master: Server) -> None:
    master.away = 3
    code, run = drive(master, "pass")
    assert (code, run.view, run.unknown) == (0, None, True)
    assert master.exit_codes == [0]


def test_a_master_that_is_away_has_not_said_that_it_knows_no_application(master: Server) -> None:
    master.refuse = 503, b'{"error": "away", "exit_code": 69}'
    code, run = drive(master, "pass")
    assert (code, run.view, run.unknown) == (0, None, False)


def test_a_master_that_refuses_the_exit_code_is_asked_to_kill_instead(master: Server, tmp_path: Path) -> None:
    class Refusing(Handler):
        def do_POST(self) -> None:  # noqa: N802 - the server's name for it
            if not self.path.endswith("/ended"):
                return super().do_POST()
            self.rfile.read(int(self.headers["Content-Length"]))
            return self._answer(404, b'{"error": "no such call", "exit_code": 69}')

    master.RequestHandlerClass = Refusing
    master.view = running()

    def interrupt(_view: ApplicationView | None) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    assert drive(master, "import time; time.sleep(60)", interrupt)[0] == 128 + signal.SIGTERM
    assert (master.killed, master.exit_codes) == (1, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_driver_and_application(master: Server, number: int, tmp_path: Path) -> None:
    master.view = running()
    ready = tmp_path / "handles-signals"
    script = (
        "import pathlib, signal, sys\nfor n in (2, 15): signal.signal(n, lambda n, _: sys.exit(0))\n"
        f"pathlib.Path({str(ready)!r}).touch()\nwhile True: signal.pause()"
    )

    def interrupt(_view: ApplicationView | None) -> None:
        if ready.exists():
            ready.unlink()
            os.kill(os.getpid(), number)

    code, run = drive(master, script, interrupt)
    assert code == 128 + number
    assert (master.killed, master.exit_codes) == (0, [128 + number])
    assert run.view is not None
    assert run.view.state == "ended"


def test_handlers_are_put_back(master: Server) -> None:
    before = signal.getsignal(signal.SIGTERM)
    drive(master, "pass")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_driver_goes_on_without_a_master(tmp_path: Path) -> None:
    with Server(Home(tmp_path)) as server:
        gone = server.client()
    run = DriverRun(gone, SUBMISSION)
    assert run.run([sys.executable, "-c", "raise SystemExit(3)"], os.environ, lambda _view: None) == 3


def test_a_missing_spark_submit_is_named(master: Server) -> None:
    with pytest.raises(Unavailable, match="/nowhere/spark-submit"):
        DriverRun(master.client(), SUBMISSION).run(["/nowhere/spark-submit"], {}, lambda _view: None)


def test_an_application_is_found_by_its_submission(master: Server) -> None:
    client = master.client()
    assert find(client, SUBMISSION) is None
    master.view = running()
    assert find(client, SUBMISSION) == master.view
    assert find(client, "other") is None


def test_the_masters_refusals_become_our_errors(master: Server) -> None:
    with pytest.raises(Denied):
        master.client("wrong").applications()
    for code, kind in ((2, BadInput), (69, Unavailable), (75, InfeasibleDeadline), (77, Denied)):
        master.refuse = 400, msgspec.json.encode({"error": "no.", "exit_code": code})
        with pytest.raises(kind, match="no"):
            master.client().applications()
    master.refuse = 200, b"<html>"
    with pytest.raises(Unavailable, match=master.url):
        master.client().applications()


def test_a_master_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with Server(Home(tmp_path)) as server:
        gone = server.client()
    with pytest.raises(Unavailable, match=server.url):
        gone.applications()


@pytest.mark.parametrize("answer", [(200, b'{"applications": []}'), (400, b'{"error": "no.", "exit_code": 2}')])
def test_a_master_of_another_version_is_distinguished_from_a_refusal(master: Server, answer: tuple[int, bytes]) -> None:
    master.refuse, master.speaks = answer, "3"
    with pytest.raises(OtherVersion, match=r"'3'.* '1'") as refused:
        master.client().applications()
    assert (refused.value.exit_code, master.heard) == (69, "1")


def test_a_child_whose_parent_has_ended_already_does_not_go_on() -> None:
    load = "import sys; from controller.submit.driver_run import end_with_parent"
    program = f"{load}; end_with_parent(int(sys.argv[1])); print('goes on')"

    def run(parent: int) -> tuple[int, str]:
        words = [sys.executable, "-c", program, str(parent)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        return done.returncode, done.stdout

    assert run(os.getpid()) == (0, "goes on\n")
    assert run(os.getpid() + 1) == (128 + signal.SIGTERM, "")

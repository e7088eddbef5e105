"""Drivers that an agent hosts, as real processes: `sparkpace submit` itself, with a script as Spark and a fake master."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from controller.agent.hosting import END_S, DriverHost, StartRecord, end_starts, read_starts
from controller.machine import proc
from controller.machine.process import Process, find_process
from controller.machine.process_tree import members
from controller.machine.waiting import wait_until
from controller.submit.bridge_jar import JAR
from controller.submit.hosted_start import HostedStart, why_not_here
from controller.wire.hosting import HostedReport, HostedSpec
from controller.wire.worker import Desired
from tests.fakes.submitting import SCRIPT, Place, submitting

PATIENCE_S = 60.0
FIRST = "20290101000000-0000-1"
LASTING = SCRIPT.rpartition("exit")[0] + "exec sleep 1000\n"
pytestmark = pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")


def orders(*specs: HostedSpec, stopped: tuple[str, ...] = ()) -> Desired:
    here = tuple(spec.submission for spec in specs)
    return Desired(cluster_id="c", generation=1, version=1, drivers=specs, drivers_here=here, drivers_stopped=stopped)


def living(first: Process) -> list[int]:
    """Return the living processes of a session."""
    return [pid for pid in members(first) if proc.start_ticks(pid, zombie=False) is not None]


class Hosted:
    """A place to submit from, whose driver is a script that `lasts` or ends at once, and the agent's host of drivers."""

    def __init__(self, place: Place) -> None:
        self.place, self.folder = place, place.home.path / "drivers"
        self.host = self.next_agent()

    def next_agent(self) -> DriverHost:
        return DriverHost(self.folder, self.place.home.logs, hosts=True)

    def lasts(self) -> None:
        (self.place.work / "spark" / "bin" / "spark-submit").write_text(LASTING)

    def spec(self) -> HostedSpec:
        return HostedSpec(
            submission=FIRST,
            words=("--home", str(self.place.home.path), "--deploy-mode", "client", "app.py"),
            environment=dict(os.environ),
            working_dir=str(self.place.work),
            needs=(str(self.place.work / "app.py"),),
            uid=os.getuid(),
            gid=os.getgid(),
        )

    def start(self) -> StartRecord:
        """Start a driver that lasts; return its record once its script runs."""
        self.lasts()
        self.host.take(orders(self.spec()))
        assert self.host.look(0.0)
        assert wait_until((self.place.work / "arguments.conf").exists, PATIENCE_S, 0.05)
        return read_starts(self.folder)[FIRST]

    @property
    def log(self) -> str:
        return (self.place.home.logs / f"driver-{FIRST}.log").read_text()

    def report(self, is_it: Callable[[HostedReport], object], host: DriverHost | None = None) -> HostedReport:
        """Look until the report on the only driver is as wanted; return it."""
        host = host or self.host

        def looked() -> bool:
            host.look(0.0)
            return any(map(is_it, host.reports()))

        assert wait_until(looked, PATIENCE_S, 0.05), (host.reports(), self.log)
        (found,) = host.reports()
        return found


@pytest.fixture
def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    with submitting(tmp_path, monkeypatch) as place:
        place.home.logs.mkdir(exist_ok=True)
        made = Hosted(place)
        yield made
        end_starts(made.folder)
        for child in made.host._children.values():
            child.wait()


@pytest.mark.parametrize("code", [0, 3])
def test_a_driver_runs_in_its_folder_and_its_exit_code_is_reported(
    hosted: Hosted, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXIT_CODE", str(code))
    hosted.host.take(orders(hosted.spec()))
    assert hosted.report(lambda one: one.ended) == HostedReport(submission=FIRST, ended=True, exit_code=code)
    assert hosted.place.settings["spark.pace.submission"] == FIRST
    assert "app.py" in hosted.place.words
    hosted.host.take(orders(hosted.spec()))  # the master has not taken the report yet: it is no second order
    assert not hosted.host.look(0.0)
    hosted.host.take(orders())
    assert (hosted.host.reports(), read_starts(hosted.folder)) == ((), {})


def test_a_driver_outlives_its_agent_and_the_next_one_adopts_it(hosted: Hosted) -> None:
    record = hosted.start()
    following = hosted.next_agent()
    running = HostedReport(submission=FIRST)
    assert following.reports() == (running,)
    following.take(orders(hosted.spec()))
    assert not following.look(0.0)
    assert record.process is not None
    assert len(living(record.process)) > 1
    os.kill(hosted.place.driver, signal.SIGKILL)
    # only the agent that started it sees the code; the driver's own submit has reported it to the master
    assert hosted.report(lambda one: one.ended, following).exit_code is None
    assert hosted.place.master.exit_codes == [137]
    assert hosted.report(lambda one: one.ended).exit_code == 137


def test_what_a_killed_submit_leaves_ends_before_the_end_is_reported(hosted: Hosted) -> None:
    process = hosted.start().process
    assert process is not None
    process.send(signal.SIGKILL)
    assert hosted.report(lambda one: one.ended).exit_code == 137
    assert living(process) == []


def test_a_driver_is_asked_to_end_and_killed_after_its_time(hosted: Hosted) -> None:
    process = hosted.start().process
    assert process is not None
    process.send(signal.SIGSTOP)  # so that it cannot end as it should
    hosted.host.take(orders(stopped=(FIRST,)))
    for now_s in (0.0, END_S - 1, END_S + 1):
        assert process.is_alive()
        hosted.host.look(now_s)
    assert hosted.report(lambda one: one.ended).exit_code == 137


def test_a_driver_that_is_asked_to_end_ends_its_own_way(hosted: Hosted) -> None:
    hosted.start()
    hosted.host.take(orders(stopped=(FIRST,)))
    assert hosted.report(lambda one: one.ended).exit_code == 128 + signal.SIGTERM
    assert hosted.place.master.exit_codes == [128 + signal.SIGTERM]


def test_an_order_that_is_taken_back_in_time_starts_nothing(hosted: Hosted) -> None:
    hosted.host.take(orders(hosted.spec()))
    hosted.host.take(orders())
    assert not hosted.host.look(0.0)
    assert (hosted.host.reports(), hosted.place.started) == ((), None)


def test_an_agent_that_hosts_no_drivers_refuses_them(hosted: Hosted) -> None:
    host = DriverHost(hosted.folder, hosted.place.home.logs, hosts=False)
    host.take(orders(hosted.spec()))
    assert not host.look(0.0)
    assert [("--host-drivers" in one.refused) for one in host.reports()] == [True]
    assert hosted.place.started is None
    host.take(orders())
    assert host.reports() == ()


def test_a_host_that_is_closed_starts_nothing(hosted: Hosted) -> None:
    hosted.host.take(orders(hosted.spec()))
    hosted.host.close()
    hosted.host.take(orders(hosted.spec()))
    assert not hosted.host.look(0.0)
    assert (hosted.host.reports(), hosted.place.started) == ((), None)


def test_a_driver_whose_record_cannot_be_written_keeps_no_other_waiting(hosted: Hosted) -> None:
    other = "20290101000000-0001-1"
    hosted.folder.mkdir(parents=True)
    file = hosted.folder / f"{other}.json"
    file.write_bytes(msgspec.json.encode(StartRecord(submission=other, uid=os.getuid())))
    host = hosted.host = hosted.next_agent()
    file.unlink()
    file.mkdir()  # no file can take its place
    hosted.lasts()
    host.take(orders(hosted.spec()))
    assert host.look(0.0)
    assert HostedReport(submission=FIRST) in host.reports()
    file.rmdir()


def test_a_driver_starts_where_the_agent_has_many_open_files(hosted: Hosted) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 4096), before[1]))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        hosted.start()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert hosted.host.reports() == (HostedReport(submission=FIRST),)


def test_processes_of_another_user_are_nothing_of_a_driver(hosted: Hosted) -> None:
    stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    record = StartRecord(submission=FIRST, uid=os.getuid() + 1, process=find_process(stranger.pid))
    hosted.folder.mkdir(parents=True)
    (hosted.folder / f"{FIRST}.json").write_bytes(msgspec.json.encode(record))
    assert end_starts(hosted.folder) == 0
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait(PATIENCE_S)


def test_absence_from_the_orders_ends_no_driver(hosted: Hosted) -> None:
    process = hosted.start().process
    hosted.host.take(orders())
    hosted.host.look(0.0)
    assert process is not None
    assert process.is_alive()
    assert hosted.host.reports() == (HostedReport(submission=FIRST),)


def test_a_driver_without_its_program_is_refused(hosted: Hosted) -> None:
    (hosted.place.work / "app.py").unlink()
    hosted.host.take(orders(hosted.spec()))
    refused = hosted.report(lambda one: one.refused).refused
    assert refused.startswith(f"{hosted.place.work / 'app.py'} cannot be read on ")
    shutil.rmtree(hosted.place.work)
    hosted.host.take(orders())
    hosted.host.take(orders(hosted.spec()))
    assert str(hosted.place.work) in hosted.report(lambda one: one.refused).refused


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts drivers of other users")
def test_a_driver_of_another_user_has_that_users_rights() -> None:
    with tempfile.TemporaryDirectory() as open_folder:
        Path(open_folder).chmod(0o755)
        program = Path(open_folder) / "app.py"
        program.write_text("")
        for mode, readable in ((0o600, False), (0o644, True)):
            program.chmod(mode)
            said = HostedStart(words=(), folder="/", needs=(str(program),))
            if (child := os.fork()) == 0:  # not a program of its own: this Python may be in a folder of root's
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                os._exit(bool(why_not_here(said)))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (not readable)


def test_an_agent_that_is_not_root_starts_no_drivers_of_others(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    hosted.host.take(orders(hosted.spec()))
    assert "uid 12345" in hosted.report(lambda one: one.refused).refused
    assert hosted.place.started is None


def test_a_driver_that_was_just_started_when_its_agent_died_is_found(hosted: Hosted) -> None:
    child = subprocess.Popen(["sh", "-c", "sleep 1000; true", FIRST], start_new_session=True)
    hosted.folder.mkdir(parents=True)
    for submission in (FIRST, "20290101000000-0001-1"):
        record = StartRecord(submission=submission, uid=os.getuid())
        (hosted.folder / f"{submission}.json").write_bytes(msgspec.json.encode(record))
    host = hosted.host = hosted.next_agent()
    assert host.reports() == ()  # not known yet
    assert host.look(0.0)
    assert {one.submission: one.ended for one in host.reports()} == {FIRST: False, "20290101000000-0001-1": True}
    assert read_starts(hosted.folder)[FIRST].process == find_process(child.pid)
    assert end_starts(hosted.folder) == 1
    assert child.wait(PATIENCE_S) == -signal.SIGTERM


def test_what_is_left_of_a_worker_without_an_agent_is_ended(hosted: Hosted) -> None:
    process = hosted.start().process
    assert process is not None
    assert end_starts(hosted.folder) == 1
    assert living(process) == []
    assert not hosted.folder.exists()
    assert end_starts(hosted.folder) == 0

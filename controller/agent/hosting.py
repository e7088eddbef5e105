"""Drivers that an agent hosts: plain processes of the submitting users, which outlive the agent.

Each start of a driver has a record in the agent's folder, so the next agent adopts it by number, start and boot. A start has
ended once no process of its session is left: what a driver has left behind is ended after it. A start whose end is reported
stays on record until the master no longer lists it.

Orders are taken on the agent's thread (`take`), and processes are started and ended on a thread of its own (`run`).
"""

from __future__ import annotations

import logging
import os
import pwd
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from controller.agent.threads import Beat
from controller.machine import proc
from controller.machine.files import write_whole
from controller.machine.process import Process, find_process
from controller.machine.process_tree import members
from controller.machine.waiting import wait_until
from controller.start import ours
from controller.submit.driver_run import DRIVER_END_S, RECORD_S
from controller.submit.hosted_start import HostedStart
from controller.wire.hosting import HostedReport, HostedSpec
from controller.wire.limits import NOTE_LENGTH
from controller.wire.worker import Desired
from stage_model.decoding import UNREADABLE
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger("sparkpace.agent")

LOOK_S = 1.0
END_S = DRIVER_END_S + RECORD_S + 5.0
"""Time from SIGTERM to SIGKILL: more than `sparkpace submit` takes for its driver and the run's record."""
KILLED_S = 5.0
CHECK_S = 30.0
"""Longest time in which a start has to have checked its files; a file system may be slow."""
LONGEST_PROBLEM = 64 << 10
"""Most bytes of a start's sentence: it has two paths at most."""


class StartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A start of a driver as `uid`: its first process (None: not known yet) or the reason for its lack, and its end."""

    submission: str
    uid: int
    process: Process | None = None
    refused: str = ""
    ended: bool = False
    exit_code: int | None = None

    @property
    def over(self) -> bool:
        return self.ended or bool(self.refused)

    def end(self, code: int | None) -> StartRecord:
        """Return the record of the start once it has ended with a code as `Popen` has it; None: no one has seen it."""
        code = 128 - code if code is not None and code < 0 else code
        return msgspec.structs.replace(self, ended=True, exit_code=code)


class DriverHost:
    """The drivers on one worker. `folder` has their records, `logs` their logs. `hosts` False: no further ones start."""

    def __init__(self, folder: Path, logs: Path, *, hosts: bool) -> None:
        self._folder, self._logs, self._hosts = folder, logs, hosts
        self._closed = False
        self._lock, self._woken = threading.Lock(), threading.Event()
        self._starts = read_starts(folder)
        self._orders: dict[str, HostedSpec] = {}
        self._stops: dict[str, float | None] = {}
        """Starts that are to end, with the time at which what is left of each is killed; None: it was not asked yet."""
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def take(self, desired: Desired) -> None:
        """Take the master's newest word: drivers to run, starts to end."""
        with self._lock:
            if self._closed:
                return
            for spec in desired.drivers:
                if spec.submission not in self._starts:
                    refused = "" if self._hosts else "its agent runs no drivers (it has no --host-drivers)"
                    self._starts[spec.submission] = StartRecord(submission=spec.submission, uid=spec.uid, refused=refused)
                    if not refused:
                        self._orders[spec.submission] = spec
                        self._woken.set()
            wanted = {spec.submission for spec in desired.drivers}
            for submission in self._orders.keys() - wanted:
                del self._orders[submission], self._starts[submission]
            for submission in desired.drivers_stopped:
                if submission in self._starts:
                    self._stops.setdefault(submission, None)
            for submission, record in list(self._starts.items()):
                if record.over and submission not in desired.drivers_here:
                    del self._starts[submission]
                    self._stops.pop(submission, None)
                    _file(self._folder, submission).unlink(missing_ok=True)

    def close(self) -> None:
        """Start no further driver, because this worker ends."""
        with self._lock:
            self._closed = True
            for submission in self._orders:
                del self._starts[submission]
            self._orders.clear()

    def reports(self) -> tuple[HostedReport, ...]:
        with self._lock:
            starts = list(self._starts.values())
        return tuple(
            HostedReport(submission=one.submission, ended=one.ended, exit_code=one.exit_code, refused=one.refused)
            for one in starts
            if one.over or one.process is not None
        )

    def run(self, wake: Callable[[], None], stop: threading.Event, beat: Beat) -> None:
        """Start and end drivers, and look after them, until `stop` is set."""
        while not stop.is_set():
            if self.look(time.monotonic()):
                wake()
            beat()
            self._woken.wait(LOOK_S)
            self._woken.clear()

    def look(self, now_s: float) -> bool:
        """Start one driver, and look after the others; return True if there is news for the master. An error with one of them
        keeps no other one waiting."""
        with self._lock:
            submission = next(iter(self._orders), "")
            order = self._orders.pop(submission, None)
            others = [one for one in self._starts.values() if not one.over and one.submission not in self._orders]
            if self._orders:
                self._woken.set()
        news = False
        for record in others:
            try:
                if order is not None and record.submission == submission:
                    news = self._start(record, order) or news
                else:
                    news = self._look_after(record, now_s) or news
            except Exception:
                log.exception("driver %s", record.submission)
        return news

    # ------------------------------------------------------------------ one driver

    def _start(self, record: StartRecord, spec: HostedSpec) -> bool:
        """Start a driver; return True for news. The record is written before, so that the next agent looks for the process
        if this one dies now."""
        if self._closed:
            return False
        try:
            self._keep(record)
            child = start_driver(spec, self._logs / f"driver-{spec.submission}.log")
        except (OSError, RuntimeRefused) as error:
            return self._keep(msgspec.structs.replace(record, refused=str(error)[:NOTE_LENGTH]))
        self._children[spec.submission] = child
        process = find_process(child.pid)
        return self._keep(msgspec.structs.replace(record, process=process) if process else record.end(child.wait()))

    def _look_after(self, record: StartRecord, now_s: float) -> bool:
        """End a driver that is to end, and see whether it has; return True for news."""
        process = record.process or _find_start(record)
        if process is None:
            return self._keep(record.end(None))
        if record.process is None:
            return self._keep(msgspec.structs.replace(record, process=process))
        if process.is_alive():
            if record.submission in self._stops:
                self._ask_to_end(record, process, now_s)
            return False
        if left := _left(process, record.uid):
            _kill(left)  # the first process waits for its driver, so what is left has been left behind
            return False
        child = self._children.pop(record.submission, None)
        return self._keep(record.end(None if child is None else child.wait()))

    def _ask_to_end(self, record: StartRecord, process: Process, now_s: float) -> None:
        kill_s = self._stops[record.submission]
        if kill_s is None:
            process.send(signal.SIGTERM)
            self._stops[record.submission] = now_s + END_S
        elif now_s > kill_s:
            _kill(_left(process, record.uid))

    def _keep(self, record: StartRecord) -> bool:
        """Keep a record, also for the next agent; return True."""
        with self._lock:
            self._starts[record.submission] = record
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(_file(self._folder, record.submission), msgspec.json.encode(record))
        return True


def read_starts(folder: Path) -> dict[str, StartRecord]:
    """Return the starts on record, by submission id; a file that cannot be read counts as none."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        with suppress(OSError, *UNREADABLE):
            record = msgspec.json.decode(file.read_bytes(), type=StartRecord)
            found[record.submission] = record
    return found


def end_starts(folder: Path) -> int:
    """End the drivers on record in a folder, where no agent looks after them any longer; return how many there were. Raise
    `RuntimeFailed` for processes that do not end."""
    there = [(one, one.process or _find_start(one)) for one in read_starts(folder).values() if not one.over]
    running = [(one, process) for one, process in there if process is not None and _left(process, one.uid)]
    for _, process in running:
        process.send(signal.SIGTERM)
    wait_until(lambda: not any(process.is_alive() for _, process in running), END_S, LOOK_S)
    for one, process in running:
        _kill(_left(process, one.uid))
    wait_until(lambda: not any(_left(process, one.uid) for one, process in running), KILLED_S, LOOK_S / 10)
    if left := [one.submission for one, process in running if _left(process, one.uid)]:
        raise RuntimeFailed(f"processes of the driver(s) {', '.join(left)} do not end")
    shutil.rmtree(folder, ignore_errors=True)
    return len(running)


def start_driver(spec: HostedSpec, log: Path) -> subprocess.Popen[bytes]:
    """Start a driver as its user, in a session of its own. Raise `RuntimeRefused` where it cannot be started: the files that
    it needs are not there for that user, or this agent may not start programs as that user."""
    own = os.geteuid()
    if own not in (0, spec.uid):
        raise RuntimeRefused(f"this agent runs as uid {own} and cannot start a driver as uid {spec.uid}")
    said = HostedStart(words=("--submission", spec.submission, *spec.words), folder=spec.working_dir, needs=spec.needs)
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "ab") as out, os.fdopen(os.memfd_create("driver"), "w+b") as order:
            order.write(msgspec.json.encode(said))
            order.seek(0)
            child = subprocess.Popen(
                ours("controller.submit.hosted_start", spec.submission),  # named, so that it can be found
                env=dict(spec.environment),
                cwd="/",
                stdin=order,
                stdout=subprocess.PIPE,
                stderr=out,
                start_new_session=True,
                user=spec.uid if own == 0 else None,
                group=spec.gid if own == 0 else None,
                extra_groups=_groups(spec) if own == 0 else None,
            )
    except (OSError, ValueError) as error:
        raise RuntimeRefused(f"no driver can be started here as uid {spec.uid} ({error})") from error
    assert child.stdout is not None
    with child.stdout as pipe:
        # one sentence, or the end of the pipe when the process becomes the driver
        ready = select.poll()
        ready.register(pipe, select.POLLIN)
        if ready.poll(1000 * CHECK_S):
            problem = os.read(pipe.fileno(), LONGEST_PROBLEM).decode(errors="replace")
        else:
            problem = f"the driver's files could not be looked at within {CHECK_S:g} s"
    if problem:
        child.kill()
        child.wait()
        raise RuntimeRefused(problem)
    return child


def _groups(spec: HostedSpec) -> list[int]:
    """Return the groups of a user by the user database here; none for a user that it does not know."""
    try:
        user = pwd.getpwuid(spec.uid)
    except KeyError:
        return []
    return os.getgrouplist(user.pw_name, spec.gid)


def _find_start(record: StartRecord) -> Process | None:
    """Return the process of a start whose agent died before it had noted it: the first of a session, of that user, that names
    the submission."""
    for pid in psutil.pids():
        if proc.owner(pid) == record.uid and record.submission in proc.command_line(pid):
            process = find_process(pid)
            if process is not None and pid in members(process):
                return process
    return None


def _left(process: Process, uid: int) -> tuple[int, ...]:
    """Return what is left of a driver's session, without processes that wait for their parent to take in their end, and
    without those of another user than `uid`: the number may be of a later session. Nothing is left after a restart of the
    machine."""
    there = members(process) if process.is_this_boot() else ()
    return tuple(pid for pid in there if proc.owner(pid) == uid and proc.start_ticks(pid, zombie=False) is not None)


def _file(folder: Path, submission: str) -> Path:
    return folder / f"{submission}.json"


def _kill(pids: tuple[int, ...]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)

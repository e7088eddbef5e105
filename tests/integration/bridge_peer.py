"""A master of few words for the bridge's tests: it speaks the wire format, starts real executors and errs on request.

Not covered: anything a master decides. Faults are given as a list; each is used up by one sync.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from controller.home import Home
from controller.wire.driver import DriverReply, DriverSync, ExecutorGone, Registered, Registration
from stage_model.history.events import AnyEvent, ExecutorAdded
from tests.fakes.tls import secure
from tests.integration.local_cluster import QUICK_JVM

SUBMIT_TOKEN = "submit-token-of-the-test"
APPLICATION = "app-of-the-test"
Answer = tuple[int, bytes]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    peer: Peer


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the parent's name
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.peer.answer(self.path, self.headers["Authorization"], body)
        if answer is None:  # the reply is lost on its way
            self.close_connection = True
            return
        self.send_response(answer[0])
        self.send_header("Content-Length", str(len(answer[1])))
        self.end_headers()
        self.wfile.write(answer[1])


class Peer:
    """`faults`: "lost" (events taken, no reply), "forgot" (acknowledges none), "full" (takes in what it does not store, asks
    for it afterwards), "unknown", "stop" or an answer; one a sync.
    It proves itself by the CA of `home`, which is its directory unless it is given."""

    def __init__(
        self, directory: Path, faults: list[str | Answer], *, home: Home | None = None, refuse: Answer | None = None
    ) -> None:
        self.directory = directory
        self.home = home or Home(directory)
        self.faults = faults
        self.refuse = refuse
        self.lock = threading.RLock()
        self.registrations: list[Registration] = []
        self.registered_s: list[float] = []
        self.syncs: list[DriverSync] = []
        self.events: dict[int, AnyEvent] = {}
        self.repeated: set[int] = set()
        self.gaps: list[tuple[int, int]] = []
        self.problems: list[str] = []
        self.acknowledged = 0
        self.stored: int | None = None
        self.kept: list[tuple[int, list[int]]] = []
        """Events behind a number that was stored when "full" began, as they were sent once more."""
        self.gone: list[ExecutorGone] = []
        self.starved: dict[str, int] = {}
        self.executors: dict[str, subprocess.Popen[bytes]] = {}
        self.token = "first-token"
        self.port = 0
        self.open()
        self.token_file = directory / "submit.token"
        self.token_file.write_text(SUBMIT_TOKEN + "\n")
        self.token_file.chmod(0o600)

    def open(self) -> None:
        self.server = Server(("127.0.0.1", self.port), Handler)
        secure(self.server, self.home)
        self.server.peer = self
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Stop the server, as if it were dead: nothing listens."""
        self.server.shutdown()
        self.server.server_close()

    def end(self) -> None:
        self.close()
        for process in self.executors.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def answer(self, path: str, authorization: str, body: bytes) -> Answer | None:
        with self.lock:
            try:
                if path == "/v1/applications":
                    return self.register(authorization, msgspec.json.decode(body, type=Registration))
                assert path == f"/v1/applications/{APPLICATION}/sync", path
                return self.sync(authorization, msgspec.json.decode(body, type=DriverSync))
            except (AssertionError, msgspec.MsgspecError) as problem:
                self.problems.append(f"{path}: {problem!r}: {body[:2000]!r}")
                return 500, b"{}"

    def register(self, authorization: str, registration: Registration) -> Answer:
        assert authorization == f"Bearer {SUBMIT_TOKEN}"
        self.registrations.append(registration)
        self.registered_s.append(time.monotonic())
        if self.refuse is not None:
            return self.refuse
        if registration.application_id is not None:
            self.token = "second-token"
        known = self.acknowledged
        reply = Registered(application_id=APPLICATION, token=self.token, acknowledged=known, notices=("welcome",))
        return 200, newer(reply)

    def sync(self, authorization: str, message: DriverSync) -> Answer | None:
        assert authorization == f"Bearer {self.token}"
        usable = self.faults and not message.ended and (self.faults[0] not in ("lost", "full") or message.events)
        fault = self.faults.pop(0) if usable else None
        if isinstance(fault, tuple):
            return fault
        if fault == "unknown":
            self.token = "no driver has this one"
            return 404, b'{"error": "no such application", "exit_code": 1}'
        self.syncs.append(message)
        behind = self.acknowledged
        if message.snapshot is not None:
            self.gaps.append((self.acknowledged, message.next_seq))
            self.acknowledged = message.next_seq - 1
        if fault == "full" and self.stored is not None:
            assert message.events[0].seq == self.acknowledged + 1  # behind what was taken in
        if self.kept and not self.kept[-1][1]:
            self.kept[-1][1].extend(item.seq for item in message.events)
        for item in message.events:
            event = msgspec.json.decode(item.event, type=AnyEvent)
            if item.seq in self.events:
                assert self.events[item.seq] == event
                self.repeated.add(item.seq)
            self.events[item.seq] = event
        while self.acknowledged + 1 in self.events:
            self.acknowledged += 1
        if fault == "lost":
            return None
        if fault == "full":
            self.stored = behind if self.stored is None else self.stored
            return 200, newer(DriverReply(acknowledged=self.stored, taken=self.acknowledged))
        if self.stored is not None:
            stored, self.stored = self.stored, None
            self.kept.append((stored, []))
            return 200, newer(DriverReply(acknowledged=stored))
        stop = "the test has seen enough" if fault == "stop" else None
        acknowledged = 0 if fault == "forgot" else self.acknowledged
        reply = DriverReply(acknowledged=acknowledged, gone=tuple(self.gone), stop=stop, starved=dict(self.starved))
        return 200, newer(reply)

    def start_executor(self, executor_id: str) -> Path:
        """Start an executor; return its control directory."""
        driver = self.registrations[-1]
        control = self.directory / f"control-{executor_id}"
        control.mkdir()
        orders = self.directory / f"orders-{executor_id}"
        orders.mkdir()
        jars = driver.jars_dir
        keys = ("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions")
        options = [word for key in keys for word in shlex.split(driver.conf.get(key, ""))]
        options = [word.replace("{{APP_ID}}", APPLICATION).replace("{{EXECUTOR_ID}}", executor_id) for word in options]
        command = [f"{driver.java_home}/bin/java", "-cp", f"{jars}/*:{driver.bridge_jar}", "-Xmx512m", *options]
        command += [*QUICK_JVM.split(), f"-Djava.io.tmpdir={self.directory}"]
        command += [f"-D{key}={value}" for key, value in driver.startup_conf.items()]
        command += ["org.apache.spark.executor.CoarseGrainedExecutorBackend", "--driver-url", driver.driver_url]
        command += ["--executor-id", executor_id, "--hostname", "127.0.0.1", "--bind-address", "127.0.0.1"]
        command += ["--cores", "2", "--app-id", APPLICATION, "--resourceProfileId", "0"]
        credentials = self.directory / f"credentials-{executor_id}"
        if driver.credentials is not None:
            credentials.write_bytes(driver.credentials)
        environment = driver.environment | {
            "HADOOP_TOKEN_FILE_LOCATION": str(credentials),
            "PATH": os.environ["PATH"],
            "SPARK_HOME": str(Path(jars).parent),
            "SPARK_LOCAL_DIRS": str(self.directory),
            "SPARKPACE_CONTROL_DIR": str(control),
            "SPARKPACE_ORDERS_DIR": str(orders),
        }
        with (self.directory / f"executor-{executor_id}.log").open("wb") as log:
            self.executors[executor_id] = subprocess.Popen(
                command, env=environment, cwd=self.directory, stdout=log, stderr=subprocess.STDOUT
            )
        return control

    def kill_executor(self, executor_id: str) -> None:
        """Kill an executor. The reason is ready before, because a driver waits only 5 s for it."""
        lost = ExecutorGone(
            executor_id=executor_id, exit_code=137, planned=False, by_application=False, reason="killed by the test"
        )
        with self.lock:
            self.gone.append(lost)
        process = self.executors[executor_id]
        process.kill()
        process.wait()

    def joined(self, executor_id: str) -> bool:
        with self.lock:
            return any(isinstance(e, ExecutorAdded) and e.executor == executor_id for e in self.events.values())


def newer(reply: msgspec.Struct) -> bytes:
    """Write the reply as a newer master does: with a field that no release knows yet."""
    return msgspec.json.encode({**msgspec.to_builtins(reply), "mood": "calm"})


def wait_for(what: str, seen: Callable[[], bool], *, seconds: float = 300) -> None:
    """Poll a fact about another process; fail with its name after `seconds`."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if seen():
            return
        pause.wait(0.05)
    raise AssertionError(f"not seen within {seconds} s: {what}")

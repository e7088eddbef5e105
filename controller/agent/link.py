"""The agent's line to the master, on threads of its own: the control loop never waits for the network.

One thread posts the newest report and takes the desired state from the reply; another hangs on the master's change notice,
so that stage events act at once. Orders of a foreign cluster or an older master generation are refused.

After a cut of the network, this worker's next report reaches the master within 4 s: the kernel repeats a connection's first
packet after 1 s and 3 s, and the link begins a new connection 1 s after a connection has failed to open within 5 s. A cut of
25 s thus ends before the worker is lost (`--lost-after`, 30 s).
"""

from __future__ import annotations

import logging
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from controller.agent.threads import Beat
from controller.machine.back_off import BackOff
from controller.machine.http import HttpConnection, to_master
from controller.wire import version
from controller.wire.worker import Changed, Desired, WorkerReply, WorkerSync
from stage_model.decoding import UNREADABLE
from stage_model.errors import PaceError, Unavailable

log = logging.getLogger("sparkpace.agent")

NOTICE_WAIT_S = 20
DENIED = 401
REPEAT_S = 2.0
"""Longest time between two reports to the master."""
BACK_OFF = BackOff(first_s=0.5, most_s=1.0)
OPENS_S, ANSWERS_S = 5.0, 10.0
"""Patience with a master until a connection is open, and until a report is answered."""


class Refused(Exception):
    """A reply that must not be obeyed; the message says why."""


NO_MASTER = (OSError, *UNREADABLE, Refused, Unavailable)
"""Errors of a call that brought nothing to act upon: the last orders stay in force and the call is tried again."""


class OrderFilter:
    """The cluster and generation that may give orders to this worker, and the other cluster that has tried last."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id, self.generation, self.foreign = cluster_id, 0, ""

    def check(self, desired: Desired) -> None:
        """Raise `Refused` for a foreign cluster or an older generation."""
        if desired.cluster_id != self.cluster_id:
            self.foreign = desired.cluster_id
            raise Refused(f"orders of cluster {desired.cluster_id} refused; this agent belongs to {self.cluster_id}")
        if desired.generation < self.generation:
            raise Refused(f"orders of generation {desired.generation} refused; {self.generation} was seen")
        self.generation = desired.generation


class AcceptedReply(NamedTuple):
    """A reply, the report that it answers, and the time when it came (monotonic seconds)."""

    reply: WorkerReply
    sent: WorkerSync
    at_s: float


class Link:
    """The link. `token` reads the worker's token, and reads it again when the master refuses it, because it may have been
    renewed; it may raise `PaceError`. `wake` is called on a link thread when an answer brings another version of the desired
    state, or the order to leave."""

    def __init__(
        self,
        url: str,
        ca: Path,
        token: Callable[[], str],
        worker_id: str,
        orders: OrderFilter,
        wake: Callable[[], None],
    ) -> None:
        self._token = token
        self._reports = to_master(url, ca, ANSWERS_S, OPENS_S)
        self._notices = to_master(url, ca, NOTICE_WAIT_S + ANSWERS_S, OPENS_S)
        self._headers = {
            "Authorization": f"Bearer {token()}",
            "Content-Type": "application/json",
            version.HEADER: version.SPOKEN,
        }
        self._base = f"/v1/workers/{urllib.parse.quote(worker_id, safe='')}"
        self.orders, self._wake = orders, wake
        self._lock = threading.Lock()
        self._report: WorkerSync | None = None
        self._answers: list[AcceptedReply] = []
        self.send_now = threading.Event()
        self.version = -1
        self._accepted: tuple[int, bool, bool] | None = None
        """Version and order to leave of the last answer, and the farewell that it answered."""
        self._away_since: float | None = None

    def post(self, report: WorkerSync) -> None:
        """Send this report soon, and again until there is a newer one."""
        with self._lock:
            self._report = report
        self.send_now.set()

    def take(self) -> list[AcceptedReply]:
        """Return the answers that have come since the last call."""
        with self._lock:
            answers, self._answers = self._answers, []
        return answers

    def run_sync(self, stop: threading.Event, beat: Beat) -> None:
        """Post a report whenever `send_now` is set, else every `REPEAT_S`: a long period is no silence."""
        failures = 0
        while not stop.is_set():
            beat()
            self.send_now.wait(REPEAT_S)
            self.send_now.clear()
            try:
                self._sync()
                failures = 0
                if self._away_since is not None:
                    log.warning("the master answers again after %.0f s", time.monotonic() - self._away_since)
                    self._away_since = None
            except NO_MASTER as error:
                self._reports.close()
                if self._away_since is None:
                    self._away_since = time.monotonic()
                    log.warning("no usable master (%s); going on towards the last deadlines", error)
                failures += 1
                stop.wait(BACK_OFF.wait_s(failures))

    def run_notices(self, stop: threading.Event, beat: Beat) -> None:
        """Wait for the master's change notices and make the other thread sync at once."""
        while not stop.is_set():
            beat()
            try:
                path = f"{self._base}/changes?seen={self.version}&wait={NOTICE_WAIT_S}"
                reply = msgspec.json.decode(self._call(self._notices, "GET", path), type=Changed)
                if reply.version != self.version:
                    self.version = reply.version
                    self.send_now.set()
            except NO_MASTER:
                self._notices.close()
                stop.wait(1.0)

    def _sync(self) -> None:
        with self._lock:
            sent = self._report
        assert sent is not None, "a report is posted before the threads begin"
        data = self._call(self._reports, "POST", f"{self._base}/sync", msgspec.json.encode(sent))
        reply = msgspec.json.decode(data, type=WorkerReply)
        self.orders.check(reply.desired)
        self.version = max(self.version, reply.desired.version)
        with self._lock:
            self._answers.append(AcceptedReply(reply, sent, time.monotonic()))
        news = reply.desired.version, reply.desired.leave, sent.leaves  # an order to leave does not wait for the next period
        if news != self._accepted:
            self._accepted = news
            self._wake()

    def _call(self, connection: HttpConnection, method: str, path: str, body: bytes | None = None) -> bytes:
        sent = self._headers
        answer = connection.ask(method, path, body, sent)
        if answer.status == DENIED and self._renewed(sent):
            answer = connection.ask(method, path, body, self._headers)
        version.check_header(answer.headers.get(version.HEADER), "the master", "this agent")
        if answer.status != 200:
            raise OSError(f"status {answer.status}: {answer.body[:200].decode(errors='replace')}")
        return answer.body

    def _renewed(self, sent: Mapping[str, str]) -> bool:
        """Read the token again; return True if it is another one than the refused call sent."""
        with suppress(PaceError):
            self._headers = {**sent, "Authorization": f"Bearer {self._token()}"}
            return self._headers != sent
        return False

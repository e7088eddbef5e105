"""Sends notifications, on a thread of its own: whoever puts one in never waits.

Every step has a time-out. Redirects are not followed, certificates are verified, an answer's body is not read. What is sent
when is decided by `deliveries`.
"""

from __future__ import annotations

import http.client
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from controller.notify.deliveries import BackOff, Deliveries, Delivery, ReceiverAnswer, answer_of
from controller.notify.receiver import Receiver
from controller.notify.signature import HEADER, signature
from controller.version import VERSION

log = logging.getLogger("sparkpace.notify")

SILENCE_S = 5.0
"""Longest wait for the receiver to accept a connection, or for its next byte,"""
TRY_S = 10.0
"""and for all that comes after the connection, however busily it sends."""
STOP_S = 3.0
"""What waits when the master stops is tried once more, for so long."""


class Sender:
    """`secret` signs. `clock` is monotonic seconds, `wall` those since the epoch. Begins at once; `close` ends it."""

    def __init__(
        self,
        receiver: Receiver,
        secret: str,
        clock: Callable[[], float],
        wall: Callable[[], float],
        back_off: BackOff | None = None,
        try_s: float = TRY_S,
    ) -> None:
        self.receiver, self._secret, self._clock, self._wall, self._try_s = receiver, secret, clock, wall, try_s
        self._deliveries = Deliveries(back_off or BackOff())
        self._news = threading.Condition()
        """Holds its lock only for as long as a list is looked at."""
        self._ends_s: float | None = None
        self._talking: socket.socket | None = None
        self._full = self._failing = False
        self._tls = ssl.create_default_context() if receiver.secure else None
        self._thread = threading.Thread(target=self._run, name="notify", daemon=True)
        self._thread.start()

    def put(self, notification_id: str, body: bytes) -> None:
        with self._news:
            kept = self._deliveries.put(notification_id, body, self._clock())
            waiting, told, self._full = self._deliveries.waiting, self._full, not kept
            self._news.notify()
        if not kept and not told:
            log.warning("%d notifications wait for %s already: further ones are dropped", waiting, self.receiver.shown)

    def drop(self) -> None:
        """Counts one that is not sent, as too many came."""
        with self._news:
            self._deliveries.drop()

    def counts(self) -> tuple[dict[str, int], int]:
        """What became of notifications, by `OUTCOMES_OF_SENDING`, and how many wait."""
        with self._news:
            return dict(self._deliveries.counts), self._deliveries.waiting

    def close(self) -> None:
        """Tries each once more, within `STOP_S`; then nothing is sent any more. Takes a little longer at most."""
        with self._news:
            self._ends_s = self._clock() + STOP_S
            self._deliveries.hurry(self._clock())
            self._news.notify()
        self._thread.join(STOP_S)
        with self._news:
            self._ends_s = self._clock()
            if self._talking is not None:
                _hang_up(self._talking)
            left = self._deliveries.waiting
        self._thread.join(
            1.0
        )  # it is over at once, but for a name server or a host that does not answer; nobody waits for it
        if left:
            log.warning("%d notifications were not sent to %s, as the master stops", left, self.receiver.shown)

    # ------------------------------------------------------------------ on the thread

    def _run(self) -> None:
        while (delivery := self._next()) is not None:
            answer, why = self._tried(delivery)
            with self._news:
                goes_on = self._deliveries.answered(delivery, answer, self._clock())
            failing, self._failing = self._failing, answer != "taken"
            if not goes_on:
                log.warning("notification %s was not taken by %s: %s", delivery.notification_id, self.receiver.shown, why)
            elif self._failing and not failing:
                log.warning("%s did not take a notification, which is tried again: %s", self.receiver.shown, why)

    def _next(self) -> Delivery | None:
        """Waits for the next one that is due; None when it is time to end."""
        with self._news:
            while True:
                now_s = self._clock()
                due = self._deliveries.next_due(now_s)
                if self._ends_s is not None and (due is None or now_s >= self._ends_s):
                    return None
                if due is not None:
                    return due
                self._news.wait(self._deliveries.wait_s(now_s))

    def _tried(self, delivery: Delivery) -> tuple[ReceiverAnswer, str]:
        """What became of it, and why."""
        try:
            status = self._post(delivery.body)
        except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: a name that no resolver takes
            return "again", str(error) or type(error).__name__
        return answer_of(status), f"it answered with status {status}"

    def _post(self, body: bytes) -> int:
        """The status of the answer. Raises `OSError` and `HTTPException`."""
        receiver = self.receiver
        headers = {
            "Host": receiver.place,
            "User-Agent": f"sparkpace/{VERSION}",
            "Content-Type": "application/json",
            "Connection": "close",
            HEADER: signature(self._secret, body, self._wall()),
        }
        with (
            closing(socket.create_connection((receiver.host, receiver.port), SILENCE_S)) as plain,
            closing(self._wrapped(plain)) as talking,
            self._limited(talking),
        ):
            if isinstance(talking, ssl.SSLSocket):
                talking.do_handshake()
            connection = http.client.HTTPConnection(receiver.host, receiver.port)
            connection.sock = talking
            connection.request("POST", receiver.path, body, headers)
            with connection.getresponse() as response:
                return response.status

    def _wrapped(self, plain: socket.socket) -> socket.socket:
        if self._tls is None:
            return plain
        return self._tls.wrap_socket(plain, server_hostname=self.receiver.host, do_handshake_on_connect=False)

    @contextmanager
    def _limited(self, talking: socket.socket) -> Iterator[None]:
        """Hangs up when it takes too long, or when the sender is closed."""
        timer = threading.Timer(self._try_s, _hang_up, (talking,))
        timer.daemon = True
        timer.start()
        with self._news:
            self._talking = talking
        try:
            yield
        finally:
            with self._news:
                self._talking = None
            timer.cancel()


def _hang_up(talking: socket.socket) -> None:
    """Whoever reads or writes is told that it is over. Of the socket below TLS: its state is the other thread's."""
    with suppress(OSError):
        socket.socket.shutdown(talking, socket.SHUT_RDWR)

"""A sender of notifications, on a thread of its own: callers that put one in never wait.

Redirects are not followed, certificates are verified, an answer's body is not read. A receiver that sends without end holds
up later notifications, and only these. `deliveries` decides the order and times.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable

from controller.asks.receiver import Receiver
from controller.machine.http import post_to
from controller.master.notify.deliveries import Deliveries, Delivery, ReceiverAnswer, answer_of
from controller.version import VERSION

log = logging.getLogger("sparkpace.notify")

SILENCE_S = 5.0
"""Longest wait for the receiver to accept a connection, and for its next byte."""
STOP_S = 3.0
"""Time for one more try of the notifications that wait when the master stops."""


class Sender:
    """A thread that sends notifications until `close`. `secret` is sent as a bearer token, if there is one. `clock` is
    monotonic seconds."""

    def __init__(
        self,
        receiver: Receiver,
        secret: str | None,
        clock: Callable[[], float],
        deliveries: Deliveries | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.receiver, self._clock, self._silence_s = receiver, clock, silence_s
        self._headers = {"User-Agent": f"sparkpace/{VERSION}", "Content-Type": "application/json"}
        if secret is not None:
            self._headers["Authorization"] = f"Bearer {secret}"
        self._trusted = ssl.create_default_context()
        self._deliveries = deliveries or Deliveries()
        self._news = threading.Condition()
        """Condition whose lock is held only for as long as a list is looked at."""
        self._ends_s: float | None = None
        self._full = self._failing = False
        self._thread = threading.Thread(target=self._run, name="notify", daemon=True)
        self._thread.start()

    def put(self, notification_id: str, body: bytes) -> None:
        with self._news:
            kept = self._deliveries.put(notification_id, body, self._clock())
            waiting, warned, self._full = self._deliveries.waiting, self._full, not kept
            self._news.notify()
        if not kept and not warned:
            log.warning("%d notifications wait for %s already: further ones are dropped", waiting, self.receiver.shown)

    def counts(self) -> tuple[dict[str, int], int]:
        """Return the counts of notifications by `OUTCOMES_OF_SENDING`, and the number that wait."""
        with self._news:
            return dict(self._deliveries.counts), self._deliveries.waiting

    def close(self) -> None:
        """Try each notification once more within `STOP_S`. The thread does not keep the process from ending."""
        with self._news:
            self._ends_s = self._clock() + STOP_S
            self._deliveries.hurry(self._clock())
            self._news.notify()
        self._thread.join(STOP_S)
        with self._news:
            self._ends_s = self._clock()
            left = self._deliveries.waiting
        if left:
            log.warning("%d notifications were not sent to %s, because the master stops", left, self.receiver.shown)

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
        """Wait for the next delivery that is due; return None when it is time to end."""
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
        """Try a delivery; return the answer, and the reason."""
        try:
            status = post_to(self.receiver.url, delivery.body, self._headers, self._silence_s, self._trusted)
        except (OSError, ValueError) as error:
            return "again", str(error) or type(error).__name__
        return answer_of(status), f"it answered with status {status}"

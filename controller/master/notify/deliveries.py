"""The order of notifications, the tries of a failed one, and the end of trying. Pure.

Times are monotonic seconds, given by the caller. Not covered: the network (`sender`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from controller.machine.back_off import BackOff

ReceiverAnswer = Literal["taken", "again", "refused"]
OUTCOMES_OF_SENDING = ("sent", "given_up", "dropped")
"""Taken by the receiver; refused by it, or not taken in all tries; never tried, because too many were waiting."""
MOST_WAITING = 200
"""Most notifications that wait, including those between two tries."""
LATER = frozenset({408, 425, 429})
"""Statuses below 500 by which a receiver asks for another try."""
BACK_OFF = BackOff(first_s=1.0, most_s=60.0)
TRIES = 8
"""Tries of a notification, in all."""


@dataclass(slots=True)
class Delivery:
    """A notification on its way, not to be tried before `due_s`."""

    notification_id: str
    body: bytes
    due_s: float
    failed: int = 0


class Deliveries:
    """Notifications on their way: each that was put in is sent, given up or dropped, and counted as that in `counts`."""

    def __init__(self, back_off: BackOff = BACK_OFF, tries: int = TRIES) -> None:
        self._back_off, self._tries = back_off, tries
        self._waiting: list[Delivery] = []
        self.counts: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def put(self, notification_id: str, body: bytes, now_s: float) -> bool:
        """Put a notification in; return False if it was dropped, because `MOST_WAITING` wait already."""
        if len(self._waiting) >= MOST_WAITING:
            self.counts["dropped"] += 1
            return False
        self._waiting.append(Delivery(notification_id, body, now_s))
        return True

    def next_due(self, now_s: float) -> Delivery | None:
        """Return the delivery that has been due for longest; it stays until `answered`. None: nothing is due now."""
        found = min(self._waiting, key=lambda one: one.due_s, default=None)
        return None if found is None or found.due_s > now_s else found

    def hurry(self, now_s: float) -> None:
        """Make all deliveries due now, for once."""
        for one in self._waiting:
            one.due_s = min(one.due_s, now_s)

    def wait_s(self, now_s: float) -> float | None:
        """Return the seconds until a delivery is due; None: nothing waits."""
        return max(0.0, min(one.due_s for one in self._waiting) - now_s) if self._waiting else None

    def answered(self, delivery: Delivery, answer: ReceiverAnswer, now_s: float) -> bool:
        """Take the outcome of a try; return False if the delivery is refused or given up now."""
        if answer == "again":
            delivery.failed += 1
            if delivery.failed < self._tries:
                delivery.due_s = now_s + self._back_off.wait_s(delivery.failed)
                return True
        self._waiting.remove(delivery)
        self.counts["sent" if answer == "taken" else "given_up"] += 1
        return answer == "taken"


def answer_of(status: int) -> ReceiverAnswer:
    """Return the meaning of a receiver's status. A redirect is a refusal: it is not followed."""
    if 200 <= status < 300:
        return "taken"
    return "again" if status >= 500 or status in LATER else "refused"

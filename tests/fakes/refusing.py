"""A planner that refuses every executor, as Nomad's `RejectPlan` refuses every plan."""

from __future__ import annotations

from placement.fleet import Fleet
from placement.plan import PlaceAnswer
from placement.request import Memory, Request


class RefusingPlanner:
    """A planner in the place of `placement.plan.place`. It gives, or raises, one `answer` and counts how often it was asked
    in `asked`."""

    def __init__(self, answer: PlaceAnswer | Exception) -> None:
        self.answer, self.asked = answer, 0

    def __call__(self, request: Request, fleet: Fleet, memory: Memory) -> PlaceAnswer:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

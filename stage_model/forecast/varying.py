"""Durations of tasks on slots that come and go. Pure.

Where executors came and went, the most cores at one time do not explain how long a stage took: the stage began on few, and
would have ended sooner on more. So its tasks are put on the slots that were there at each moment. Not covered: cores that a
quota shares among more tasks than cores (`virtual_time`).
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Sequence

from stage_model.forecast.virtual_time import queued


def lasting_s(
    stages: Sequence[tuple[int, float, float]], since_s: float, steps: Sequence[tuple[float, int]], speed: float
) -> float:
    """Return the seconds that stages (tasks, core-seconds, cv), begun at `since_s`, take side by side, the earlier stage's
    tasks first.

    `steps` are (second, slots from then on), in order; the first holds before it, too. A task uses `speed` cores, more than
    0. Seconds without any slot are left out, because more cores would not have shortened them. If there is no slot any more,
    it is the time until then.
    """
    steady_core_s, works = queued(stages, max(slots for _, slots in steps))
    changes = [*(second for second, _ in steps[1:]), math.inf]
    at, clock, idle_s = bisect_right(changes, since_s), since_s, 0.0
    while steady_core_s > 0:
        rate = steps[at][1] * speed
        left_s = changes[at] - clock
        if rate * left_s >= steady_core_s:  # false where it is not a number: no slot for ever
            clock += steady_core_s / rate
            break
        if math.isinf(left_s):
            return clock - since_s - idle_s
        idle_s += 0.0 if rate else left_s
        steady_core_s -= rate * left_s
        clock, at = changes[at], at + 1
    ends: list[float] = []
    for work in works:
        while True:
            while changes[at] <= clock:
                at += 1
            while ends and ends[0] <= clock:
                heapq.heappop(ends)
            if len(ends) < steps[at][1]:
                break
            following = min(changes[at], ends[0] if ends else math.inf)
            if math.isinf(following):
                return clock - since_s - idle_s
            idle_s += 0.0 if ends else following - clock
            clock = following
        heapq.heappush(ends, clock + work / speed)
    return max(ends, default=clock) - since_s - idle_s

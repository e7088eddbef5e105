"""A stand-in for an executor's JVM, because the machine has no room for a hundred: it writes the progress file as the plugin
does.

The program runs inside a container under the name `java`, with the image's Python and nothing of the project. Tasks, four at
a time, end at a pace that wanders; stages follow each other by the clock in the file `begun` (its text: when the first stage
began, and the length of all). The program answers orders about off-heap memory at once.
"""

import json
import os
import random
import sys
import time
from pathlib import Path

TASKS, SLOTS, RECORDS = 40, 4, 1000
"""Tasks of a stage, tasks at a time, records of each task."""


def main() -> None:
    words = sys.argv
    number = words[words.index("--executor-id") + 1]
    application = words[words.index("--app-id") + 1]
    control = Path(os.environ["SPARKPACE_CONTROL_DIR"])
    ordered, begun_at = Path(os.environ["SPARKPACE_ORDERS_DIR"], "memory.json"), Path(os.environ["BEGUN"])
    rng = random.Random(application)
    sequence, stage, done, pace, clock, was = 0, 0, 0.0, 1.0, None, time.time()
    while True:
        now = time.time()
        sequence += 1
        found = {"schema": 1, "executor": number, "sequence": sequence, "stages": []}
        clock = clock or read(begun_at)
        if clock:
            begun, length, offset = clock["begun"], clock["stage_s"], offset_s(application, clock["stage_s"])
            here = max(0, int((now - begun + offset) / length))
            if here != stage:
                stage, done = here, 0.0
            pace = min(1.6, max(0.4, pace + rng.gauss(0, 0.05)))
            done = min(TASKS - SLOTS, done + pace * TASKS * (now - was) / length)
            found["stages"] = [
                {
                    "stage": stage,
                    "attempt": 0,
                    "running": SLOTS,
                    "done": int(done),
                    "records_done": RECORDS * int(done),
                    "records_running": int(SLOTS * RECORDS * (done - int(done))),
                }
            ]
        was = now
        order = read(ordered)
        if order:
            found["memory"] = {"order": order["number"], "budget": order["off_heap_bytes"]}
        (control / "progress.new").write_text(json.dumps(found))
        (control / "progress.new").replace(control / "progress.json")
        time.sleep(0.2)


def offset_s(application: str, stage_s: float) -> float:
    """Return the seconds by which the application's stages are ahead of others': the same for every caller."""
    return random.Random(application).random() * stage_s


def read(path: Path) -> dict[str, float] | None:
    """Return the file's JSON; None: not there, or not whole."""
    try:
        found: dict[str, float] = json.loads(path.read_text())
        return found
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    main()

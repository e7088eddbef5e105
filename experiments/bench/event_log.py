"""The time that `sparkpace plan EVENTLOG --curve` takes: a real event log, repeated with new ids until it is large enough, is
planned from in a process of its own.

    python -m experiments.bench.event_log LOG --out DIR [--mb 100] [--times 3]

LOG is the log of any application that has ended (`spark.eventLog.enabled=true`): its jobs follow each other again and again,
so the large log has as many lines of each kind, as long ones, as the real one. The program prints a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from controller.runs.eventlog_files import event_log_lines
from controller.start import ours

IDS = {
    "Job ID": "jobs",
    "Stage ID": "stages",
    "Parent IDs": "stages",
    "Stage IDs": "stages",
    "Task ID": "tasks",
    "RDD ID": "rdds",
}
"""Fields of Spark's that number things, and the kinds of these things. `Parent IDs` of an RDD are RDDs."""
TIMES = {"Submission Time", "Completion Time", "Launch Time", "Finish Time", "Timestamp"}
ONCE = {
    f"SparkListener{kind}"
    for kind in (
        *("LogStart", "ResourceProfileAdded", "BlockManagerAdded", "EnvironmentUpdate"),
        *("ApplicationStart", "ExecutorAdded", "ApplicationEnd"),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a plan from a large event log takes.")
    parser.add_argument("log", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--mb", type=float, default=100.0)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    large = given.out / "large.log"
    with large.open("wb") as file:
        lines = sum(bool(file.write(line)) for line in repeated(list(event_log_lines(given.log)), round(given.mb * 1e6)))
    took_s = []
    for _ in range(given.times):
        begun_s = time.monotonic()
        subprocess.run(
            ours("controller.cli.main", "plan", str(large), "--curve", "--output", "json"),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        took_s.append(round(time.monotonic() - begun_s, 2))
    most_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"mb": large.stat().st_size / 1e6, "lines": lines, "took_s": took_s, "peak_mib": round(most_mb)}))


def repeated(lines: Sequence[bytes], size: int) -> Iterator[bytes]:
    """Yield the lines of a log of at least `size` bytes: events that happen once as they are, all else with ids and times
    that go on."""
    events = [json.loads(line) for line in lines]
    first = [event for event in events if event["Event"] in ONCE and event["Event"] != "SparkListenerApplicationEnd"]
    [end] = [event for event in events if event["Event"] == "SparkListenerApplicationEnd"]
    again = [event for event in events if event["Event"] not in ONCE]
    lasted_ms = end["Timestamp"] - next(e["Timestamp"] for e in first if e["Event"] == "SparkListenerApplicationStart")
    steps = _highest(again)
    yield from map(_line, first)
    written, turn = 0, 0
    while written < size:
        for event in again:
            line = _line(_later(event, turn, steps, lasted_ms))
            written += len(line)
            yield line
        turn += 1
    yield _line({**end, "Timestamp": end["Timestamp"] + (turn - 1) * lasted_ms})


def _line(event: Any) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _highest(events: Sequence[Any]) -> dict[str, int]:
    """Return, for each kind of number, one more than the highest there is."""
    found = dict.fromkeys(IDS.values(), 0)

    def look(value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                look(one)
        elif isinstance(value, dict):
            for name, inner in value.items():
                if name in IDS and isinstance(inner, int):
                    found[IDS[name]] = max(found[IDS[name]], inner + 1)
                look(inner)

    look(events)
    return found


def _later(value: Any, turn: int, steps: dict[str, int], lasted_ms: int) -> Any:
    if isinstance(value, list):
        return [_later(one, turn, steps, lasted_ms) for one in value]
    if not isinstance(value, dict):
        return value
    later: dict[str, Any] = {}
    for name, inner in value.items():
        kind = "rdds" if name == "Parent IDs" and "RDD ID" in value else IDS.get(name)
        if kind is not None and isinstance(inner, int):
            later[name] = inner + turn * steps[kind]
        elif kind is not None and isinstance(inner, list):
            later[name] = [one + turn * steps[kind] for one in inner]
        elif name in TIMES and isinstance(inner, int):
            later[name] = inner + turn * lasted_ms
        else:
            later[name] = _later(inner, turn, steps, lasted_ms)
    return later


if __name__ == "__main__":
    main()

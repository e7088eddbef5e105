"""Bytes per second that a deadline asks of a busy disk: a scan of cold lines next to a reader of low priority.

The scan runs once by itself, which teaches its profile. Then the reader takes all that the disk gives, and the scan comes
with a high priority. The agent's log has the reader's rate; the rest of the limit is what the scan asks for. Each row has
that next to the bytes of the scan's lines that are left by its progress / the time left to its deadline. They differ by the
bytes of the tasks that run, because a task counts until it ends, and by three hundredths of the limit, in which rates are
rounded and rewritten. Executors are Docker containers, so root is needed.

    python -m experiments.bench.asked_rates --out out/asked-rates [--disk-mb 10] [--lines-mb 200] [--deadline 80]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from datetime import datetime
from pathlib import Path

from controller.client import admin_client
from controller.wire.command import ApplicationView
from experiments.bench.waits import drop_from_cache
from experiments.harness.live_cluster import end_processes
from experiments.harness.local_cluster import LocalCluster

WORKLOAD = Path(__file__).parents[1] / "workloads" / "cold.py"
RATE = re.compile(r"^(\S+ \S+),\d+ INFO disk rates of \S+: read ([\d.]+), write ([\d.]+) MB/s", re.MULTILINE)
MEGA = 1e6
LINE_BYTES, COLD_BYTES = 600, 32 << 20
HEAD_START_S, LOOK_S, END_S = 15.0, 0.5, 120.0
"""Time until the reader certainly reads, between looks at the scan, and in which the reader ends."""


def write_inputs(folder: Path, lines_mb: float) -> int:
    """Return the bytes of the lines."""
    (folder / "lines").mkdir(parents=True, exist_ok=True)
    for number in range(4):
        lines = (os.urandom(LINE_BYTES // 2).hex().encode() for _ in range(round(lines_mb * MEGA / 4 / (LINE_BYTES + 1))))
        (folder / "lines" / f"{number}.txt").write_bytes(b"\n".join(lines))
    (folder / "file").write_bytes(os.urandom(COLD_BYTES))
    return sum(file.stat().st_size for file in (folder / "lines").iterdir())


def watch(cluster: LocalCluster, words: list[str]) -> list[tuple[float, ApplicationView]]:
    """Run the scan; return what the master said of it, with the time of day in seconds since the epoch."""
    client, seen = admin_client(cluster.home), []
    process = cluster.sparkpace.start(cluster.sparkpace.command(words), cluster.logs / "paced.log")
    try:
        while process.poll() is None:
            now_s = time.time()
            seen += [(now_s, view) for view in client.applications() if view.name == "scan" and not view.finished]
            time.sleep(LOOK_S)
    finally:
        end_processes([process])
    if process.returncode != 0:
        raise SystemExit(f"the scan ended with code {process.returncode}; see {cluster.logs / 'paced.log'}")
    return seen


def asked_rows(log: str, seen: list[tuple[float, ApplicationView]], size: int, limit_mb: float) -> list[dict[str, float]]:
    found = []
    for when, read, written in RATE.findall(log):
        at_s = datetime.fromisoformat(when).timestamp()
        _, view = min(seen, key=lambda one: abs(one[0] - at_s))
        if view.deadline_s is not None and not view.stages_done:
            left_s, left_mb = view.deadline_s - view.elapsed_s, size / MEGA * (1 - (view.progress or 0.0))
            asked = limit_mb - float(read) - float(written)
            row = {"elapsed_s": view.elapsed_s, "left_s": left_s, "left_mb": left_mb, "by_deadline": left_mb / left_s}
            found.append({name: round(value, 2) for name, value in {**row, "asked_mb": asked}.items()})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What a deadline asks of a busy disk.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--disk-mb", type=float, default=10.0)
    parser.add_argument("--lines-mb", type=float, default=200.0)
    parser.add_argument("--deadline", type=float, default=80.0, help="seconds")
    given = parser.parse_args()
    cluster = LocalCluster(given.out.resolve())
    data = cluster.folder / "data"
    size, flag = write_inputs(data, given.lines_mb), data / "flag"
    mounted = ("submit", "--mount", str(data))
    scan = (str(WORKLOAD), str(data / "lines"))
    reader = (*mounted, "--name", "reader", "--priority", "low", str(WORKLOAD), str(data / "file"), "--while", str(flag))
    up = ("--workers", "1", "--runtime", "docker", "--allow-mount", str(data), "--disk-mb", f"{given.disk_mb:g}")
    with cluster.running(up):
        drop_from_cache(data)
        taught = cluster.sparkpace.run([*mounted, "--name", "scan", *scan], log=cluster.logs / "taught.log")
        if taught.code != 0:
            raise SystemExit(f"the scan ended with code {taught.code}; see {cluster.logs / 'taught.log'}")
        drop_from_cache(data)
        flag.touch()
        low = cluster.sparkpace.start(cluster.sparkpace.command(reader), cluster.logs / "reader.log")
        try:
            time.sleep(HEAD_START_S)
            asking = ("--priority", "high", "--deadline", f"{given.deadline:g}s", "--force")
            seen = watch(cluster, [*mounted, "--name", "scan", *asking, *scan])
        finally:
            flag.unlink()
            low.wait(END_S)
        log = (cluster.home.logs / "agent-w1.log").read_text(errors="replace")
    found = asked_rows(log, seen, size, given.disk_mb)
    (cluster.folder / "asked-rates.json").write_text(json.dumps(found, indent=1) + "\n")
    for row in found:
        print(", ".join(f"{name} {value:g}" for name, value in row.items()))


if __name__ == "__main__":
    main()

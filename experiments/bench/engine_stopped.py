"""The effects of an engine that stops answering on a job with a deadline: its quotas over time, and its end.

A learning run, then the same job with a deadline; amid it the engine's process is stopped (SIGSTOP) for the given seconds and
goes on. Quotas are read each second from the containers' control groups, which needs no engine. The engine serves no
other program meanwhile, so use an engine of your own (`make engine`).

    python -m experiments.bench.engine_stopped --out out/engine-stopped --engine-pid PID
        [--seconds 600] [--rounds 60] [--slack 2.6]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import docker

from controller.home import Home
from controller.runtime.cgroup.group import Group
from controller.runtime.cgroup.tree import CgroupTree
from experiments.bench.agent_overhead import APP
from experiments.harness.live_cluster import Sparkpace

OPTIONS = ("--driver-memory", "512m", "--conf", "spark.memory.offHeap.enabled=false", "--name", "stopped")
BEFORE_S = 45.0
"""Seconds from the first quota to the stop."""


def groups_of(cluster_id: str) -> dict[str, Group]:
    """Return the control groups of a cluster's containers by name."""
    client = docker.from_env(timeout=30)
    try:
        found = client.containers.list(filters={"label": f"sparkpace.cluster={cluster_id}"})
        groups = {str(one.name): CgroupTree().group_of(one.attrs["State"]["Pid"], str(one.id)) for one in found}
        return {name: group for name, group in groups.items() if group is not None}
    finally:
        client.close()


@contextmanager
def stopped_process(pid: int) -> Iterator[None]:
    """Stop a process until the end of the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Watch:
    """Rows of (seconds since the start, container, cores) whenever a quota has changed; the watch runs until the groups are
    gone."""

    def __init__(self, groups: dict[str, Group]) -> None:
        self.begun_s, self.rows = time.monotonic(), list[tuple[float, str, float]]()
        self._groups, self._thread = groups, threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def now_s(self) -> float:
        return round(time.monotonic() - self.begun_s, 1)

    def _run(self) -> None:
        tree, last = CgroupTree(), dict[str, float]()
        while True:
            seen = {name: tree.read_quota(group) for name, group in self._groups.items()}
            if all(cores is None for cores in seen.values()):
                return
            for name, cores in seen.items():
                if cores is not None and cores != last.get(name):
                    last[name] = cores
                    self.rows.append((self.now_s(), name, cores))
            time.sleep(1.0)


def measure_jobs(out: Path, engine_pid: int, seconds: float, rounds: int, slack: float) -> dict[str, object]:
    """Run both jobs and stop the engine amid the second."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "endless.py").write_text(APP)
    sparkpace = Sparkpace(Home(out / "home"), out)
    with sparkpace.running("--runtime", "docker"):
        sparkpace.need("submit", *OPTIONS, "endless.py", str(rounds))
        alone_s = json.loads(sparkpace.need("report", "stopped", "--output", "json"))["end_s"]
        cluster_id = sparkpace.home.need_cluster().cluster_id
        log = sparkpace.home.logs / "agent-w1.log"
        children = log.read_text().count("the agent's child")
        sparkpace.need("submit", "--detach", "--deadline", f"{slack * alone_s:.1f}s", *OPTIONS, "endless.py", str(rounds))
        while len(groups := groups_of(cluster_id)) < 2:
            time.sleep(1.0)
        watch = Watch(groups)
        time.sleep(BEFORE_S)
        from_s = watch.now_s()
        with stopped_process(engine_pid):
            time.sleep(seconds)
        to_s = watch.now_s()
        while json.loads(sparkpace.need("ps", "--output", "json"))[-1]["finished"] is not True:
            time.sleep(1.0)
        report = json.loads(sparkpace.need("report", "stopped", "--output", "json"))
        meanwhile = [row for row in watch.rows if from_s < row[0] <= to_s]
        return {
            "alone_s": alone_s,
            "deadline_s": report["deadline_s"],
            "end_s": report["end_s"],
            "error_pct": report["error_pct"],
            "tasks_failed": report["tasks_failed"],
            "executors_lost": report["executors_lost"],
            "engine_stopped_s": [from_s, to_s],
            "quota_changes_meanwhile": len(meanwhile),
            "longest_without_a_change_s": _longest_gap(
                [from_s, *(row[0] for row in meanwhile), min(to_s, watch.rows[-1][0])]
            ),
            "children_restarted": log.read_text().count("the agent's child") - children,
            "quotas": watch.rows,
        }


def _longest_gap(moments: list[float]) -> float:
    return round(max((b - a for a, b in pairwise(moments)), default=0.0), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="A job with a deadline while the engine does not answer.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engine-pid", type=int, required=True, help="dockerd's process id")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rounds", type=int, default=60, help="of about 8 core-seconds each")
    parser.add_argument("--slack", type=float, default=2.6, help="deadline over the learning run's time")
    given = parser.parse_args()
    result = measure_jobs(given.out.resolve(), given.engine_pid, given.seconds, given.rounds, given.slack)
    (given.out / "engine-stopped.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != "quotas"}))


if __name__ == "__main__":
    main()

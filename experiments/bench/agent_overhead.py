"""The cost of one agent: CPU (share of a core) and memory of supervisor and child with several executors under control.

With --paced a learning run comes first and the applications then have deadlines, so that quotas are written all the time.

    python -m experiments.bench.agent_overhead --out out/overhead [--executors 4] [--seconds 60] [--paced]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import psutil

from controller.home import Home
from experiments.harness.live_cluster import Sparkpace

APP = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
def work(x):
    for i in range(200_000):
        x = (x * 31 + i) % 1_000_003
    return x
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else -1
while rounds:
    rounds -= 1
    spark.sparkContext.parallelize(range(400), 40).map(work).sum()
"""


PACED = ("--deadline", "10min", "--force", "--profile", "paced")
OPTIONS = ("--driver-memory", "512m", "--conf", "spark.memory.offHeap.enabled=false")
"""Options by which all run at once, however little memory there is: elastic off-heap memory would make some of them wait."""
ROUNDS = "12"
"""Rounds of a paced application: about 100 core-seconds, so that each asks for a sixth of a core or more."""


def measure_agent(out: Path, executors: int, seconds: float, period: str, paced: bool) -> dict[str, float]:
    """Start one worker and `executors` applications on it, then watch the agent."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "endless.py").write_text(APP)
    sparkpace = Sparkpace(Home(out / "home"), out)
    with sparkpace.running("--workers", "1", "--runtime", "docker", "--period", period):
        if paced:
            sparkpace.need("submit", *OPTIONS, "--profile", "paced", "endless.py", ROUNDS)
        options, words = (PACED, ("endless.py", ROUNDS)) if paced else ((), ("endless.py",))
        for number in range(executors):
            sparkpace.need("submit", "--detach", "--name", f"endless-{number}", *OPTIONS, *options, *words)
        while sum(v["executors"] for v in json.loads(sparkpace.need("ps", "--output", "json"))) < executors:
            time.sleep(1)
        time.sleep(20)
        supervisor = psutil.Process(sparkpace.home.need_cluster().agents[0].process.pid)
        processes = [supervisor, *supervisor.children()]
        log = sparkpace.home.logs / "agent-w1.log"
        writes = log.read_text().count(" quota ")
        before, start_s = sum(sum(p.cpu_times()[:2]) for p in processes), time.monotonic()
        time.sleep(seconds)
        used = sum(sum(p.cpu_times()[:2]) for p in processes) - before
        span_s = time.monotonic() - start_s
        return {
            "executors": executors,
            "seconds": round(span_s, 1),
            "quota_writes": log.read_text().count(" quota ") - writes,
            "cpu_share_of_a_core": round(used / span_s, 5),
            "rss_mb": round(sum(p.memory_info().rss for p in processes) / 1e6, 1),
            "pss_mb": round(sum(p.memory_full_info().pss for p in processes) / 1e6, 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU and memory of one agent.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--executors", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--period", default="1s")
    parser.add_argument("--paced", action="store_true", help="applications with deadlines")
    given = parser.parse_args()
    result = measure_agent(given.out.resolve(), given.executors, given.seconds, given.period, given.paced)
    (given.out / "overhead.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

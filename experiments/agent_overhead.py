"""What one agent costs: CPU (share of a core) and memory of supervisor and child with several executors under control.

python -m experiments.agent_overhead --out out/overhead [--executors 4] [--seconds 60]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

APP = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
def work(x):
    for i in range(200_000):
        x = (x * 31 + i) % 1_000_003
    return x
while True:
    spark.sparkContext.parallelize(range(400), 40).map(work).sum()
"""


def measure(out: Path, executors: int, seconds: float, period: str) -> dict[str, float]:
    """Starts one worker and so many endless applications on it, then watches the agent."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "endless.py").write_text(APP)
    environment = {**os.environ, "SPARKPACE_HOME": str(out / "home")}

    def sparkpace(*words: str) -> str:
        command = [sys.executable, "-m", "controller.cli.main", *words]
        return subprocess.run(command, env=environment, cwd=out, check=True, text=True, stdout=subprocess.PIPE).stdout

    sparkpace("up", "--workers", "1", "--runtime", "docker", "--port", "0", "--period", period)
    try:
        for number in range(executors):
            # all at once, however little memory there is: elastic off-heap memory would make some of them wait
            fixed = ("--conf", "spark.memory.offHeap.enabled=false")
            sparkpace("submit", "--detach", "--name", f"endless-{number}", "--driver-memory", "512m", *fixed, "endless.py")
        while sum(v["executors"] for v in json.loads(sparkpace("ps", "--json"))) < executors:
            time.sleep(1)
        time.sleep(20)
        cluster = json.loads((out / "home" / "cluster.json").read_text())
        supervisor = psutil.Process(cluster["agents"][0]["process"]["pid"])
        processes = [supervisor, *supervisor.children()]
        before, start_s = sum(sum(p.cpu_times()[:2]) for p in processes), time.monotonic()
        time.sleep(seconds)
        used = sum(sum(p.cpu_times()[:2]) for p in processes) - before
        span_s = time.monotonic() - start_s
        return {
            "executors": executors,
            "seconds": round(span_s, 1),
            "cpu_share_of_a_core": round(used / span_s, 5),
            "rss_mb": round(sum(p.memory_info().rss for p in processes) / 1e6, 1),
            "pss_mb": round(sum(p.memory_full_info().pss for p in processes) / 1e6, 1),
        }
    finally:
        sparkpace("down")


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU and memory of one agent.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--executors", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--period", default="1s")
    given = parser.parse_args()
    result = measure(given.out.resolve(), given.executors, given.seconds, given.period)
    (given.out / "overhead.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

"""Shuffles with executors in a network of their application's own, and on the host's network, in turn.

Each pair is one job on each of two clusters that are up one after the other: MIB of rows that hardly compress are shuffled
between two executors and counted. The output has the job's time from its first task to its last, and the CPU that the whole
machine used meanwhile (bridges work in the kernel, outside of all containers).

    python -m experiments.bench.network --out out/network [--pairs 5] [--mib 1536]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import psutil

from controller.home import Home
from experiments.harness.live_cluster import Sparkpace

APP = """
import json, sys, time
import psutil
from pyspark.sql import SparkSession, functions as F

mib = int(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
spark.range(1000, numPartitions=8).repartition(8).count()  # executors are up and warm

def busy():
    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait - getattr(times, "guest", 0) - getattr(times, "guest_nice", 0)

text = F.concat(*[F.sha2(F.concat("id", F.lit(part)), 256) for part in "ab"])  # 128 characters
rows = spark.range(0, mib * 8192, numPartitions=8).select(text.alias("v"))
began, before = time.monotonic(), busy()
found = rows.repartition(8).agg(F.count("v"), F.sum(F.length("v"))).first()
print(json.dumps({"seconds": time.monotonic() - began, "cpu_s": busy() - before, "rows": found[0], "bytes": found[1]}))
spark.stop()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Shuffles on networks of applications and on the host's, in turn.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--mib", type=int, default=1536)
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (out / "shuffle_app.py").write_text(APP)
    results: dict[str, list[dict[str, Any]]] = {"open": [], "host": []}
    for pair in range(given.pairs):
        for network in ("open", "host") if pair % 2 == 0 else ("host", "open"):
            sparkpace = Sparkpace(Home(out / f"home-{network}"), out, variables={"PYSPARK_PYTHON": sys.executable})
            with sparkpace.running("--workers", "2", "--runtime", "docker", "--network", network):
                words = (
                    "submit",
                    "--num-executors",
                    "2",
                    "--conf",
                    "spark.shuffle.compress=false",
                    "--executor-memory",
                    "2g",
                )
                answer = sparkpace.need(*words, "shuffle_app.py", str(given.mib)).splitlines()
            found = json.loads(next(line for line in answer if line.startswith("{")))
            if found["bytes"] != given.mib << 20:
                raise SystemExit(f"a wrong answer: {found}")
            results[network].append(found)
            print(pair, network, found, f"load {psutil.getloadavg()[0]:.1f}", flush=True)
    summary = {
        network: {
            "mib_per_s": round(given.mib / statistics.median(one["seconds"] for one in runs), 1),
            "cpu_s_per_gib": round(1024 / given.mib * statistics.median(one["cpu_s"] for one in runs), 2),
            "runs": runs,
        }
        for network, runs in results.items()
    }
    (out / "network.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(json.dumps({network: {**one, "runs": len(one["runs"])} for network, one in summary.items()}, indent=2))


if __name__ == "__main__":
    main()

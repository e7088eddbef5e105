"""Executors at the floor, under default settings and in stock mode: no executor is lost, no task fails, and the answers are
right.

Two applications run for some minutes with the least quota there is, one through `sparkpace submit`, one through stock
`spark-submit` without any of our driver-side settings.

    python -m experiments.bench.floor --out out/floor [--minutes 10]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark

from controller.home import Home
from experiments.harness.live_cluster import Sparkpace, end_processes

APP = """
import sys
import time
from pyspark.sql import SparkSession

def work(x):
    for i in range(50_000):
        x = (x * 31 + i) % 1_000_003
    return x

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    expected = sum(work(x) for x in range(40))
    until, rounds = time.monotonic() + float(sys.argv[1]), 0
    while time.monotonic() < until:
        rounds += 1
        if spark.sparkContext.parallelize(range(40), 40).map(work).sum() != expected:
            sys.exit("wrong answer")
    print("ROUNDS", rounds)
    spark.stop()
"""
AT_THE_FLOOR = ("--conf", "spark.pace.law=constant", "--conf", "spark.pace.law.constant.cores=0.001")


def main() -> None:
    parser = argparse.ArgumentParser(description="Executors at the floor for minutes, default settings and stock mode.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10.0)
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (out / "floor_app.py").write_text(APP)
    variables = {"PYSPARK_PYTHON": sys.executable}
    sparkpace = Sparkpace(Home(out / "home"), out, variables=variables)
    results: dict[str, Any] = {}
    jobs: dict[str, subprocess.Popen[bytes]] = {}
    with sparkpace.running("--workers", "2", "--runtime", "docker"):
        deadline = f"{given.minutes * 60 * 3:.0f}s"
        app = ("floor_app.py", str(given.minutes * 60))
        spark_submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
        settings = str(out / "stock.conf")
        sparkpace.need("conf", "-o", settings)
        commands = {
            "default": sparkpace.command(("submit", "--name", "default", "--deadline", deadline, *AT_THE_FLOOR, *app)),
            "stock": [
                *(spark_submit, "--properties-file", settings, "--name", "stock"),
                *("--conf", f"spark.pace.deadline={deadline}", *AT_THE_FLOOR, *app),
            ],
        }
        try:
            for name, command in commands.items():
                jobs[name] = sparkpace.start(command, out / f"{name}.log")
            codes = {name: job.wait() for name, job in jobs.items()}
        finally:
            end_processes(list(jobs.values()))
        for name, code in codes.items():
            summary = json.loads(sparkpace.need("report", name, "--output", "json"))
            wanted = ("end_s", "tasks", "tasks_failed", "executors", "executors_lost", "allocated_core_s", "used_core_s")
            results[name] = {"exit_code": code, **{key: summary[key] for key in wanted}}
    (out / "floor.json").write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

"""A small PySpark job of several stages: WORK units of pure CPU per task, then a shuffle, then a check of its answer."""

import argparse
import json
import time
from pathlib import Path

from pyspark import SparkContext


def burn(units: int) -> int:
    total = 0
    for i in range(units * 20_000):
        total = (total * 31 + i) % 1_000_003
    return total


def wait_for(file: Path | None) -> None:
    while file is not None and not file.exists():
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--begin", type=Path, help="before the first round, wait until this file appears")
    parser.add_argument("--hold", type=Path, help="before the last round, wait until this file appears")
    arguments = parser.parse_args()
    sc = SparkContext.getOrCreate()
    total = 0
    wait_for(arguments.begin)
    for number in range(arguments.rounds):
        if number == arguments.rounds - 1:
            wait_for(arguments.hold)
        rows = sc.parallelize(range(arguments.tasks * 50), arguments.tasks)
        work = arguments.work
        pairs = rows.map(lambda x, work=work: (x % 7, (burn(work if x % 50 == 0 else 0), 1)))
        counts = pairs.reduceByKey(lambda a, b: (a[0] + b[0], a[1] + b[1]), 4).collect()
        total += sum(value[1] for _, value in counts)
    expected = arguments.rounds * arguments.tasks * 50
    print(json.dumps({"answer": total, "ok": total == expected}))
    sc.stop()
    if total != expected:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

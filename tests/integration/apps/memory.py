"""Real use of off-heap memory: ROWS rows of a kilobyte cached off the heap, then large sorts until STOP appears; all checked.

Sorts begin when GO exists. A line "cached" or "sorted N" goes to LOG whenever that was done and right.
"""

import argparse
import json
import time
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

PAUSE_S = 5.0
"""Time between two looks at all rows: looks at a gigabyte would take the cores from the jobs that are to start."""


def wait(*files: Path) -> None:
    """Wait for the pause, or until one of the files is there."""
    until = time.monotonic() + PAUSE_S
    while time.monotonic() < until and not any(file.exists() for file in files):
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--go", type=Path, required=True)
    parser.add_argument("--stop", type=Path, required=True)
    arguments = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    rows = arguments.rows

    def say(line: str) -> None:
        with arguments.log.open("a") as log:
            log.write(line + "\n")

    def table():
        # 7919 is prime and divides no round number, so k is a permutation of the ids; blocks are not compressed
        rows_of_digests = spark.range(0, rows, 1, 40).select("id", f.sha2(f.col("id").cast("string"), 512).alias("d"))
        return rows_of_digests.select((f.col("id") * 7919 % rows).alias("k"), f.repeat("d", 8).alias("s"))

    def right(count: int, total: int) -> bool:
        return (count, total) == (rows, rows * (rows - 1) // 2)

    cached = table().persist(StorageLevel.OFF_HEAP)
    sums = [f.count("*").alias("c"), f.sum("k").alias("t"), f.sum(f.length("s")).alias("l")]

    def check() -> bool:
        row = cached.select(*sums).first()
        return right(row["c"], row["t"]) and row["l"] == 1024 * rows

    ok = check()
    say("cached")
    sorts = 0
    while ok and not arguments.stop.exists():
        if not arguments.go.exists():
            ok = check()
            wait(arguments.go, arguments.stop)
            continue
        # one task sorts all columns of all rows; the last ones are known
        last = [row["k"] for row in table().repartition(1).sortWithinPartitions("k").tail(3)]
        ok = last == [rows - 3, rows - 2, rows - 1] and check()
        sorts += 1
        say(f"sorted {sorts}")
    print(json.dumps({"ok": ok and check(), "sorts": sorts}))
    spark.stop()
    if not ok:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

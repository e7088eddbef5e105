"""A Spark job whose work is done by JVMs: rounds of numbers that are hashed, and added up by group in a shuffle.

hashes.py ROUNDS THOUSANDS GROUPS HOLD: each round has that many thousands of numbers; round N, counted from 0, waits as long
as the file HOLD.N is there. The output is each round's answer as a line of JSON: the groups with their counts and sums.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession, functions

TASKS = 8


def main(rounds: int, thousands: int, groups: int, hold: str) -> None:
    spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
    for number in range(rounds):
        while Path(f"{hold}.{number}").exists():
            time.sleep(0.1)
        first = number * thousands * 1000
        numbers = spark.range(first, first + thousands * 1000, 1, TASKS)
        hashed = numbers.selectExpr(f"id % {groups} AS part", "crc32(sha1(cast(id AS string))) AS hash")
        rows = hashed.groupBy("part").agg(functions.count("*"), functions.sum("hash")).collect()
        sys.stdout.write(json.dumps(sorted(list(row) for row in rows)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])

"""Two tables of wide rows, both shuffled and sorted by key and joined; JVM only; checked exactly.

Row i of either table has key (FACTOR * i) mod rows, with another factor in each, so the orders of the two differ; its payload
is the key in hexadecimal, `WIDTH` times. FACTORS have nothing in common with `rows`, so every key is there once, and the
length of all payloads together follows from the number of keys with each number of digits.
"""

from __future__ import annotations

import argparse
import json
import sys

FACTORS = (7919, 104_729)
"""Factors of the two tables' keys; primes."""
WIDTH = 8


def hex_digits(keys: int) -> int:
    """Return the hexadecimal digits of all numbers below `keys`."""
    total, digits, low = 0, 1, 0
    while low < keys:
        high = min(keys, 16**digits)
        total += digits * (high - low)
        digits, low = digits + 1, high
    return total


def expected(rows: int) -> tuple[int, int, int]:
    """Return the number of rows joined, the sum of their keys, the length of their payloads."""
    return rows, rows * (rows - 1) // 2, 2 * WIDTH * hex_digits(rows)


def main() -> int | str:
    parser = argparse.ArgumentParser(description="A join of two wide tables that checks its answer.")
    parser.add_argument("--millions", type=float, default=4.0, help="millions of rows of a table: the size of the job")
    parser.add_argument("--partitions", type=int, default=16)
    options = parser.parse_args()
    rows = max(2, round(options.millions * 1_000_000))
    while any(rows % factor == 0 for factor in FACTORS):
        rows += 1

    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col, count, hex, length, repeat  # noqa: A004 - Spark's name
    from pyspark.sql.functions import sum as sum_of

    spark = (
        SparkSession.builder.appName("big-shuffle")
        .config("spark.sql.shuffle.partitions", str(options.partitions))
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        .getOrCreate()
    )
    one, other = (
        spark.range(0, rows, 1, options.partitions)
        .select((col("id") * factor % rows).alias("key"))
        .withColumn(name, repeat(hex("key"), WIDTH))
        for factor, name in zip(FACTORS, ("one", "other"), strict=True)
    )
    joined = one.join(other, "key").agg(count("*"), sum_of("key"), sum_of(length("one") + length("other")))
    answer = tuple(joined.collect()[0])
    spark.stop()

    ok = answer == expected(rows)
    print(json.dumps({"answer": {"rows": answer[0], "length": answer[2]}, "ok": ok}))
    return 0 if ok else "big-shuffle: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

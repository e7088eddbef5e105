"""Many small queries in one session, like those of a dashboard: each is some short stages; checked exactly.

Query q groups `rows` rows by key, value i having key i mod keys, and sums i * (q + 1): an arithmetic series for each key.
"""

from __future__ import annotations

import argparse
import json
import sys


def expected(query: int, rows: int, keys: int) -> list[tuple[int, int]]:
    """Return each key and the sum of its values, in order; `keys` divides `rows`."""
    count = rows // keys
    return [(key, (query + 1) * (count * key + keys * count * (count - 1) // 2)) for key in range(keys)]


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Many small queries that check their answers.")
    parser.add_argument("--queries", type=int, default=100, help="the size of the job")
    parser.add_argument("--millions", type=float, default=2.0, help="millions of rows of a query")
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args()
    keys = max(1, options.keys)
    rows = max(1, round(options.millions * 1_000_000 / keys)) * keys

    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col
    from pyspark.sql.functions import sum as sum_of

    spark = (
        SparkSession.builder.appName("small-queries")
        .config("spark.sql.shuffle.partitions", str(options.partitions))
        .getOrCreate()
    )
    wrong = []
    for query in range(options.queries):
        values = spark.range(0, rows, 1, options.partitions)
        sums = values.groupBy((col("id") % keys).alias("key")).agg(sum_of(col("id") * (query + 1)).alias("total"))
        found = sorted((row.key, row.total) for row in sums.collect())
        if found != expected(query, rows, keys):
            wrong.append(query)
    spark.stop()

    print(json.dumps({"answer": {"queries": options.queries, "wrong": wrong[:10]}, "ok": not wrong}))
    return "small-queries: the answer is wrong" if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

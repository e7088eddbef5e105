"""A structured streaming query, one micro-batch right after another, which the program stops in the middle of a batch.

Batch b has the values from b * size on; each is hashed, grouped by key and summed up: two jobs. The numbers of rows, of keys
and of hash digits (128 for each row) are known exactly, so every batch is checked. `stop` cancels the batch that has begun by
then.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS, DIGITS = 1000, 128
LOOK_S = 0.3


def main() -> int | str:
    parser = argparse.ArgumentParser(description="A structured streaming query that checks every batch.")
    parser.add_argument("--batches", type=int, default=24, help="the size of the job")
    parser.add_argument("--thousands", type=int, default=600, help="thousands of rows of a batch")
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args()
    size = options.thousands * 1000

    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812

    spark = (
        SparkSession.builder.appName("stream-query")
        .config("spark.sql.shuffle.partitions", str(options.partitions))
        .getOrCreate()
    )
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", size).option("startTimestamp", 0)
    rows = source.option("advanceMillisPerBatch", 1000).load()
    hashed = rows.select(
        (F.col("value") % KEYS).alias("key"), F.length(F.sha2(F.col("value").cast("string"), 512)).alias("digits")
    )
    seen: dict[int, tuple[int, int, int]] = {}

    def take(batch: DataFrame, number: int) -> None:
        groups = batch.groupBy("key").agg(F.count("*").alias("rows"), F.sum("digits").alias("digits"))
        [sums] = groups.agg(F.sum("rows"), F.sum("digits"), F.count("*")).collect()
        seen[number] = tuple(sums)

    with tempfile.TemporaryDirectory() as checkpoints:
        query = hashed.writeStream.foreachBatch(take).option("checkpointLocation", checkpoints).start()
        while len(seen) < options.batches and query.isActive:
            query.awaitTermination(LOOK_S)
        query.stop()
        spark.stop()

    wrong = [number for number in range(options.batches) if seen.get(number) != (size, DIGITS * size, min(KEYS, size))]
    print(json.dumps({"answer": {"batches": options.batches, "wrong": wrong[:10]}, "ok": not wrong}))
    return "stream-query: the answer is wrong" if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Reading from a disk: a folder of lines as Spark reads them, or, with `--while`, a file past the page cache for as long as
another file is there."""

from __future__ import annotations

import argparse
import json
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path

PART_BYTES, BLOCK_BYTES = 4 << 20, 1 << 18


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Reading from a disk.")
    parser.add_argument("path")
    parser.add_argument("--while", dest="flag", metavar="FILE")
    options = parser.parse_args()

    from pyspark.sql import SparkSession

    spark = SparkSession.builder.config("spark.sql.files.maxPartitionBytes", PART_BYTES).getOrCreate()

    def read(_: object) -> Iterator[int]:
        buffer, count = mmap.mmap(-1, BLOCK_BYTES), 0
        opened, size = os.open(options.path, os.O_RDONLY | os.O_DIRECT), Path(options.path).stat().st_size
        while Path(options.flag).exists():
            os.preadv(opened, [buffer], count * BLOCK_BYTES % size)
            count += 1
        yield count

    if options.flag:
        blocks, ok = spark.sparkContext.parallelize([0], 1).mapPartitions(read).sum(), True
    else:
        row = spark.read.text(options.path).selectExpr("count(*)", "sum(length(sha2(value, 256)))").first()
        blocks, ok = row[0], row[0] * 64 == row[1]
    print(json.dumps({"answer": blocks, "ok": ok}))
    return 0 if ok else "cold: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

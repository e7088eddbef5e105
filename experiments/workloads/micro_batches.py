"""Small batches at a fixed rate, like those of a stream: each is two short stages; every batch's sum is checked exactly.

Batch b is due b * `every` seconds after the first. A late batch starts at once. Its values are those from b * size on, so
their sums by key are arithmetic series.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from operator import add

KEYS = 8


def expected(batch: int, size: int) -> list[tuple[int, int]]:
    """Return the keys and sums of a batch, in order; KEYS divides `size`."""
    first, count = batch * size, size // KEYS
    return [(key, count * (first + key) + KEYS * count * (count - 1) // 2) for key in range(KEYS)]


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Small batches at a fixed rate that check their answers.")
    parser.add_argument("--batches", type=int, default=80, help="the size of the job")
    parser.add_argument("--every", type=float, default=0.5, help="seconds from one batch to the next")
    parser.add_argument("--thousands", type=float, default=200.0, help="thousands of values of a batch")
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args()
    size = max(1, round(options.thousands * 1000 / KEYS)) * KEYS

    from pyspark import SparkContext

    sc = SparkContext(appName="micro-batches")
    start_s, wrong = time.monotonic(), []
    for batch in range(options.batches):
        time.sleep(max(0.0, start_s + batch * options.every - time.monotonic()))
        values = sc.range(batch * size, (batch + 1) * size, numSlices=options.partitions)
        sums = values.map(lambda i: (i % KEYS, i)).reduceByKey(add, options.partitions).collect()
        if sorted(sums) != expected(batch, size):
            wrong.append(batch)
    sc.stop()

    print(json.dumps({"answer": {"batches": options.batches, "wrong": wrong[:10]}, "ok": not wrong}))
    return 0 if not wrong else "micro-batches: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

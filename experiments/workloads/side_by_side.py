"""Three jobs at once from threads of one application, begun in a random order; every key's sum is checked exactly.

All run the same code on different numbers of values: two of them in as many partitions, so that only their sizes tell them
apart, the third in twice as many. Value i has key (FACTOR * i) mod keys. `keys` divides the number of values and has no
factor in common with FACTOR, so the values of a key are an arithmetic series, whose sum is known.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import add

FACTOR = 7919
"""A prime, so only its multiples share a factor with it."""
JOBS = ((1, 1), (1, 4), (2, 2))
"""Partitions and values of each job, the values in shares of the least."""


def expected(key: int, values: int, keys: int) -> int:
    """Return the sum of one key's values."""
    first, count = pow(FACTOR, -1, keys) * key % keys, values // keys
    return count * first + keys * count * (count - 1) // 2


def check_part(found: Iterable[tuple[str, int]], values: int, keys: int) -> Iterator[tuple[int, int]]:
    """Yield the keys of a partition, and those whose sum is wrong."""
    sums = [(int(key), total) for key, total in found]
    yield len(sums), sum(total != expected(key, values, keys) for key, total in sums)


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Three jobs at once that check their answers.")
    parser.add_argument("--millions", type=float, default=3.0, help="millions of values of the smallest job")
    parser.add_argument("--keys", type=int, default=20_000, help="distinct keys of each job")
    parser.add_argument("--partitions", type=int, default=8, help="of the smallest job")
    parser.add_argument("--seed", type=int, help="of the order in which the jobs begin (default: another in each run)")
    options = parser.parse_args()
    keys = max(3, options.keys)
    if keys % FACTOR == 0:
        parser.error(f"argument --keys: {keys} is a multiple of {FACTOR}; give another number")
    least = max(1, round(options.millions * 1_000_000 / keys)) * keys
    order = random.Random(options.seed).sample(range(len(JOBS)), len(JOBS))

    from pyspark import SparkContext

    sc = SparkContext(appName="side-by-side")

    def run(number: int) -> bool:
        """Check that the job's answer is right."""
        partitions, values = JOBS[number][0] * options.partitions, JOBS[number][1] * least
        pairs = sc.range(values, numSlices=partitions).map(lambda i: (f"{FACTOR * i % keys:010d}", i))
        checked = pairs.reduceByKey(add, partitions).mapPartitions(lambda part: check_part(part, values, keys)).collect()
        return (sum(count for count, _ in checked), sum(wrong for _, wrong in checked)) == (keys, 0)

    with ThreadPoolExecutor(len(JOBS)) as threads:
        right = list(threads.map(run, order))
    sc.stop()

    print(json.dumps({"answer": {"order": order, "right": right}, "ok": all(right)}))
    return 0 if all(right) else "side-by-side: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

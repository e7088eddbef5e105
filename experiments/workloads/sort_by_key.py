"""Sorting of key-value pairs in plain PySpark RDDs; order, count and content are checked exactly.

Key i is (a * i + b) mod n with a coprime to n: a seeded permutation of 0..n-1. So the sorted keys must be 0, 1, ..., n-1, and
every value must belong to its key. As in spark-perf keys and values are text, with `--int` numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Iterable, Iterator

Field = int | str
Part = tuple[int, int, int, int]
"""First key of a partition, its pairs, the sum of its values, and the pairs that are not where they belong."""


def permutation(n: int, seed: int) -> tuple[int, int]:
    """Return the factor and offset of the seeded permutation of 0..n-1."""
    rng = random.Random(seed)
    factor = rng.randrange(n // 3, n) | 1
    while math.gcd(factor, n) != 1:
        factor += 2
    return factor, rng.randrange(n)


def as_text(key: int, value: int) -> tuple[str, str]:
    """Return ten and 32 digits: text of equal length is ordered like the numbers."""
    return f"{key:010d}", f"{value:032d}"


def as_numbers(key: int, value: int) -> tuple[int, int]:
    return key, value


def check_part(pairs: Iterable[tuple[Field, Field]], n: int, factor: int, offset: int) -> Iterator[Part]:
    first, count, total, wrong = -1, 0, 0, 0
    for text_key, text_value in pairs:
        key, number = int(text_key), int(text_value)
        if count == 0:
            first = key
        if key != first + count or key != (factor * number + offset) % n:
            wrong += 1
        count += 1
        total += number
    if count:
        yield first, count, total, wrong


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Sort by key that checks its answer.")
    parser.add_argument("--millions", type=float, default=20.0, help="millions of pairs: the size of the job")
    parser.add_argument("--int", action="store_true", help="numbers, no text: another application, sort-by-key-int")
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    n = max(1000, int(options.millions * 1_000_000))
    factor, offset = permutation(n, options.seed)

    name, form = ("sort-by-key-int", as_numbers) if options.int else ("sort-by-key", as_text)

    from pyspark import SparkContext

    sc = SparkContext(appName=name)
    pairs = sc.range(n, numSlices=options.partitions).map(lambda i: form((factor * i + offset) % n, i))
    ordered = pairs.sortByKey(numPartitions=options.partitions)
    parts = ordered.mapPartitions(lambda part: check_part(part, n, factor, offset)).collect()
    sc.stop()

    counted = 0
    in_order = True
    for first, count, _, wrong in parts:
        in_order = in_order and first == counted and wrong == 0
        counted += count
    total = sum(part[2] for part in parts)
    ok = in_order and counted == n and total == n * (n - 1) // 2
    print(json.dumps({"answer": {"pairs": counted, "sum": total, "in_order": in_order}, "ok": ok}))
    return 0 if ok else f"{name}: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

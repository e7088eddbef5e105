"""Aggregation of values by key in plain PySpark RDDs; every key's aggregate is checked exactly.

Pair i has key (a * i + b) mod keys (a coprime to keys, seeded) and value i. `keys` divides the number of pairs, so every key
occurs equally often, and the values of key k are r, r + keys, r + 2 * keys, ..., where a * r + b = k (mod keys): their
number, sum, least and largest value follow by arithmetic. As in spark-perf keys are text of ten digits, with `--int` numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Iterable, Iterator

Key = int | str
Aggregate = tuple[int, int, int, int]
"""Number of a key's values, their sum, the least, the largest."""
NONE_YET: Aggregate = (0, 0, sys.maxsize, -1)
Part = tuple[int, int, int, int]
"""Keys of a partition, its pairs, the sum of its values, and the keys whose aggregate is not what it must be."""


def factor_and_offset(keys: int, seed: int) -> tuple[int, int]:
    """Return factor and offset of the seeded permutation of 0..keys-1."""
    rng = random.Random(seed)
    factor = rng.randrange(keys // 3, keys) | 1
    while math.gcd(factor, keys) != 1:
        factor += 2
    return factor, rng.randrange(keys)


def add_value(aggregate: Aggregate, value: int) -> Aggregate:
    count, total, least, largest = aggregate
    return count + 1, total + value, min(least, value), max(largest, value)


def combine(one: Aggregate, other: Aggregate) -> Aggregate:
    return one[0] + other[0], one[1] + other[1], min(one[2], other[2]), max(one[3], other[3])


def expected(key: int, pairs: int, keys: int, factor: int, offset: int) -> Aggregate:
    """Return the aggregate of one key by arithmetic: the values are an arithmetic series."""
    first = pow(factor, -1, keys) * (key - offset) % keys
    count = pairs // keys
    last = first + (count - 1) * keys
    return count, (first + last) * count // 2, first, last


def as_text(key: int) -> str:
    return f"{key:010d}"


def check_part(found: Iterable[tuple[Key, Aggregate]], pairs: int, keys: int, factor: int, offset: int) -> Iterator[Part]:
    distinct = counted = total = wrong = 0
    for key, aggregate in found:
        distinct += 1
        counted += aggregate[0]
        total += aggregate[1]
        wrong += aggregate != expected(int(key), pairs, keys, factor, offset)
    yield distinct, counted, total, wrong


def is_whole(parts: Iterable[Part], pairs: int, keys: int) -> bool:
    """Check that there is every key once, every pair once, and nothing wrong."""
    distinct, counted, total, wrong = (sum(column) for column in zip(*parts, strict=True))
    return (distinct, counted, total, wrong) == (keys, pairs, pairs * (pairs - 1) // 2, 0)


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Aggregate by key that checks its answer.")
    parser.add_argument("--millions", type=float, default=30.0, help="millions of pairs: the size of the job")
    parser.add_argument("--keys", type=int, default=100_000, help="distinct keys")
    parser.add_argument("--int", action="store_true", help="keys are numbers: another application, aggregate-by-key-int")
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    keys = max(3, options.keys)
    pairs = max(1, round(options.millions * 1_000_000 / keys)) * keys
    factor, offset = factor_and_offset(keys, options.seed)

    name, form = ("aggregate-by-key-int", int) if options.int else ("aggregate-by-key", as_text)

    from pyspark import SparkContext

    sc = SparkContext(appName=name)
    values = sc.range(pairs, numSlices=options.partitions).map(lambda i: (form((factor * i + offset) % keys), i))
    aggregates = values.aggregateByKey(NONE_YET, add_value, combine, options.partitions)
    parts = aggregates.mapPartitions(lambda part: check_part(part, pairs, keys, factor, offset)).collect()
    sc.stop()

    ok = is_whole(parts, pairs, keys)
    answer = {"keys": sum(p[0] for p in parts), "pairs": sum(p[1] for p in parts), "sum": sum(p[2] for p in parts)}
    print(json.dumps({"answer": answer, "ok": ok}))
    return 0 if ok else f"{name}: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

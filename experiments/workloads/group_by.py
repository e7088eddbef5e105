"""Groups values by key in plain PySpark RDDs: every pair is shuffled, none combined before; checks every group exactly.

Pair i has key (a * i + b) mod keys (a coprime to keys, seeded; text of ten digits, as in spark-perf) and value i. `keys`
divides the number of pairs, so the group of key k is r, r + keys, r + 2 * keys, ..., where a * r + b = k (mod keys).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Iterable, Iterator

Part = tuple[int, int, int]
"""Keys of a partition, its pairs, and the keys whose group is not what it must be."""


def factor_and_offset(keys: int, seed: int) -> tuple[int, int]:
    """Of the seeded permutation of 0..keys-1."""
    rng = random.Random(seed)
    factor = rng.randrange(keys // 3, keys) | 1
    while math.gcd(factor, keys) != 1:
        factor += 2
    return factor, rng.randrange(keys)


def expected(key: int, pairs: int, keys: int, factor: int, offset: int) -> range:
    """The group of one key by arithmetic."""
    return range(pow(factor, -1, keys) * (key - offset) % keys, pairs, keys)


def check_part(
    groups: Iterable[tuple[str, Iterable[int]]], pairs: int, keys: int, factor: int, offset: int
) -> Iterator[Part]:
    distinct = counted = wrong = 0
    for key, group in groups:
        values = sorted(group)
        distinct += 1
        counted += len(values)
        wrong += values != list(expected(int(key), pairs, keys, factor, offset))
    yield distinct, counted, wrong


def is_whole(parts: Iterable[Part], pairs: int, keys: int) -> bool:
    """Every key once, every pair once, nothing wrong."""
    distinct, counted, wrong = (sum(column) for column in zip(*parts, strict=True))
    return (distinct, counted, wrong) == (keys, pairs, 0)


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Group by key that checks its answer.")
    parser.add_argument("--millions", type=float, default=40.0, help="millions of pairs: the size of the job")
    parser.add_argument("--keys", type=int, default=100_000, help="distinct keys")
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    keys = max(3, options.keys)
    pairs = max(1, round(options.millions * 1_000_000 / keys)) * keys
    factor, offset = factor_and_offset(keys, options.seed)

    from pyspark import SparkContext

    sc = SparkContext(appName="group-by")
    values = sc.range(pairs, numSlices=options.partitions).map(lambda i: (f"{(factor * i + offset) % keys:010d}", i))
    groups = values.groupByKey(options.partitions)
    parts = groups.mapPartitions(lambda part: check_part(part, pairs, keys, factor, offset)).collect()
    sc.stop()

    ok = is_whole(parts, pairs, keys)
    print(json.dumps({"answer": {"keys": sum(p[0] for p in parts), "pairs": sum(p[1] for p in parts)}, "ok": ok}))
    return 0 if ok else "group-by: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

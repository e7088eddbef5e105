"""Grouping of values by key in plain PySpark RDDs: every pair is shuffled, none combined before; every group is checked
exactly.

Pair i has key (a * i + b) mod keys (a coprime to keys, seeded; text of ten digits, as in spark-perf) and value i. `keys`
divides the number of pairs, so the group of key k is r, r + keys, r + 2 * keys, ..., where a * r + b = k (mod keys).

`--skew N` gives one task of the second stage the keys of N, `--stragglers N` makes N tasks of the first, drawn by the seed,
take several times as long as the others. Both leave the answer as it is.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Iterable, Iterator

STRAGGLE = 12
"""Times that a straggler makes each key, which is a part of what a task does."""
Part = tuple[int, int, int]
"""Keys of a partition, its pairs, and the keys whose group is not what it must be."""


def factor_and_offset(keys: int, seed: int) -> tuple[int, int]:
    """Return factor and offset of the seeded permutation of 0..keys-1."""
    rng = random.Random(seed)
    factor = rng.randrange(keys // 3, keys) | 1
    while math.gcd(factor, keys) != 1:
        factor += 2
    return factor, rng.randrange(keys)


def partition_of(key: str, partitions: int, skew: int) -> int:
    """Return the partition of a key by its number; the first `skew` partitions are one."""
    number = int(key) % partitions
    return 0 if number < skew else number


def stragglers(partitions: int, count: int, seed: int) -> frozenset[int]:
    return frozenset(random.Random(seed).sample(range(partitions), count))


def expected(key: int, pairs: int, keys: int, factor: int, offset: int) -> range:
    """Return the group of one key by arithmetic."""
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
    """Check that there is every key once, every pair once, and nothing wrong."""
    distinct, counted, wrong = (sum(column) for column in zip(*parts, strict=True))
    return (distinct, counted, wrong) == (keys, pairs, 0)


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Group by key that checks its answer.")
    parser.add_argument("--millions", type=float, default=40.0, help="millions of pairs: the size of the job")
    parser.add_argument("--keys", type=int, default=100_000, help="distinct keys")
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--skew", type=int, default=1, help="number of tasks whose keys are one task's in the second stage")
    parser.add_argument(
        "--stragglers", type=int, default=0, help="number of tasks of the first stage that take several times as long"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    keys = max(3, options.keys)
    pairs = max(1, round(options.millions * 1_000_000 / keys)) * keys
    factor, offset = factor_and_offset(keys, options.seed)

    from pyspark import SparkContext

    sc = SparkContext(appName="group-by")
    slow = stragglers(options.partitions, options.stragglers, options.seed)

    def keyed(partition: int, numbers: Iterable[int]) -> Iterator[tuple[str, int]]:
        for i in numbers:
            key = f"{(factor * i + offset) % keys:010d}"
            if partition in slow:
                for _ in range(STRAGGLE - 1):
                    key = f"{(factor * i + offset) % keys:010d}"
            yield key, i

    values = sc.range(pairs, numSlices=options.partitions).mapPartitionsWithIndex(keyed)
    groups = values.groupByKey(options.partitions, lambda key: partition_of(key, options.partitions, options.skew))
    parts = groups.mapPartitions(lambda part: check_part(part, pairs, keys, factor, offset)).collect()
    sc.stop()

    ok = is_whole(parts, pairs, keys)
    print(json.dumps({"answer": {"keys": sum(p[0] for p in parts), "pairs": sum(p[1] for p in parts)}, "ok": ok}))
    return 0 if ok else "group-by: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

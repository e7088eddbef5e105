"""KMeans (Lloyd's algorithm) in plain PySpark RDDs over cached points; its centres are checked exactly against one core's.

Points are seeded whole numbers around `K` seeded middles, near enough to each other that centres move for many iterations.
They repeat with period `PERIOD`: a centre of all points is the same quotient as that of one period, and sums of whole numbers
do not depend on their order, so the serial computation over one period gives the very same floats. The algorithm is written
out because Spark's own needs numpy in the executors (pyspark.mllib) or stops when it likes (pyspark.ml): here the size and
the answer are known. The check comes after the SparkContext is stopped: it is no part of the job.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Iterator, Sequence

K = 6
DIMENSIONS = 4
PERIOD = 2_000
SPREAD = 300
"""Standard deviation of a point around its middle; middles are drawn from a cube of 1000."""

Point = tuple[int, ...]
Centre = tuple[float, ...]
Sum = tuple[int, list[int]]
"""Number of points, and the sums of their coordinates."""


def one_period(seed: int) -> list[Point]:
    rng = random.Random(seed)
    middles = [[rng.randrange(1000) for _ in range(DIMENSIONS)] for _ in range(K)]
    return [tuple(round(rng.gauss(at, SPREAD)) for at in middles[i % K]) for i in range(PERIOD)]


def nearest_centre(point: Point, centres: Sequence[Centre]) -> int:
    """Return the number of the nearest centre, the first of equals."""
    best, least = 0, float("inf")
    for number, centre in enumerate(centres):
        distance = 0.0
        for a, b in zip(point, centre, strict=True):
            distance += (a - b) * (a - b)
        if distance < least:
            best, least = number, distance
    return best


def sums_of(points: Iterable[Point], centres: Sequence[Centre]) -> Iterator[tuple[int, Sum]]:
    """Return the sum for each centre that is nearest to any of the points."""
    sums: dict[int, Sum] = {}
    for point in points:
        number = nearest_centre(point, centres)
        count, total = sums.get(number, (0, [0] * DIMENSIONS))
        for axis, value in enumerate(point):
            total[axis] += value
        sums[number] = count + 1, total
    return iter(sums.items())


def combine(one: Sum, other: Sum) -> Sum:
    return one[0] + other[0], [a + b for a, b in zip(one[1], other[1], strict=True)]


def moved(centres: Sequence[Centre], sums: Iterable[tuple[int, Sum]]) -> list[Centre]:
    """Return every centre in the middle of its points; a centre without points stays."""
    found = list(centres)
    for number, (count, total) in sums:
        found[number] = tuple(part / count for part in total)
    return found


def serial(points: Sequence[Point], iterations: int) -> list[Centre]:
    """Compute the centres on one core, without Spark."""
    centres: list[Centre] = [*points[:K]]
    for _ in range(iterations):
        centres = moved(centres, sums_of(points, centres))
    return centres


def main() -> int | str:
    parser = argparse.ArgumentParser(description="KMeans that checks its answer.")
    parser.add_argument("--millions", type=float, default=1.0, help="millions of points: the size of the job")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    period = one_period(options.seed)
    count = max(1, round(options.millions * 1_000_000 / PERIOD)) * PERIOD

    from pyspark import SparkContext

    sc = SparkContext(appName="kmeans")
    points = sc.range(count, numSlices=options.partitions).map(lambda i: period[i % PERIOD]).persist()
    centres: list[Centre] = [*period[:K]]
    for _ in range(options.iterations):
        near = points.mapPartitions(lambda part, centres=centres: sums_of(part, centres))
        centres = moved(centres, near.reduceByKey(combine, options.partitions).collect())
    sc.stop()

    ok = centres == serial(period, options.iterations)
    print(json.dumps({"answer": {"points": count, "first": [round(x, 3) for x in centres[0]]}, "ok": ok}))
    return 0 if ok else "kmeans: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

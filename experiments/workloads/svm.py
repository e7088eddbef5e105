"""A linear support vector machine (gradient descent over all points, like MLlib's SVMWithSGD with its whole batch) in plain
PySpark RDDs over cached points; weights and misses are checked exactly against one core's.

Points are seeded; their label is the side of a seeded plane, every twentieth on the wrong side. They repeat with period
`PERIOD` and their features are whole numbers (thousandths): the mean gradient of all points is the same quotient as that of
one period, so the serial computation over one period gives the very same floats. The algorithm is written out because Spark's
own needs numpy in the executors (pyspark.mllib) or stops when it likes (pyspark.ml): here the size and the answer are known.
The check comes after the SparkContext is stopped: it is no part of the job.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Iterable, Sequence

FEATURES = 10
PERIOD = 2_000
UNIT = 1_000
"""A feature of 1.0 as a whole number."""
STEP = 1.0
REGULARISATION = 0.01
WRONG_SIDE = 20
"""Number of points of which one has the label of the other side: no plane is right for all."""

Point = tuple[int, ...]
"""The label, -1 or 1, then the features, the last of which is always `UNIT`: the plane need not go through the origin."""
Gradient = tuple[int, int, list[int]]
"""Number of points, number of those on their label's wrong side, and the sum of the hinge loss's subgradients in 1 /
`UNIT`."""


def one_period(seed: int) -> list[Point]:
    rng = random.Random(seed)
    plane = [rng.uniform(-1, 1) for _ in range(FEATURES)]
    points = []
    for i in range(PERIOD):
        features = [*(rng.randint(-UNIT, UNIT) for _ in range(FEATURES - 1)), UNIT]
        label = 1 if margin(plane, features) > 0 else -1
        points.append((-label if i % WRONG_SIDE == 0 else label, *features))
    return points


def margin(weights: Sequence[float], features: Sequence[int]) -> float:
    found = 0.0
    for weight, feature in zip(weights, features, strict=True):
        found += weight * feature
    return found / UNIT


def gradient(points: Iterable[Point], weights: Sequence[float]) -> Gradient:
    count, misses, total = 0, 0, [0] * FEATURES
    for label, *features in points:
        count += 1
        agreement = label * margin(weights, features)
        misses += agreement <= 0
        if agreement < 1:
            for axis, feature in enumerate(features):
                total[axis] -= label * feature
    return count, misses, total


def combine(one: Gradient, other: Gradient) -> Gradient:
    return one[0] + other[0], one[1] + other[1], [a + b for a, b in zip(one[2], other[2], strict=True)]


def stepped(weights: Sequence[float], found: Gradient, number: int) -> list[float]:
    """Return the weights after a step against the gradient, which shrinks with the root of its number (1, 2, ...)."""
    count, _, total = found
    size = STEP / math.sqrt(number)
    return [w - size * (part / (UNIT * count) + REGULARISATION * w) for w, part in zip(weights, total, strict=True)]


def serial(points: Sequence[Point], iterations: int) -> tuple[list[float], int]:
    """Return the weights and the misses of the last iteration, on one core, without Spark."""
    weights, misses = [0.0] * FEATURES, 0
    for number in range(1, iterations + 1):
        found = gradient(points, weights)
        weights, misses = stepped(weights, found, number), found[1]
    return weights, misses


def main() -> int | str:
    parser = argparse.ArgumentParser(description="A support vector machine that checks its answer.")
    parser.add_argument("--millions", type=float, default=1.5, help="millions of points: the size of the job")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    period = one_period(options.seed)
    count = max(1, round(options.millions * 1_000_000 / PERIOD)) * PERIOD

    from pyspark import SparkContext

    sc = SparkContext(appName="svm")
    points = sc.range(count, numSlices=options.partitions).map(lambda i: period[i % PERIOD]).persist()
    weights, misses = [0.0] * FEATURES, 0
    for number in range(1, options.iterations + 1):
        parts = points.mapPartitions(lambda part, weights=weights: [gradient(part, weights)])
        found = parts.treeReduce(combine)
        weights, misses = stepped(weights, found, number), found[1]
    sc.stop()

    expected, few = serial(period, options.iterations)
    ok = weights == expected and misses == few * (count // PERIOD)
    print(json.dumps({"answer": {"points": count, "misses": misses}, "ok": ok}))
    return 0 if ok else "svm: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

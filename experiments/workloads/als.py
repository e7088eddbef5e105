"""ALS of Spark ML: dozens of short stages, all in the JVM; the check is that ALS finds the numbers that were hidden from it.

Ratings are products of seeded factors of users and items; of each user four fifths are given. From only these the product of
the factors that ALS finds must come near every rating, the hidden ones, too. Several models are fitted, like in a search for
settings, and the last is checked. Without a folder for checkpoints, which all executors would have to share, a model of many
iterations has more ancestors than Java can write down.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator, Sequence

RANK = 3
GIVEN = 5
"""Number of ratings of which one is hidden."""
MOST_ERROR = 0.2
"""Root mean square of the errors, in standard deviations of the ratings."""

Factors = list[tuple[float, ...]]


def factors(count: int, seed: int) -> Factors:
    rng = random.Random(seed)
    return [tuple(rng.gauss(0, 1) for _ in range(RANK)) for _ in range(count)]


def rating(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def given(user: int, items: int) -> Iterator[int]:
    """Yield the items whose ratings by this user ALS gets."""
    return (item for item in range(items) if (user + item) % GIVEN)


def relative_error(users: Factors, items: Factors, found_users: Factors, found_items: Factors) -> float:
    """Return the root mean square of found less true ratings, in standard deviations of the true ones; a few users are
    enough."""
    true = [rating(user, item) for user in users for item in items]
    found = [rating(user, item) for user in found_users for item in found_items]
    mean = math.fsum(true) / len(true)
    squares = math.fsum((a - b) ** 2 for a, b in zip(true, found, strict=True))
    return math.sqrt(squares / math.fsum((a - mean) ** 2 for a in true))


def main() -> int | str:
    parser = argparse.ArgumentParser(description="ALS that checks its answer.")
    parser.add_argument("--users", type=int, default=4_000, help="the size of the job")
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    users, items = factors(options.users, options.seed), factors(options.items, options.seed + 1)

    from pyspark.ml.recommendation import ALS
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("als").config("spark.sql.shuffle.partitions", str(options.partitions)).getOrCreate()
    count = options.items
    rows = spark.sparkContext.parallelize(range(options.users), options.partitions).flatMap(
        lambda user: [(user, item, rating(users[user], items[item])) for item in given(user, count)]
    )
    table = spark.createDataFrame(rows, "user int, item int, rating double").persist()
    for number in range(max(1, options.models)):
        model = ALS(
            rank=RANK,
            maxIter=options.iterations,
            regParam=1e-4,
            numUserBlocks=options.partitions,
            numItemBlocks=options.partitions,
            userCol="user",
            itemCol="item",
            ratingCol="rating",
            seed=options.seed + number,
        ).fit(table)
    some = min(200, options.users)
    found_users = [tuple(row.features) for row in model.userFactors.where(f"id < {some}").orderBy("id").collect()]
    found_items = [tuple(row.features) for row in model.itemFactors.orderBy("id").collect()]
    spark.stop()

    error = relative_error(users[:some], items, found_users, found_items)
    ok = error <= MOST_ERROR
    print(json.dumps({"answer": {"users": options.users, "error": round(error, 5)}, "ok": ok}))
    return 0 if ok else "als: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

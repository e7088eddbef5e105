"""Join, aggregation by a key of high cardinality, and a second aggregation, in Spark SQL with AQE; checked exactly.

Fact i has key (a * i + b) mod groups (a coprime to groups, seeded) and measure i mod 1000; `groups` is a multiple of
1000 and divides the number of facts. So keys and measures repeat with period `groups`, and one period, computed in
Python, gives the whole answer. Everything runs in the JVM.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys

CLASSES = 7
MEASURES = 1000
Row = tuple[int, int, int, int]
"""Class, facts, sum of measure, sum of measure * weight."""

QUERY = """
select class, sum(facts) facts, sum(total) total, sum(weighted) weighted
from (
    select f.key, d.class, count(*) facts, sum(f.measure) total, sum(f.measure * d.weight) weighted
    from facts f join dimension d on f.key = d.key
    group by f.key, d.class
)
group by class order by class
"""


def factor_and_offset(groups: int, seed: int) -> tuple[int, int]:
    rng = random.Random(seed)
    factor = rng.randrange(groups // 3, groups) | 1
    while math.gcd(factor, groups) != 1:
        factor += 2
    return factor, rng.randrange(groups)


def expected(facts: int, groups: int, factor: int, offset: int) -> list[Row]:
    """Return the answer by arithmetic: one period times the number of periods."""
    rows = [[0, 0, 0] for _ in range(CLASSES)]
    for i in range(groups):
        key, measure = (factor * i + offset) % groups, i % MEASURES
        row = rows[key % CLASSES]
        row[0] += 1
        row[1] += measure
        row[2] += measure * (key % 5 + 1)
    periods = facts // groups
    return [(number, *(periods * part for part in row)) for number, row in enumerate(rows)]  # type: ignore[misc]


def main() -> int | str:
    parser = argparse.ArgumentParser(description="SQL join and aggregation that checks its answer.")
    parser.add_argument("--millions", type=float, default=40.0, help="millions of facts: the size of the job")
    parser.add_argument("--groups", type=int, default=1_000_000, help="distinct keys, a multiple of 1000")
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    groups = max(1, options.groups // MEASURES) * MEASURES
    facts = max(1, round(options.millions * 1_000_000 / groups)) * groups
    factor, offset = factor_and_offset(groups, options.seed)

    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.appName("sql-aggregate")
        .config("spark.sql.adaptive.enabled", "true")
        .config("spark.sql.shuffle.partitions", str(options.partitions))
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")  # the point is a shuffled join, also of small inputs
        .getOrCreate()
    )
    spark.range(0, facts, 1, options.partitions).selectExpr(
        f"pmod(id * {factor} + {offset}, {groups}) key", f"id % {MEASURES} measure"
    ).createTempView("facts")
    spark.range(0, groups, 1, options.partitions).selectExpr(
        "id key", f"id % {CLASSES} class", "id % 5 + 1 weight"
    ).createTempView("dimension")
    answer = [tuple(row) for row in spark.sql(QUERY).collect()]
    spark.stop()

    ok = answer == expected(facts, groups, factor, offset)
    print(json.dumps({"answer": {"facts": facts, "weighted": sum(row[3] for row in answer)}, "ok": ok}))
    return 0 if ok else "sql-aggregate: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

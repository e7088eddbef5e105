"""A pandas UDF over a column, then an aggregation; checked exactly. Executors need pandas and pyarrow.

The UDF takes x to a polynomial modulo a prime, `ROUNDS` times over, so the sum over one period of `MODULUS` numbers, computed
in Python, gives the sum over all.
"""
# annotations are not postponed here: Spark reads a UDF's kind from its types, and cannot resolve the name of a local import

import argparse
import json
import sys

MODULUS, ROUNDS = 10_007, 20


def taken(x: int) -> int:
    """Return what the UDF makes of a number."""
    for _ in range(ROUNDS):
        x = (3 * x * x + 7 * x + 11) % MODULUS
    return x


def expected(periods: int) -> int:
    """Return the sum over `periods` periods."""
    return periods * sum(map(taken, range(MODULUS)))


def main() -> int | str:
    parser = argparse.ArgumentParser(description="A pandas UDF that checks its answer.")
    parser.add_argument("--millions", type=float, default=60.0, help="millions of numbers: the size of the job")
    parser.add_argument("--partitions", type=int, default=24)
    options = parser.parse_args()
    periods = max(1, round(options.millions * 1_000_000 / MODULUS))

    import pandas as pd
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col, pandas_udf
    from pyspark.sql.functions import sum as sum_of

    def rounds(numbers: pd.Series) -> pd.Series:
        for _ in range(ROUNDS):
            numbers = (3 * numbers * numbers + 7 * numbers + 11) % MODULUS
        return numbers

    spark = SparkSession.builder.appName("pandas-udf").getOrCreate()
    numbers = spark.range(0, periods * MODULUS, 1, options.partitions).select((col("id") % MODULUS).alias("x"))
    found = numbers.select(pandas_udf(rounds, "long")("x").alias("y")).agg(sum_of("y")).collect()[0][0]
    spark.stop()

    ok = found == expected(periods)
    print(json.dumps({"answer": {"numbers": periods * MODULUS, "sum": found}, "ok": ok}))
    return 0 if ok else "pandas-udf: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

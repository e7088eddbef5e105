"""A notebook's program: a session built in plain Python, no spark-submit. Argument: deadline."""

import json
import sys

from pyspark.sql import SparkSession

(deadline,) = sys.argv[1:]
spark = (
    SparkSession.builder.appName("notebook")
    .config("spark.pace.deadline", deadline)
    .config("spark.pace.law.forecast.alpha", "0.35")
    .getOrCreate()
)


def square(number: int) -> int:
    for _ in range(30_000_000):  # seconds: what ends within a control period cannot be paced
        pass
    return number * number


total = spark.sparkContext.parallelize(range(16), 16).map(square).sum()
print(json.dumps({"ok": total == sum(x * x for x in range(16))}))
spark.stop()

"""What a notebook does: a session built in plain Python, no spark-submit. Argument: deadline."""

import json
import sys

from pyspark.sql import SparkSession

(deadline,) = sys.argv[1:]
spark = (
    SparkSession.builder.appName("notebook")
    .config("spark.pace.deadline", deadline)
    .config("spark.pace.law.forecast.alpha", "0.7")
    .getOrCreate()
)
total = spark.sparkContext.parallelize(range(1000), 4).map(lambda x: x * x).sum()
print(json.dumps({"ok": total == sum(x * x for x in range(1000))}))
spark.stop()

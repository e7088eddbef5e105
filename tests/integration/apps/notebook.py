"""A notebook's program: a session built in plain Python, no spark-submit. Argument: deadline."""

import json
import sys

from pyspark.sql import SparkSession

(deadline,) = sys.argv[1:]
spark = SparkSession.builder.appName("notebook").config("spark.pace.deadline", deadline).getOrCreate()
total = spark.sparkContext.parallelize(range(16), 16).map(lambda number: number * number).sum()
print(json.dumps({"ok": total == sum(x * x for x in range(16))}))
spark.stop()

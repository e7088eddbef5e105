"""Sets a master of its own, as tutorials do."""

import json

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
print(json.dumps({"count": spark.range(1000).count(), "master": spark.sparkContext.master}))
spark.stop()

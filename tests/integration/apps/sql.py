"""DataFrames and SQL with adaptive execution on: a join and an aggregation whose answer is known in closed form."""

import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

N = 300_000
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 12).getOrCreate()
assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
facts = spark.range(0, N, 1, 6).withColumn("key", f.col("id") % 10)
names = spark.range(0, 10, 1, 1).select(f.col("id").alias("key"), f.concat(f.lit("name-"), f.col("id") % 2).alias("name"))
facts.createOrReplaceTempView("facts")
names.createOrReplaceTempView("names")
rows = spark.sql(
    "select /*+ merge(names) */ name, count(*) as n, sum(id) as total from facts join names using (key) group by name"
).collect()
found = {row["name"]: (row["n"], row["total"]) for row in rows}
expected = {f"name-{r}": (N // 2, sum(range(r, N, 2))) for r in range(2)}
print(json.dumps({"ok": found == expected, "found": found}))
spark.stop()
raise SystemExit(0 if found == expected else 1)

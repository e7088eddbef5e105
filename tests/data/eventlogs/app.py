"""The application whose event logs lie here: an iteration over cached parents, then SQL with AQE (join, aggregate)."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

session = SparkSession.builder.appName("golden").getOrCreate()
context = session.sparkContext
size = int(sys.argv[1]) if len(sys.argv) > 1 else 4000


def spread(pair: tuple) -> list:
    targets, rank = pair[1]
    return [(target, rank / len(targets)) for target in targets]


links = context.parallelize([(i % 97, i % 89) for i in range(size)], 3).distinct().groupByKey(3).cache()
ranks = links.mapValues(lambda _: 1.0)
for _ in range(3):
    ranks = links.join(ranks, 3).flatMap(spread).reduceByKey(lambda a, b: a + b, 3).cache()
    print("nodes", ranks.count())

orders = session.range(size * 5).select((f.col("id") % 500).alias("user"), (f.col("id") * 3 % 101).alias("amount"))
users = session.range(500).select(f.col("id").alias("user"), (f.col("id") % 7).alias("team"))
orders, users = orders.repartition(4), users.repartition(3)
joined = orders.join(users.hint("merge"), "user").groupBy("team").agg(f.sum("amount").alias("amount"))
print("teams", joined.orderBy("team").collect())
print("largest", joined.agg(f.max("amount")).collect())
session.stop()

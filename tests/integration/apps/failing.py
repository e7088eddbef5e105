"""Ends in its own way after a job has run: with exit code 7, or with a task's exception."""

import sys

from pyspark.sql import SparkSession

sc = SparkSession.builder.getOrCreate().sparkContext
assert sc.parallelize(range(10), 2).count() == 10
if sys.argv[1] == "exit":
    raise SystemExit(7)
sc.parallelize(range(2), 2).map(lambda x: 1 // (x - 1)).collect()

"""Ends with a task's exception after a job has run."""

from pyspark.sql import SparkSession

sc = SparkSession.builder.getOrCreate().sparkContext
assert sc.parallelize(range(10), 2).count() == 10
sc.parallelize(range(2), 2).map(lambda x: 1 // (x - 1)).collect()

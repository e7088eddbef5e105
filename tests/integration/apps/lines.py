"""Counts the lines of a file, wherever Hadoop finds it, once that many executors are there: three tasks for each, of a second
at least. It says how near to their data the tasks ran."""

import collections
import json
import sys
import time

from pyspark.sql import SparkSession

path, lines, executors = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
while sc._jsc.sc().getExecutorMemoryStatus().size() < executors + 1:
    time.sleep(0.1)


def count(part):
    time.sleep(1.0)
    yield sum(1 for _ in part)


found = sum(sc.textFile(path, 3 * executors).mapPartitions(count).collect())
stage = sc._jsc.sc().statusStore().taskList(0, 0, 100)
near = collections.Counter(stage.apply(number).taskLocality() for number in range(stage.size()))
print(json.dumps({"ok": found == lines, "near": near}))

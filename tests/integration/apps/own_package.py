"""Prints under which Python driver and tasks run, with what a package says that only they have."""

import json
import sys

import for_this_test
from pyspark.sql import SparkSession


def seen(_):
    import for_this_test

    return sys.executable, for_this_test.SAID


sc = SparkSession.builder.getOrCreate().sparkContext
tasks = sc.parallelize(range(2), 2).map(seen).collect()
print(json.dumps({"driver": (sys.executable, for_this_test.SAID), "tasks": tasks}))
sc.stop()

"""Has two executors fetch from the driver, from each other, and the driver from them; tells which addresses tasks connect to.

Arguments: JSON list of [host, port], file to wait for after the answer."""

import json
import socket
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

targets, stop = json.loads(sys.argv[1]), Path(sys.argv[2])
session = SparkSession.builder.getOrCreate()
sc = session.sparkContext


def reaches(target):
    try:
        socket.create_connection(tuple(target), 2).close()
        return True
    except OSError:
        return False


while sc._jsc.sc().getExecutorMemoryStatus().size() < 3:  # the driver has one, too
    time.sleep(0.05)
broadcast = sc.broadcast(bytes(5_000_000))
rows = sc.parallelize(range(200), 8).map(lambda n: (n % 16, "x" * (len(broadcast.value) // 1000)))
shuffled = sum(rows.repartition(8).groupByKey(4).mapValues(lambda found: sum(map(len, found))).values().collect())
# results over 1 MB (spark.task.maxDirectResultSize) are fetched by the driver
large = sum(len(part) for part in sc.parallelize(range(4), 4).map(lambda _: bytes(2_000_000)).collect())
reached = sc.parallelize(range(4), 4).map(lambda _: [reaches(target) for target in targets]).collect()
members = [part.split(":")[0] for part in str(sc._jsc.sc().getExecutorMemoryStatus().keys().mkString(" ")).split()]
print(json.dumps({"shuffled": shuffled, "large": large, "reached": reached, "members": members}), flush=True)
while not stop.exists():
    time.sleep(0.05)
session.stop()

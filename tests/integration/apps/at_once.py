"""A session with actions of pure CPU at once, each in a FAIR pool: `SIZE[:DEADLINE]`..., of two stages of SIZE tasks."""

import json
import sys
import time

from pyspark import InheritableThread
from pyspark.sql import SparkSession


def burn(number: int) -> int:
    total = number
    for i in range(4_000_000):
        total = (total * 31 + i) % 1_000_003
    return total


sc = SparkSession.builder.getOrCreate().sparkContext
ends = {}


def act(name: str, size: int, deadline: str | None) -> None:
    sc.setLocalProperty("spark.scheduler.pool", name)
    sc.setLocalProperty("spark.pace.deadline", deadline)
    start = time.monotonic()
    keyed = sc.parallelize(range(size), size).map(lambda number: (number, burn(number)))
    found = keyed.reduceByKey(max, size).map(lambda pair: burn(pair[1])).count()
    ends[name] = (found == size, round(time.monotonic() - start, 2))


threads = []
for number, word in enumerate(sys.argv[1:]):
    size, _, deadline = word.partition(":")
    threads.append(InheritableThread(target=act, args=(f"pool-{number}", int(size), deadline or None)))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({"ok": len(ends) == len(threads) and all(right for right, _ in ends.values()), "ends": ends}))

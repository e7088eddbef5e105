"""Rounds of pure CPU without a shuffle, which needs no disk, until the stop file appears."""

import json
import sys
import time
from pathlib import Path

from pyspark import SparkContext

TASKS = 4


def burn(number: int) -> int:
    total = number
    for i in range(300_000):
        total = (total * 31 + i) % 1_000_003
    return total


stop = Path(sys.argv[1])
sc = SparkContext.getOrCreate()
rounds = 0
while True:
    sc.parallelize(range(TASKS), TASKS).map(burn).sum()
    rounds += 1
    if stop.exists():
        break
    time.sleep(0.2)
print(json.dumps({"ok": True, "tasks": rounds * TASKS}))

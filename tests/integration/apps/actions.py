"""A session with three actions of pure CPU; the second one has a deadline of its own if one is given."""

import json
import sys

from pyspark.sql import SparkSession

TASKS = 8


def burn(number: int) -> int:
    total = number
    for i in range(6_000_000):
        total = (total * 31 + i) % 1_000_003
    return total


sc = SparkSession.builder.getOrCreate().sparkContext
deadline = sys.argv[1] if len(sys.argv) > 1 else None
answers = []
for number in range(3):
    sc.setLocalProperty("spark.pace.deadline", deadline if number == 1 else None)
    answers.append(sc.parallelize(range(TASKS), TASKS).map(burn).count())
print(json.dumps({"ok": answers == [TASKS] * 3}))

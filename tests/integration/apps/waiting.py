"""Two jobs with a shuffle, whose eight tasks wait for FIRST, and for SECOND; the second job begins when GO is there."""

import json
import sys
import time
from operator import add
from pathlib import Path

from pyspark import SparkContext


def wait_for(file: str) -> None:
    while not Path(file).exists():
        time.sleep(0.1)


def pair(number: int, file: str) -> tuple[int, int]:
    wait_for(file)
    return number % 2, number


first, go, second = sys.argv[1:]
sc = SparkContext.getOrCreate()
answers = []
for file in (first, second):
    pairs = sc.parallelize(range(8), 8).map(lambda number, file=file: pair(number, file))
    answers.append(dict(pairs.reduceByKey(add, 2).collect()))
    if file == first:
        wait_for(go)
print(json.dumps({"ok": answers == [{0: 12, 1: 16}] * 2}))
sc.stop()

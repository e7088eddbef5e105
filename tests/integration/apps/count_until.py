"""Counts a file's lines by length again and again until a stop file appears; says whether all were right.

Then it asks Spark for three more executors and to kill executor 2.
"""

import sys
from pathlib import Path

from pyspark import SparkContext

lines, stop = sys.argv[1:]
with Path(lines).open() as file:
    expected = {}
    for line in file:
        expected[len(line) - 1] = expected.get(len(line) - 1, 0) + 1


def weigh(line):
    total = 0
    for _ in range(60):
        total += hash(line)
    return (len(line), 1 + 0 * total)


with SparkContext(appName="count until") as sc:
    rounds = 0
    while not Path(stop).exists():
        answer = dict(sc.textFile("file://" + lines, 4).map(weigh).reduceByKey(lambda a, b: a + b, 2).collect())
        if answer != expected:
            print(f"round {rounds} is wrong: {answer}")
            sys.exit(3)
        rounds += 1
    assert sc._jsc.sc().requestExecutors(3)
    assert sc._jsc.sc().killExecutor("2")
    print(f"all {rounds} rounds right")

"""A few long tasks that read nothing, in one stage after another; checks every task's number exactly.

A task multiplies by `FACTOR` modulo the prime `MODULUS` as often as its number says: FACTOR to that power, which Python's own
`pow` finds in no time. Nothing is read or written, so only its CPU tells how far a task is.
"""

from __future__ import annotations

import argparse
import json
import sys

FACTOR, MODULUS = 48_271, 2_147_483_647


def burn(times: int) -> int:
    """FACTOR to that power, step by step."""
    number = 1
    for _ in range(times):
        number = number * FACTOR % MODULUS
    return number


def main() -> int | str:
    parser = argparse.ArgumentParser(description="A few long tasks that check their answers.")
    parser.add_argument(
        "--millions", type=float, default=60.0, help="millions of multiplications of a task: the size of the job"
    )
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=8, help="of each stage")
    options = parser.parse_args()
    tasks = max(1, options.tasks)
    least = max(1, round(options.millions * 1_000_000))

    from pyspark import SparkContext

    sc = SparkContext(appName="few-long")
    times = [least + task for task in range(tasks)]
    found = [sc.parallelize(times, tasks).map(burn).collect() for _ in range(max(1, options.stages))]
    sc.stop()

    ok = all(numbers == [pow(FACTOR, count, MODULUS) for count in times] for numbers in found)
    print(json.dumps({"answer": {"tasks": tasks, "first": found[0][0]}, "ok": ok}))
    return 0 if ok else "few-long: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

"""Long tasks that read nothing, in one stage after another, all alike or with a long tail; each task's number is checked
exactly.

A task multiplies by `FACTOR` modulo the prime `MODULUS` as often as its number says: FACTOR to that power, which Python's own
`pow` finds in no time. Nothing is read or written, so only its CPU shows how far a task is. With a tail the lengths are those
of a Pareto distribution (exponent `EXPONENT`, at most `MOST` times the shortest): all runs have the same lengths, in another
order.
"""

from __future__ import annotations

import argparse
import json
import random
import sys

FACTOR, MODULUS = 48_271, 2_147_483_647
EXPONENT, MOST = 1.5, 20.0


def burn(times: int) -> int:
    """Return FACTOR to that power, step by step."""
    number = 1
    for _ in range(times):
        number = number * FACTOR % MODULUS
    return number


def with_tail(tasks: int, shortest: int) -> list[int]:
    """Return how often each task multiplies, from the shortest to the longest."""
    shares = [(place + 0.5) / tasks for place in range(tasks)]
    return [round(shortest * min(MOST, (1 - share) ** (-1 / EXPONENT))) for share in shares]


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Long tasks that check their answers.")
    parser.add_argument("--millions", type=float, default=60.0, help="millions of multiplications of the shortest task")
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=8, help="of each stage")
    parser.add_argument("--tail", action="store_true", help="a few tasks are many times as long as most")
    parser.add_argument("--seed", type=int, help="of the order of the tasks (default: another in each run)")
    options = parser.parse_args()
    rng, tasks = random.Random(options.seed), max(1, options.tasks)
    shortest = max(1, round(options.millions * 1_000_000))

    from pyspark import SparkContext

    name = "long-tail" if options.tail else "few-long"
    sc = SparkContext(appName=name)
    ok = True
    for _ in range(max(1, options.stages)):
        times = with_tail(tasks, shortest) if options.tail else [shortest + task for task in range(tasks)]
        rng.shuffle(times)
        ok = ok and sc.parallelize(times, tasks).map(burn).collect() == [pow(FACTOR, count, MODULUS) for count in times]
    sc.stop()

    print(json.dumps({"answer": {"tasks": tasks, "longest": max(times)}, "ok": ok}))
    return 0 if ok else f"{name}: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

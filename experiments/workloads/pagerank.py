"""PageRank in plain PySpark RDDs over a graph of lines "from to"; the answer is checked against a serial computation.

The graph may be compressed (.xz, .gz: the driver reads it, so executors need not see the file) or plain text (read by the
executors). `--copies N` replicates it under new names, so the work grows while every copy's ranks stay the same. rank = 0.15
+ 0.85 * sum of (rank / out-degree) over the packages that depend on a package. The check comes after the SparkContext is
stopped: it is no part of the job.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

DATA = Path(__file__).resolve().parent / "data" / "debian-bookworm-dependencies.txt.xz"
DAMPING = 0.85
TOP = 5
TOLERANCE = 1e-9
"""Relative tolerance: only the order of the sums differs between the serial computation and Spark's."""

UNPACK: dict[str, Callable[[bytes], bytes]] = {".xz": lzma.decompress, ".gz": gzip.decompress}


def read_lines(path: Path) -> list[str]:
    data = path.read_bytes()
    return UNPACK.get(path.suffix, bytes)(data).decode().splitlines()


def lines_of(sc: SparkContext, path: Path, partitions: int) -> RDD[str]:
    if path.suffix in UNPACK:
        return sc.parallelize(read_lines(path), partitions)
    return sc.textFile(path.absolute().as_uri(), partitions)


def copied(line: str, copies: int) -> Iterator[tuple[str, str]]:
    source, target = line.split()
    for copy in range(copies):
        yield f"{source}#{copy}", f"{target}#{copy}"


def contributions(node: tuple[list[str] | None, float | None]) -> Iterator[tuple[str, float]]:
    """Yield what one package gives to its dependencies. A package on which no other depends has got nothing: its rank is
    0.15."""
    targets, received = node
    if targets is not None:
        rank = 1 - DAMPING + DAMPING * (received or 0.0)
        for target in targets:
            yield target, rank / len(targets)


def page_rank(edges: RDD[tuple[str, str]], iterations: int, partitions: int) -> RDD[tuple[str, float]]:
    """Return (package, sum of received shares) after the last iteration, for packages that received any."""
    links = edges.groupByKey(partitions).mapValues(list).persist()
    received = links.flatMap(lambda item: ((target, 1.0 / len(item[1])) for target in item[1]))
    received = received.reduceByKey(lambda a, b: a + b, partitions)
    for _ in range(iterations - 1):
        given = links.leftOuterJoin(received, partitions).flatMap(lambda item: contributions(item[1]))
        received = given.reduceByKey(lambda a, b: a + b, partitions)
    return received


def serial(lines: Iterable[str], iterations: int) -> dict[str, float]:
    """Compute the ranks on one core, without Spark."""
    links: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        source, target = line.split()
        links[source].append(target)
    ranks = dict.fromkeys(links, 1.0)
    for _ in range(iterations):
        received: dict[str, float] = defaultdict(float)
        for source, targets in links.items():
            share = ranks[source] / len(targets)
            for target in targets:
                received[target] += share
        ranks = {source: 1 - DAMPING + DAMPING * received.get(source, 0.0) for source in links}
    return {name: 1 - DAMPING + DAMPING * got for name, got in received.items()}


def close(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * max(abs(a), abs(b))


def main() -> int | str:
    parser = argparse.ArgumentParser(description="PageRank that checks its answer.")
    parser.add_argument("input", nargs="?", type=Path, default=DATA, help="lines 'from to', also .xz or .gz")
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--copies", type=int, default=8, help="times the graph is replicated: the size of the job")
    options = parser.parse_args()

    from pyspark import SparkContext

    sc = SparkContext(appName="pagerank")
    copies = options.copies
    edges = lines_of(sc, options.input, options.partitions).flatMap(lambda line: copied(line, copies))
    ranks = page_rank(edges, options.iterations, options.partitions).mapValues(lambda got: 1 - DAMPING + DAMPING * got)
    ranks.persist()
    total, count = ranks.values().aggregate(
        (0.0, 0), lambda acc, rank: (acc[0] + rank, acc[1] + 1), lambda a, b: (a[0] + b[0], a[1] + b[1])
    )
    top = ranks.filter(lambda item: item[0].endswith("#0")).takeOrdered(TOP, key=lambda item: (-item[1], item[0]))
    sc.stop()

    expected = serial(read_lines(options.input), options.iterations)
    best = sorted(expected.items(), key=lambda item: (-item[1], item[0]))[:TOP]
    found = [(name.removesuffix("#0"), rank) for name, rank in top]
    ok = (
        count == len(expected) * copies
        and close(total, sum(expected.values()) * copies)
        and [name for name, _ in found] == [name for name, _ in best]
        and all(close(a, b) for (_, a), (_, b) in zip(found, best, strict=True))
    )
    for name, rank in found:
        print(f"{rank:12.3f}  {name}")
    print(json.dumps({"answer": {"ranked": count, "sum": round(total, 6), "top": [n for n, _ in found]}, "ok": ok}))
    return 0 if ok else "pagerank: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

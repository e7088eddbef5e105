"""A scan of lines of digits wherever Hadoop finds them, and the sum of a checksum of each; count and sum are checked against
the files' own.

The folder is of `hosted`: `hosted://DIR` with a folder for each host. The right answer was read from the plain files when
they were made, so that is no part of the job. The scan also says how near to their data its tasks ran, as Spark counts it.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

Sums = tuple[int, int]
"""Number of lines, and the sum of their checksums."""


def sums(lines: Iterable[str]) -> Iterator[Sums]:
    count = total = 0
    for line in lines:
        count += 1
        total += zlib.crc32(line.encode())
    yield count, total


def expected(folder: Path) -> Sums:
    """Return the sums of all files, computed once and kept next to their folder, because every file within it is input."""
    kept = folder.with_name(f"{folder.name}.json")
    if not kept.exists():
        found = [next(sums(file.read_text().splitlines())) for file in sorted(folder.glob("*/part-*"))]
        kept.write_text(json.dumps([sum(count for count, _ in found), sum(total for _, total in found)]))
    count, total = json.loads(kept.read_text())
    return int(count), int(total)


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Scan that checks its answer.")
    parser.add_argument("folder", help="hosted://DIR")
    options = parser.parse_args()
    wanted = expected(Path(options.folder.removeprefix("hosted://")))

    from pyspark import SparkContext

    sc = SparkContext(appName="scan")
    found = sc.textFile(f"{options.folder}/*/part-*").mapPartitions(sums).collect()
    # a listener fills the store
    sc._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001 - PySpark has no public name for it
    tasks = sc._jsc.sc().statusStore().taskList(0, 0, 1000)  # noqa: SLF001 - PySpark has no public name for it
    near = collections.Counter(str(tasks.apply(number).taskLocality()) for number in range(tasks.size()))
    sc.stop()
    answer = (sum(count for count, _ in found), sum(total for _, total in found))
    print(json.dumps({"answer": {"lines": answer[0], "sum": answer[1]}, "near": near, "ok": answer == wanted}))
    return 0 if answer == wanted else "scan: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())

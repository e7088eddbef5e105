"""Runs a job, then ends in its own way: well, after a streaming query that is stopped amid a batch, or with exit code 3 after
its SparkContext; or it waits after that job, for ever or until a file is there."""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

how = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
assert sc.parallelize(range(10), 2).count() == 10


def batch(frame, number):
    """Take a batch; the second one takes longer than anyone waits."""
    frame.rdd.map(lambda row: time.sleep(600 if number else 0)).count()


if how == "stream":
    folder = Path(sys.argv[2])
    for number in range(2):
        (folder / f"{number}.txt").write_text("one line\n")
    source = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    query = source.writeStream.foreachBatch(batch).start()
    while not (query.lastProgress and sc.statusTracker().getActiveJobsIds()):
        time.sleep(0.1)
    query.stop()
    assert query.exception() is None
    assert sc.parallelize(range(10), 2).count() == 10
elif how == "fail":
    spark.stop()
    sys.exit(3)
elif how == "wait":
    ready, *until = map(Path, sys.argv[2:])
    ready.touch()
    while not (until and until[0].exists()):
        time.sleep(0.1)
print(json.dumps({"ok": True}))

"""Says which pieces its tasks were given by Spark, and what their processes may see."""

import json
import os

from pyspark import TaskContext
from pyspark.sql import SparkSession


def look(_: int) -> tuple[list[str], str]:
    found = TaskContext.get().resources()
    return sorted(found["gpu"].addresses) if "gpu" in found else [], os.environ.get("CUDA_VISIBLE_DEVICES", "")


sc = SparkSession.builder.getOrCreate().sparkContext
answers = sc.parallelize(range(4), 4).map(look).collect()
print(
    json.dumps(
        {"ok": len(answers) == 4, "addresses": sorted({a for found, _ in answers for a in found}), "visible": answers[0][1]}
    )
)

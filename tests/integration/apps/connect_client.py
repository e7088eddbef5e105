"""A client of Spark Connect: one query three times, the second time with a deadline. Arguments: address,
deadline."""

import json
import sys

from pyspark.sql import SparkSession

address, deadline = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()


def total() -> int:
    return spark.sql("select sum(id * 3) as total from range(0, 1000000, 1, 4)").collect()[0]["total"]


answers = [total()]
spark.sql(f"SET spark.pace.deadline={deadline}")
answers.append(total())
spark.conf.unset("spark.pace.deadline")
answers.append(total())
print(json.dumps({"ok": answers == [3 * 999_999 * 1_000_000 // 2] * 3}))
spark.stop()

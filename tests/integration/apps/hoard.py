"""Prints what bounds an executor, then keeps that many MiB of cached data on its disk and floods its output."""

import json
import os
import resource
import sys

from pyspark import StorageLevel
from pyspark.sql import SparkSession

kept_mb = int(sys.argv[1])
sc = SparkSession.builder.getOrCreate().sparkContext


def bounds(_):
    written = []
    for folder in ("/", "/etc", "/usr/bin", "/var/tmp", "/root", "/home", "/opt"):
        try:
            os.close(os.open(f"{folder}/written", os.O_CREAT | os.O_WRONLY))
            written.append(folder)
        except OSError:
            continue
    tmp = os.statvfs("/tmp")
    for _ in range(60_000):
        os.write(1, b"a flood of output\n" * 64)
    return [
        {
            "written": written,
            "tmp_mb": tmp.f_blocks * tmp.f_frsize >> 20,
            "core": resource.getrlimit(resource.RLIMIT_CORE),
        }
    ]


def pieces(_):
    for _ in range(kept_mb):
        yield os.urandom(1 << 20)


print(json.dumps(sc.parallelize(range(1), 1).mapPartitions(bounds).collect()[0]), flush=True)
kept = sc.parallelize(range(1), 1).mapPartitions(pieces).persist(StorageLevel.DISK_ONLY)
while True:
    assert kept.count() == kept_mb

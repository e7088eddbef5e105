"""Files that executors see: --py-files, --files, --archives, --mount. Arguments: a readable and a writable mount."""

import json
import os
import sys
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

readable, writable = sys.argv[1:]
sc = SparkSession.builder.getOrCreate().sparkContext


def look(number):
    import helper_module  # from --py-files, hence only there

    def refused(path):
        try:
            Path(path).write_text("no")
        except OSError:
            return True
        return False

    (Path(writable) / f"from-{number}").write_text("written")
    return {
        "module": helper_module.triple(14),
        "file": Path(SparkFiles.get("note.txt")).read_text(),
        "archive": Path(SparkFiles.get("box"), "inner.txt").read_text(),
        "mount": (Path(readable) / "given.txt").read_text(),
        "read_only": refused(Path(readable) / "forbidden.txt"),
        "uid": os.getuid(),
    }


print(json.dumps({"seen": sc.parallelize(range(4), 4).map(look).collect()}))

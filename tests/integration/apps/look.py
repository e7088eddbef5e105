"""Finds of tasks below a folder: files with the given contents (SHA-256, hex) and databases; and the content of one more
file.

Arguments: folder, the further file, digests.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

folder, other, *digests = sys.argv[1:]
sc = SparkSession.builder.getOrCreate().sparkContext


def content(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def look(_):
    found = []
    for place, _folders, files in os.walk(folder, followlinks=True):
        for name in files:
            data = content(Path(place, name))
            if hashlib.sha256(data).hexdigest() in digests or data.startswith(b"SQLite format 3"):
                found.append(str(Path(place, name)))
    return {"found": sorted(found), "other": content(other).decode()}


print(json.dumps({"seen": sc.parallelize(range(2), 2).map(look).collect()}))

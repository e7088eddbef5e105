"""Prints as JSON what the tasks of this application see of their environment, in Python and in the JVM."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


def seen() -> dict[str, Any]:
    """Describe the environment of a task in Python."""
    import getpass
    import locale
    import os
    import resource
    import sys
    import tempfile
    import time
    from pathlib import Path

    umask = os.umask(0)
    os.umask(umask)
    return {
        "variables": dict(os.environ),
        "umask": umask,
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": sorted({os.getgid(), *os.getgroups()}),
        "user": getpass.getuser(),
        "home": str(Path.home()),
        "temporary folder": tempfile.gettempdir(),
        "working folder": str(Path.cwd()),
        "encoding": locale.getpreferredencoding(False),
        "encoding of names": sys.getfilesystemencoding(),
        "zone": time.strftime("%Z %z", time.localtime(1_782_900_000)),
        "hash": hash("a"),
        "nice": os.nice(0),
        "python": sys.executable,
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")},
    }


PROPERTIES = (
    *("file.encoding", "sun.jnu.encoding", "user.name", "user.home", "user.dir", "user.timezone", "user.language"),
    *("java.io.tmpdir", "java.home", "line.separator", "file.separator", "my.own"),
)
spark = SparkSession.builder.appName("environment").getOrCreate()
properties = [f"reflect('java.lang.System', 'getProperty', '{name}') `{name}`" for name in PROPERTIES]
defaults = [
    "reflect('java.nio.charset.Charset', 'defaultCharset') `charset`",
    "reflect('java.util.Locale', 'getDefault') `locale`",
    "date_format(timestamp_seconds(1782900000), 'HH:mm') `hour`",
    "reflect('java.lang.System', 'getProperty', 'java.class.path') `class path`",
]
jvm = spark.range(1).repartition(1).selectExpr(*properties, *defaults).collect()[0].asDict()
python = spark.sparkContext.parallelize([0], 1).map(lambda _: seen()).collect()[0]
print(json.dumps({"python": python, "jvm": jvm}))
spark.stop()

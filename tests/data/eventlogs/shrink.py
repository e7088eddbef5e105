"""Makes a log that Spark wrote small and free of its machine: `python shrink.py LOG OUT`.

Every event stays in place; of the environment only what names the application stays, paths become neutral, and of the
SQL plans' texts (which nothing here reads) only the beginning stays. OUT is compressed as its suffix says (.zstd in
several frames, as Spark 4 writes it; .gz). The logs here came from:

    spark-submit --master local[2] --conf spark.eventLog.enabled=true --conf spark.sql.shuffle.partitions=4
        --conf spark.sql.autoBroadcastJoinThreshold=-1 app.py [SIZE]

    eventlog_v2_golden   4.3.0, rolling and zstd (its defaults), size 4000
    spark43.gz           4.3.0, one plain file, size 8000, four lines put in above the first call of Spark
    spark35.gz           3.5.9, one plain file (its default), size 4000
"""

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

from backports import zstd

KEPT_SETTINGS = {"spark.app.name", "spark.app.id", "spark.app.submitTime", "spark.app.startTime", "spark.master"}
KEPT_PROPERTIES = {"spark.sql.execution.id", "spark.rdd.scope", "callSite.short", "spark.job.description"}


def shrunk(event: dict[str, Any]) -> dict[str, Any]:
    if event["Event"] == "SparkListenerEnvironmentUpdate":
        command = re.sub(r" --conf spark\.eventLog\S+", "", event["System Properties"]["sun.java.command"])
        return {
            "Event": event["Event"],
            "Spark Properties": {k: v for k, v in event["Spark Properties"].items() if k in KEPT_SETTINGS},
            "System Properties": {"sun.java.command": command},
        }
    if event.get("Properties"):
        event["Properties"] = {k: v for k, v in event["Properties"].items() if k in KEPT_PROPERTIES}
    return {key: cut(value) for key, value in event.items()}


def cut(value: Any) -> Any:
    if isinstance(value, dict):
        value = {k: cut(v) for k, v in value.items() if k not in {"Accumulables", "metrics", "modifiedConfigs"}}
        return value | {"Host": "127.0.0.1"} if "Host" in value else value
    if isinstance(value, list):
        return [cut(v) for v in value]
    if isinstance(value, str):
        return re.sub(r"/\S*/(\w+)/app\.py", r"/home/me/\1/app.py", value)[:300]
    return value


def main(source: Path, target: Path) -> None:
    opened = zstd.open(source, "rt") if source.suffix == ".zstd" else source.open()
    with opened as log:
        lines = [json.dumps(shrunk(json.loads(line)), separators=(",", ":")).encode() + b"\n" for line in log]
    if target.suffix == ".gz":
        target.write_bytes(gzip.compress(b"".join(lines), 9, mtime=0))
    else:
        frames = [b"".join(lines[:1]), *(b"".join(lines[i : i + 40]) for i in range(1, len(lines), 40))]
        target.write_bytes(b"".join(zstd.compress(frame, 19) for frame in frames))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

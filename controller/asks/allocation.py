"""The most executors that Spark may want for an application, from its settings."""

from __future__ import annotations

from collections.abc import Mapping

DYNAMIC = "spark.dynamicAllocation.enabled"
MAX_EXECUTORS = "spark.dynamicAllocation.maxExecutors"


def most_executors(conf: Mapping[str, str], wanted: int | None) -> int | None:
    """Return the largest number of executors; None: any number. With dynamic allocation, the executors that Spark has
    `wanted` so far are no limit: Spark wants more while tasks wait."""
    if conf.get(DYNAMIC, "").strip().lower() != "true":
        return wanted
    most = conf.get(MAX_EXECUTORS, "").strip()
    return int(most) if most.isdecimal() else None

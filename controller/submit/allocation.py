"""The most executors that Spark may want for an application, from its settings."""

from __future__ import annotations

from collections.abc import Mapping

DYNAMIC, MOST = "spark.dynamicAllocation.enabled", "spark.dynamicAllocation.maxExecutors"


def most_executors(conf: Mapping[str, str], wanted: int | None) -> int | None:
    """None: any number. With dynamic allocation what Spark has `wanted` so far is no limit: it wants more as tasks wait."""
    if conf.get(DYNAMIC, "").strip().lower() != "true":
        return wanted
    most = conf.get(MOST, "").strip()
    return int(most) if most.isdecimal() else None

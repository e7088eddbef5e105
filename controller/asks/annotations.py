"""Annotations of a driver's pod that say what settings `spark.pace.*` say, as Spark's own settings name them. Pure.

`spark-submit` and the Spark operator hand a driver the annotations that they give its pod as settings. One that is written to
the pod in another way (a pod template, `kubectl annotate`) is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.asks.job_setting import PREFIX
from stage_model.errors import BadInput

OURS = "sparkpace.io/"
ANNOTATED = ("deadline", "priority")
"""Names of the settings that annotations of these names give, below `OURS`."""
_OF_DRIVERS = f"spark.kubernetes.driver.annotation.{OURS}"


def with_annotations(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings and those that annotations give; a setting goes before an annotation. Raise `BadInput` for an
    annotation of ours that says nothing."""
    given = {key.removeprefix(_OF_DRIVERS): text for key, text in conf.items() if key.startswith(_OF_DRIVERS)}
    for name in given:
        if name not in ANNOTATED:
            known = " and ".join(OURS + one for one in ANNOTATED)
            raise BadInput(f"{OURS}{name[:91]} is no annotation of a driver's pod that is read; there are {known}")
    return {PREFIX + name: text for name, text in given.items()} | dict(conf)

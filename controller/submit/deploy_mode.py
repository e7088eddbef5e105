"""The check of the deploy mode: `sparkpace submit` stays with its driver. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from controller.asks.submit_args import SubmitArguments
from stage_model.errors import BadInput

DEPLOY_MODE = "spark.submit.deployMode"
CLIENT = "client"


def check_deploy_mode(
    arguments: SubmitArguments, file: Mapping[str, str], environment: Mapping[str, str], master: str | None
) -> None:
    """Check the first mode that is given, in the order of spark-submit (SparkSubmitArguments): the option, `--conf`, the
    files of settings (`file`), the environment. `master` is the URL of another cluster manager; None means Sparkpace. Raise
    `BadInput` for a mode in which the driver would run where it cannot be attached."""
    asked = {
        "--deploy-mode": arguments.spark_options.get("--deploy-mode"),
        f"--conf {DEPLOY_MODE}": arguments.conf.get(DEPLOY_MODE),
        f"{DEPLOY_MODE} in the file of settings": file.get(DEPLOY_MODE),
        "the environment variable DEPLOY_MODE": environment.get("DEPLOY_MODE"),
    }
    where, mode = next(((where, mode) for where, mode in asked.items() if mode is not None), ("", CLIENT))
    if mode == CLIENT:
        return
    if master is None:
        raise BadInput(f"{where} {mode[:80]!r} is not offered; accepted: {CLIENT}, because the driver runs here")
    if master.startswith("k8s://"):
        raise BadInput(
            f"{where} {mode[:80]!r} is not offered by `sparkpace submit`, which stays with its driver; accepted: {CLIENT}, "
            "or spark-submit with the settings of `sparkpace conf --attach --kubernetes`"
        )

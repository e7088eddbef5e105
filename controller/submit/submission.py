"""One submission: everything checked that can be checked without contacting anyone, and the spark-submit command.

Reads the files that the user named, nothing else; running it is `controller.submit.driver_run`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from controller.home import Cluster, Home
from controller.local_zone import local_zone
from controller.submit.allocation import most_executors
from controller.submit.attaching import JARS, attach_settings, check_attached, joined
from controller.submit.authentication import authenticated
from controller.submit.bridge_jar import bridge_jar, driver_settings
from controller.submit.job_options import CLOSED, PREFIX, job_options
from controller.submit.mounts import format_mounts, parse_mount
from controller.submit.profile_choice import ProfileChoice, read_profile
from controller.submit.properties import parse_properties
from controller.submit.spark_install import SparkInstall
from controller.submit.submit_args import SubmitArguments
from controller.wire.worker import Mount
from placement.dependencies import parse_after
from stage_model.errors import BadInput
from stage_model.laws import parse_constants, parse_law
from stage_model.units import parse_deadline, parse_priority

CLASS_PATH = "spark.driver.extraClassPath"
INSTANCES = "spark.executor.instances"
DRIVER_PLACES = ("spark.driver.host", "spark.driver.bindAddress")
LOOPBACK = "127.0.0.1"
OFF_HEAP, PAGES = "spark.memory.offHeap.", "spark.buffer.pageSize"
EXECUTOR_OPTIONS = {
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
    "--total-executor-cores": "spark.cores.max",
}
EXECUTORS = ("spark.executor.", "spark.cores.max", "spark.dynamicAllocation.")
"""Settings that say how many executors there are, and how large."""
MOST_ARGUMENTS = 8192
"""Characters; longer arguments are not recorded with the run (one word of a command line is bounded by the kernel)."""


@dataclass(frozen=True, slots=True)
class Submission:
    """`deadline_s` counts from the submission, which was at `submitted_ms` of the wall clock and at `submitted_uptime` of the
    machine's (`process_identity.uptime`). `law_settings` come from `spark.pace.law.*`."""

    arguments: SubmitArguments
    submission: str
    submitted_ms: int
    submitted_uptime: str
    application: str
    main: str
    deadline_s: float | None = None
    priority: int | None = None
    law: str | None = None
    profile: ProfileChoice = field(default_factory=ProfileChoice)
    law_settings: dict[str, float] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    image: str | None = None
    python: str | None = None
    executors: int | None = None
    executor_cores: int | None = None
    name: str | None = None
    closed: bool = False
    master: str | None = None
    """Of another cluster manager, which starts the executors; None: ours does."""


def check_submission(
    arguments: SubmitArguments, *, submission: str, submitted_ms: int, submitted_uptime: str, working_dir: Path
) -> Submission:
    """Raises `BadInput` for the first thing that is wrong."""
    own = {**_from_conf(arguments.conf), **arguments.own}
    options = arguments.spark_options
    master = _other_master(arguments)
    here = options.get("--deploy-mode", arguments.conf.get("spark.submit.deployMode", "client")) == "client"
    if master is None and not here:
        raise BadInput("--deploy-mode cluster is not offered; the driver runs here, in client mode")
    if master is not None and master.startswith("k8s://") and not here:
        raise BadInput(
            "--deploy-mode cluster is not offered by `sparkpace submit`, which stays with its driver; accepted: client mode, "
            "or spark-submit with the settings of `sparkpace conf --attach --kubernetes`"
        )
    now = datetime.fromtimestamp(submitted_ms / 1000, local_zone(os.environ))

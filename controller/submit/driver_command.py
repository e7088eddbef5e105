"""The spark-submit command of a checked submission: its settings, variables and words; the user's come before Sparkpace's.

This module reads the user's files of settings, nothing else; running the command is `controller.submit.driver_run`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from controller.asks.job_options import SETTINGS, setting_texts
from controller.asks.properties import parse_properties
from controller.asks.submit_args import check_deploy_mode
from controller.home import Cluster, Home
from controller.machine.addresses import LOOPBACK, is_loopback
from controller.machine.files import why_unreadable
from controller.submit.authentication import authenticated
from controller.submit.bridge_jar import JARS, attach_settings, bridge_jar, driver_settings, joined, unsaid
from controller.submit.spark_install import SparkInstall
from controller.submit.submission import INSTANCES, Submission
from stage_model.errors import BadInput

CLASS_PATH = "spark.driver.extraClassPath"
DRIVER_PLACES = ("spark.driver.host", "spark.driver.bindAddress")
OFF_HEAP, PAGES = "spark.memory.offHeap.", "spark.buffer.pageSize"
EXECUTOR_OPTIONS = {
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": INSTANCES,
    "--total-executor-cores": "spark.cores.max",
}
EXECUTORS = ("spark.executor.", "spark.cores.max", "spark.dynamicAllocation.")
"""Settings of the number and size of executors."""


def driver_file(job: Submission, *, spark: SparkInstall, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for the driver's --properties-file: the user's file, and Spark's authentication. Raise
    `BadInput`."""
    file = _file_settings(job, spark, environment)
    if job.master is not None:  # that cluster manager decides on Spark's own authentication
        return file
    return authenticated(file, job.arguments.conf, encrypt="encrypt" in job.arguments.flags)


def deploy_mode(job: Submission, *, spark: SparkInstall, environment: Mapping[str, str]) -> str:
    """Return the deploy mode. Raise `BadInput`, also if a file asks for a mode that is not offered."""
    return check_deploy_mode(job.arguments, _file_settings(job, spark, environment), environment, job.master)


def command(
    job: Submission, *, home: Home, cluster: Cluster, spark: SparkInstall, environment: Mapping[str, str], file: str
) -> list[str]:
    """Return spark-submit's arguments: the user's in their order, Sparkpace's where the user gives none, then the
    application. `file` holds the `driver_file`."""
    users = _users_settings(job, spark, environment)
    settled = _attached if job.master is not None else _own
    files, ours = settled(job, users, home, cluster)
    return [
        str(spark.submit),
        *("--master", job.master or cluster.spark_master),
        *job.arguments.spark,
        *("--properties-file", file),
        *files,
        *(part for key, value in (ours | _pace_settings(job)).items() for part in ("--conf", f"{key}={value}")),
        job.application,
        *job.arguments.application_args,
    ]


def _attached(job: Submission, users: dict[str, str], home: Home, cluster: Cluster) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return Sparkpace's options and settings for a driver whose executors another cluster manager starts."""
    jars = job.arguments.spark_options.get("--jars")
    ours = joined(attach_settings(home, cluster), users if jars is None else users | {JARS: jars})
    return () if jars is None else ("--jars", ours.pop(JARS)), ours  # an option wins over a setting


def _own(job: Submission, users: dict[str, str], home: Home, cluster: Cluster) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return Sparkpace's options and settings for a driver whose executors Sparkpace starts."""
    options = job.arguments.spark_options
    class_path = options.get("--driver-class-path") or users.get(CLASS_PATH)
    ours = _our_settings(users)
    places = driver_places(cluster)
    if not places.keys() & users.keys():  # a user's setting and one of Sparkpace's would name two addresses
        ours |= places
    if "--num-executors" in options and INSTANCES not in job.arguments.conf:
        # spark-submit itself honours --num-executors for YARN and Kubernetes only.
        ours[INSTANCES] = options["--num-executors"]
    ours |= {SETTINGS["token.file"].key: str(home.submit_token_file), SETTINGS["ca.file"].key: str(home.ca_file)}
    jar = str(bridge_jar())
    return ("--driver-class-path", f"{jar}{os.pathsep}{class_path}" if class_path else jar), ours


def driver_places(cluster: Cluster) -> dict[str, str]:
    """Return the settings of the address where a driver listens for executors; none where Spark's own choice is right."""
    address = _driver_address(cluster)
    return dict.fromkeys(DRIVER_PLACES, address) if address else {}


def driver_variables(cluster: Cluster, environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables for the driver's environment, which is the only place for the address at which Spark's UI listens
    (WebUI.bind) and for the host in its links. Return none where the user sets one, or where a variable would move an address
    that executors need."""
    if not _driver_address(cluster) or "SPARK_LOCAL_IP" in environment:
        return {}
    return {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_PUBLIC_DNS": environment.get("SPARK_PUBLIC_DNS", LOOPBACK)}


def _driver_address(cluster: Cluster) -> str:
    return cluster.driver_host or (LOOPBACK if is_loopback(cluster.host) else "")


def executor_settings(job: Submission, *, spark: SparkInstall, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the number, size and memory of executors follow from, as the driver will start with them."""
    users = _users_settings(job, spark, environment)
    given = job.arguments.spark_options
    options = {setting: given[option] for option, setting in EXECUTOR_OPTIONS.items() if option in given}
    found = {**_our_settings(users), **users, **options}
    return {key: value for key, value in found.items() if key.startswith((*EXECUTORS, OFF_HEAP, PAGES))}


def _users_settings(job: Submission, spark: SparkInstall, environment: Mapping[str, str]) -> dict[str, str]:
    return {**_file_settings(job, spark, environment), **job.arguments.conf}


def _our_settings(users: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a driver needs from its start and that the user does not give."""
    ours = unsaid(driver_settings(), users)
    if any(key.startswith(OFF_HEAP) for key in users):
        # a user who sets off-heap memory keeps that size, and Spark's pages with it
        ours = {key: value for key, value in ours.items() if not key.startswith((OFF_HEAP, PAGES))}
    return ours


def _pace_settings(job: Submission) -> dict[str, str]:
    """Return the settings of Sparkpace that the driver starts with and that the command line does not have in this form."""
    arguments = job.recorded_arguments
    texts = setting_texts(job.asked, job.given)
    if job.profile.given:
        texts["profile"] = str(job.profile.file or job.profile.name)
    if job.waited:  # the wait is over, so these settings overrule the user's
        texts |= {"after": "", "waited": job.submission, "force": "true"}
    if "exec" not in job.arguments.flags:  # so this process stays and will report how the driver has ended
        texts["submission"] = job.submission
    if job.name is not None:
        texts["name"] = job.name
    if arguments is not None:
        texts["arguments"] = json.dumps(arguments)
    texts |= {"submit.time.ms": str(job.submitted_ms), "submit.uptime": job.submitted_uptime, "main": job.main}
    found = {SETTINGS[name].key: text for name, text in texts.items()}
    return {key: text for key, text in found.items() if job.arguments.conf.get(key) != text}


def _file_settings(job: Submission, spark: SparkInstall, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that spark-submit would read from the user's files: --properties-file, or spark-defaults.conf, or
    both."""
    named = job.arguments.spark_options.get("--properties-file")
    defaults = Path(environment.get("SPARK_CONF_DIR") or spark.home / "conf") / "spark-defaults.conf"
    if named is None:
        return _read(defaults)
    both = "--load-spark-defaults" in job.arguments.spark
    return {**(_read(defaults) if both else {}), **_read(Path(named), named)}


def _read(file: Path, named: str = "") -> dict[str, str]:
    """Read a file of settings; a file that is not `named` need not be there."""
    try:
        return parse_properties(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named:
            raise BadInput(f"--properties-file {named} does not exist; name an existing file") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        why = why_unreadable(error)
        raise BadInput(f"settings file {file} cannot be read ({why}); it must be a readable UTF-8 file") from error

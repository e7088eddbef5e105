"""The bridge jar that the package carries, the driver settings inside it, and the settings of a driver whose executors
another cluster manager starts and Sparkpace paces. See docs/integrations.md."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from controller.asks.properties import parse_properties
from controller.home import Cluster, Home
from controller.machine.addresses import is_loopback
from stage_model.errors import BadInput, Unavailable

JAR = Path(__file__).resolve().parents[1] / "jars" / "sparkpace-bridge.jar"
SETTINGS = "org/sparkpace/bridge/driver-settings.properties"

TIMEOUT, READING = "spark.network.timeout", "spark.shuffle.io.connectionTimeout"
"""Spark takes the first for the second where that is not set."""
JARS, PLUGINS = "spark.jars", "spark.plugins"
MEMORY = ("spark.memory.", "spark.buffer.")
"""Settings of off-heap memory, which the cluster manager decides on, so Sparkpace sets none of them."""
SUBMIT_SECRET, SUBMIT_PATH = "sparkpace-submit", "/etc/sparkpace"
"""Kubernetes secret with `ca.pem` and `submit.token`, and its path in the driver's pod."""
BRIDGE_SECRET, BRIDGE_PATH = "sparkpace-bridge", "/opt/sparkpace"
"""Kubernetes secret with the bridge jar, and its path in all pods of a job. The jar is no secret, but of all
objects that hold files, Spark mounts only secrets by settings."""


def bridge_jar() -> Path:
    """Return the path of the jar. Raise `Unavailable` when the project was not built."""
    if not JAR.is_file():
        raise Unavailable(f"the bridge jar {JAR} is missing; build it with `make` in the project's root")
    return JAR


def driver_settings() -> dict[str, str]:
    """Return the settings that a driver needs so that squeezed executors are never declared lost and tasks find out about
    lost ones; a user's own values win over them."""
    try:
        with zipfile.ZipFile(bridge_jar()) as archive:
            return parse_properties(archive.read(SETTINGS).decode("utf-8"))
    except (KeyError, zipfile.BadZipFile) as error:
        raise Unavailable(f"the bridge jar {JAR} is damaged ({error}); build it again with `make`") from error


def unsaid(ours: Mapping[str, str], users: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Sparkpace that the user does not set."""
    said = {*users, READING} if TIMEOUT in users else users.keys()
    return {key: value for key, value in ours.items() if key not in said}


def attach_settings(home: Home, cluster: Cluster) -> dict[str, str]:
    """Return the settings that any driver needs to attach to this cluster's master; the jar's path and the home's are this
    machine's."""
    return {
        **_attaching(cluster),
        JARS: str(bridge_jar()),
        "spark.pace.token.file": str(home.submit_token_file),
        "spark.pace.ca.file": str(home.ca_file),
    }


def pod_settings(cluster: Cluster) -> dict[str, str]:
    """Return the settings for a driver in a pod of Kubernetes: all files come from the two secrets, so images and pod
    templates need nothing. Raise `BadInput` for a master that no pod reaches."""
    if is_loopback(cluster.host) or cluster.host in ("0.0.0.0", "::"):
        raise BadInput(
            f"the master's address is {cluster.host}, where a pod reaches only itself; give an address that pods "
            "reach by `up --host` or SPARKPACE_MASTER"
        )
    jar = f"{BRIDGE_PATH}/{JAR.name}"
    return {
        **_attaching(cluster),
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
        "spark.kubernetes.driver.secrets." + SUBMIT_SECRET: SUBMIT_PATH,
        "spark.kubernetes.driver.secrets." + BRIDGE_SECRET: BRIDGE_PATH,
        "spark.kubernetes.executor.secrets." + BRIDGE_SECRET: BRIDGE_PATH,
        "spark.pace.token.file": f"{SUBMIT_PATH}/submit.token",
        "spark.pace.ca.file": f"{SUBMIT_PATH}/ca.pem",
    }


def _attaching(cluster: Cluster) -> dict[str, str]:
    settings = {key: value for key, value in driver_settings().items() if not key.startswith(MEMORY)}
    return settings | {"spark.pace.master": cluster.spark_master}


def joined(ours: Mapping[str, str], users: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Sparkpace that the user does not set; for lists (jars, plugins), return the user's entries with
    Sparkpace's."""
    lists = {key: f"{users[key]},{ours[key]}" for key in (JARS, PLUGINS) if users.get(key, "").strip()}
    return {**unsaid(ours, users), **lists}

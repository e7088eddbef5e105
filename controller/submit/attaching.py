"""Settings of a driver whose executors another cluster manager starts, and which is paced here all the same: pure."""

from __future__ import annotations

from collections.abc import Mapping

from controller.home import Cluster, Home
from controller.machine.addresses import is_loopback
from controller.submit.bridge_jar import JAR, bridge_jar, driver_settings, unsaid
from stage_model.errors import BadInput

JARS, PLUGINS = "spark.jars", "spark.plugins"
MEMORY = ("spark.memory.", "spark.buffer.")
"""Settings of off-heap memory, which is the cluster manager's affair, so nothing of ours is set about it."""
SUBMIT_SECRET, SUBMIT_PATH = "sparkpace-submit", "/etc/sparkpace"
"""Kubernetes secret with `ca.pem` and `submit.token`, and its path in the driver's pod."""
BRIDGE_SECRET, BRIDGE_PATH = "sparkpace-bridge", "/opt/sparkpace"
"""Kubernetes secret with the bridge jar, and its path in all pods of a job. The jar is no secret, but of all that can hold a
file, secrets are what Spark mounts by settings only."""


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
            f"the master's address is {cluster.host}, where a pod reaches only itself; give one that pods reach by "
            "`up --host` or SPARKPACE_MASTER"
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
    """Return our settings where the user says nothing; of lists (jars, plugins) both."""
    lists = {key: f"{users[key]},{ours[key]}" for key in (JARS, PLUGINS) if users.get(key, "").strip()}
    return {**unsaid(ours, users), **lists}

"""Settings of a driver whose executors another cluster manager starts, and which is paced here all the same: pure."""

from __future__ import annotations

from collections.abc import Mapping

from controller.home import Cluster, Home
from controller.submit.bridge_jar import bridge_jar, driver_settings
from stage_model.errors import BadInput

JARS, PLUGINS = "spark.jars", "spark.plugins"
MEMORY = ("spark.memory.", "spark.buffer.")
"""Off-heap memory is the cluster manager's affair, so nothing of ours is set about it."""
STARTING = ("image", "python", "mounts", "network", "after", "placement.", "locality.")
"""Settings that say how and where executors start, below `spark.pace.`."""


def attach_settings(home: Home, cluster: Cluster) -> dict[str, str]:
    """What any driver needs to attach to this cluster's master; the jar's path and the home's are this machine's."""
    return {
        **{key: value for key, value in driver_settings().items() if not key.startswith(MEMORY)},
        JARS: str(bridge_jar()),
        "spark.pace.master": f"sparkpace://{cluster.host}:{cluster.port}",
        "spark.pace.token.file": str(home.submit_token_file),
        "spark.pace.ca.file": str(home.ca_file),
    }


def joined(ours: Mapping[str, str], users: Mapping[str, str]) -> dict[str, str]:
    """Ours where the user says nothing; of lists (jars, plugins) both."""
    lists = {key: f"{users[key]},{ours[key]}" for key in (JARS, PLUGINS) if users.get(key, "").strip()}
    return {**{key: value for key, value in ours.items() if key not in users}, **lists}


def check_attached(settings: Mapping[str, str]) -> None:
    """Raises `BadInput` for what only whoever starts executors can keep; names are those below `spark.pace.`."""
    for name in settings:
        if name.startswith(STARTING):
            raise BadInput(
                f"spark.pace.{name} says how executors start, which another cluster manager does here; accepted: that "
                "manager's own settings, or `sparkpace submit` without --master"
            )

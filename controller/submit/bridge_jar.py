"""The bridge jar that the package carries, and the driver settings inside it. See docs/integrations.md."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from controller.asks.properties import parse_properties
from stage_model.errors import Unavailable

JAR = Path(__file__).resolve().parents[1] / "jars" / "sparkpace-bridge.jar"
SETTINGS = "org/sparkpace/bridge/driver-settings.properties"

TIMEOUT, READING = "spark.network.timeout", "spark.shuffle.io.connectionTimeout"
"""Spark takes the first for the second where that is not set."""


def bridge_jar(jar: Path = JAR) -> Path:
    """Return the path of the jar. Raise `Unavailable` when the project was not built."""
    if not jar.is_file():
        raise Unavailable(f"the bridge jar {jar} is missing; build it with `make` in the project's root")
    return jar


def driver_settings(jar: Path = JAR) -> dict[str, str]:
    """Return the settings that a driver needs so that squeezed executors are never declared lost and tasks find out about
    lost ones; a user's own values win over them."""
    try:
        with zipfile.ZipFile(bridge_jar(jar)) as archive:
            return parse_properties(archive.read(SETTINGS).decode("utf-8"))
    except (KeyError, zipfile.BadZipFile) as error:
        raise Unavailable(f"the bridge jar {jar} is damaged ({error}); build it again with `make`") from error


def unsaid(ours: Mapping[str, str], users: Mapping[str, str]) -> dict[str, str]:
    """Return those of our settings of which the user says nothing."""
    said = {*users, READING} if TIMEOUT in users else users.keys()
    return {key: value for key, value in ours.items() if key not in said}

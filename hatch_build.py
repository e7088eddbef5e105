"""Build hook: a wheel without the bridge's jar could start no application, so it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarHook(BuildHookInterface):  # type: ignore[type-arg]  # generic only in some versions of hatchling
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Raises when a wheel is built for others (`version` is not "editable") and there is no jar to put in it."""
        if version == "editable" or any(Path(self.root, "controller", "jars").glob("*.jar")):
            return
        raise RuntimeError("controller/jars holds no jar: run `make jar` (it needs a JDK) before building a wheel.")

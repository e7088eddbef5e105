"""Build hook: a wheel has one name at its top; a wheel without the bridge's jar could start no application and is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):  # type: ignore[type-arg]  # generic only in some versions of hatchling
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raise when a wheel is built for others (`version` is not "editable") and there is no jar to put in it."""
        if version == "editable":
            return
        if not any(Path(self.root, "controller", "jars").glob("*.jar")):
            raise RuntimeError("controller/jars holds no jar: run `make jar` (it needs a JDK) before building a wheel.")
        build_data["force_include"]["sparkpace.py"] = "__init__.py"  # below `sparkpace/`, like everything (pyproject.toml)

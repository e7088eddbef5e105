"""An agent's options as `sparkpace up` would write them, for a master that does not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.asks.options import AgentOptions
from controller.cli.service_option import option_defaults
from controller.cli.service_options import AGENT


def agent_options(home: Path, **changed: Any) -> AgentOptions:
    """Make options of worker w1: two cores, plain processes."""
    plain = {"worker_id": "w1", "cores": 2.0, "memory_mb": 1024, "runtime": "process", "master_url": "https://127.0.0.1:1"}
    unlike = {"network": "host", "local_limit": "none", "allow_mounts": ()}
    return AgentOptions(home=home, **{**option_defaults(AGENT), **plain, **unlike, **changed})
